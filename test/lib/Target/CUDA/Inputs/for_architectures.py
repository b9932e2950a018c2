"""Compiles kernels for architectures and checks them: for_architectures.py KERNELS.json ARCHITECTURE... -- COMMAND..."""
import pathlib
import subprocess
import sys

report, words = sys.argv[1], sys.argv[2:]
architectures, command = words[:words.index("--")], words[words.index("--") + 1:]
if not architectures:
    sys.exit("no architecture is named")
subprocess.run([*command, "--target", "cuda:" + ",".join(architectures)], check=True)
subprocess.run([sys.executable, pathlib.Path(__file__).with_name("check_kernels.py"), report, *architectures], check=True)
