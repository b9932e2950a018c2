"""usage: exit_code.py CODE COMMAND...: succeeds if the command ends with CODE. The command's stderr is passed on."""
import subprocess
import sys

got = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
if got != int(sys.argv[1]):
    sys.exit(f"ended with {got}, not {sys.argv[1]}")
