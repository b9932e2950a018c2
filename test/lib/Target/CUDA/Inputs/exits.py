"""Runs a command, which must end with an exit code.

usage: exits.py CODE COMMAND...
"""
import subprocess
import sys

result = subprocess.run(sys.argv[2:], timeout=120)
if result.returncode != int(sys.argv[1]):
    sys.exit(f"exit code {result.returncode}, expected {sys.argv[1]}")
