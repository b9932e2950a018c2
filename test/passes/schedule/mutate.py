"""Deletes each wait of a planned program in turn. Verification must fail each time.

usage: mutate.py SHALE_OPT PLANNED.mlir
"""
import subprocess
import sys
import tempfile

tool, path = sys.argv[1:]
lines = open(path).read().split("\n")
waits = [i for i, line in enumerate(lines) if "rt.wait" in line]
for i in waits:
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as mutant:
        mutant.write("\n".join(lines[:i] + lines[i + 1:]))
        mutant.flush()
        run = subprocess.run([tool, mutant.name, "--shale-verify-plan"], capture_output=True, text=True)
    if run.returncode == 0 or "is never waited for" not in run.stderr:
        sys.exit(f"nothing noticed that this is gone: {lines[i].strip()}")
print(f"{len(waits)} waits, each is missed")
