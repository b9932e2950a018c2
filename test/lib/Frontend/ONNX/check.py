"""Writes a case, imports it, and checks the exit code: check.py CASE CODE FOLDER [flags of shale-translate].

CASE is one of make.py, or SCRIPT/CASE of make_SCRIPT.py. Prints the output of shale-translate for FileCheck.
"""
import os
import subprocess
import sys

case, code, folder, flags = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
here = os.path.dirname(os.path.abspath(__file__))
script, _, case = case.rpartition("/")
script = f"make_{script}.py" if script else "make.py"
path = os.path.join(folder, "inside" if case == "outside-link" else "", "model.onnx")
subprocess.run([sys.executable, os.path.join(here, script), case, path if case != "outside-link" else os.path.join(folder, "model.onnx")], check=True)
if case == "outside-link":
    os.replace(os.path.join(folder, "model.onnx"), path)
if not flags:
    flags = ["--dim", "batch=3"]
run = subprocess.run(["shale-translate", "--import-onnx", path, *flags], capture_output=True, text=True, timeout=600)
print(run.stderr, end="")
print(run.stdout, end="")
if run.returncode != code:
    print(f"exit code {run.returncode}, not {code}")
    sys.exit(1)
errors = run.stderr.count("error: ")
if code and errors != 1 and "shale-translate: " not in run.stderr:
    print(f"{errors} errors, not one")
    sys.exit(1)
