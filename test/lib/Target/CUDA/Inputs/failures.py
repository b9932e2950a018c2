"""Lets each function of one of NVIDIA's libraries fail in turn: in one run its first call, and, if that ends the run, in another one its third.

usage: failures.py PROGRAM DATA STUBS OUT ERROR LIBRARY [ARGUMENT...]
LIBRARY is how the names of its functions begin: cu, cublasLt, nccl. ERROR is what they return.

A run must end within its time with a documented exit code and a message, or it succeeds and trains the same weights: then the function is
not called, or the program can do without it. Prints how many functions end a run, and the names of the others.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

CODES = {69, 70, 76, 78}  # a library, a defect or the device, a peer or a collective, memory
program, data, stubs, out, error, prefix, *arguments = sys.argv[1:]


def functions():
    """The functions of a library that report errors: not those that return a text."""
    library = pathlib.Path(stubs) / {"cu": "libcuda.so.1", "cublasLt": "libcublasLt.so.13", "nccl": "libnccl.so.2"}[prefix]
    text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    found = re.findall(rf" T ({prefix}[A-Z]\w*)$", text, re.M)
    # The stand-ins know versions of a function by one name.
    return sorted({re.sub(r"_v\d$", "", name) for name in found if not re.search("Error(Name|String)|Status(Name|String)|GetVersion|GetLastError", name)})


def train(fault):
    """Returns the exit code, the messages, and the weights of a run that succeeds."""
    folder = pathlib.Path(out) / "run"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        run = subprocess.run([program, "--data", data, "--steps", "3", "--out", folder, "--cuda-libraries", stubs, "--comm-timeout", "5", *arguments],
                             capture_output=True, text=True, timeout=120, env={**os.environ, "SHALE_STUB_FAIL": fault})
    except subprocess.TimeoutExpired:
        sys.exit(f"{fault}: the run hangs")
    weights = (folder / "model.safetensors").read_bytes() if run.returncode == 0 else None
    return run.returncode, run.stderr, weights


code, text, right = train("")
if code:
    sys.exit(f"the run fails by itself: {text}")


def ends(name, call):
    """Whether a run ends with an error."""
    code, text, weights = train(f"{name}@{call}={error}")
    if code == 0 and weights != right:
        sys.exit(f"{name}, call {call}: the run goes on with other weights: {text}")
    if code and (code not in CODES or not re.search(r"^(rank \d+: )?error: ", text, re.M)):
        sys.exit(f"{name}, call {call}: exit code {code}: {text}")
    return code != 0


names = functions()
harmless = [name for name in names if not ends(name, 1)]
for name in names:
    if name not in harmless:
        ends(name, 3)
print(f"{len(names) - len(harmless)} of {len(names)} functions end the run; without effect:", " ".join(harmless))
