"""Prints the output of --describe for a model, and runs the commands in it for two steps: described.py FOLDER MODEL [flags]."""
import pathlib
import subprocess
import sys

import numpy as np

folder, model, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
np.random.default_rng(0).integers(0, 250, 1 << 14, np.uint16).tofile(folder / "tokens.bin")
said = subprocess.run(["shalec", model, "--describe", *flags], capture_output=True, text=True, check=True).stdout
print(said)
lines = said.split("to compile and train it")[1].splitlines()[1:]
commands = [line for line in lines if not line.strip().startswith("#")]
assert len(commands) == 2, commands
for command in commands:
    command = command.replace("--steps 100", "--steps 2").replace("--out run1", f"--out run-{pathlib.Path(model).parent.name}")
    run = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
    print(run.stdout)
    if run.returncode:
        sys.exit(f"{command} ended with {run.returncode}: {run.stderr}")
