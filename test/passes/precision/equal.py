"""Compares a fixture with 16-bit floats before and after each stage.

usage: equal.py SHALEC MODEL RANKS STRATEGY FLAG...

- Precision changes only roundings. Casts have no effect in f64, so both programs agree within 1e-12 there (with masters; without masters
  the initial values are also rounded).
- The roundings are bounded. A 16-bit type with p bits of precision changes a value by at most u = 2^-p, relative. After a chain of
  r roundings the error is about r u, relative to the terms of the value. r is the longest chain of 16-bit values in the IR of the
  step, so the bound is r u, relative to the largest element. It does not hold for matmuls of 8-bit floats, which round more.
- Partition, recomputation and fusion agree with the stage before them within 1e-12 in f64, plan to the bit.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "lib"))
from runner import longest_chain, read_program  # noqa: E402

shalec, model, ranks, strategy, *flags = sys.argv[1:]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    run(shalec, model, "--emit", "rt", "-o", folder / "rt.mlir", "--save-temps", folder, "--shard", strategy,
        "--mesh", f"fsdp={ranks}", *flags)
    stages = {path.stem.split("-", 1)[1]: path for path in sorted(folder.glob("[0-9]*.mlir"))}

    def equal(before, after, *how):
        return run("shale-run", stages[before], f"--compare={stages[after]}", *how).strip().split("\n")[-1]

    program = read_program(pathlib.Path(shutil.which(shalec)).parent, stages["precision"])
    half = "f16" if "f16" in {value.element for value in program.values()} else "bf16"
    chain = longest_chain(program, half)
    bound = chain * 2.0 ** (-11 if half == "f16" else -8)
    master = "none" not in flags
    if master:
        print("precision, f64:", equal("autodiff", "precision", "--as=f64"))
    if "fp8" not in flags:
        print(f"precision, bound {bound:.3g} of {chain} roundings:", equal("autodiff", "precision", f"--tolerance={bound}"))
    order = ["precision", "partition", "policies", "memory", "fusion"]
    for before, after in zip(order, order[1:]):
        print(f"{after}, f64:", equal(before, after, "--as=f64"))
    print("plan:", equal("fusion", "plan", "--exact"))
