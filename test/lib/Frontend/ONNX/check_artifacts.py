"""Writes a folder of make_artifacts.py, imports it, and checks the exit code: check_artifacts.py CASE CODE FOLDER.

Prints the output of shale-translate for FileCheck.
"""
import os
import subprocess
import sys

case, code, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
here = os.path.dirname(os.path.abspath(__file__))
subprocess.run([sys.executable, os.path.join(here, "make_artifacts.py"), case, folder], check=True)
run = subprocess.run(["shale-translate", "--import-onnx", folder, "--dim", "batch=3"], capture_output=True, text=True, timeout=600)
print(run.stderr, end="")
print(run.stdout, end="")
errors = run.stderr.count("error: ")
if run.returncode != code or (code and errors != 1):
    print(f"exit code {run.returncode}, not {code}; {errors} errors")
    sys.exit(1)
