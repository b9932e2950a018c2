"""usage: exit_code.py CODE COMMAND...: succeeds when the command ends with that code. What it says on stderr goes through."""
import subprocess
import sys

got = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
if got != int(sys.argv[1]):
    sys.exit(f"ended with {got}, not {sys.argv[1]}")
