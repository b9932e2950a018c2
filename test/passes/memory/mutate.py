"""Takes each barrier of a program away in turn, its readers reading its operands: verification must fail each time.

usage: mutate.py SHALE_OPT PROGRAM.mlir"""
import re
import subprocess
import sys
import tempfile

tool, path = sys.argv[1:]
lines = open(path).read().split("\n")
barriers = [(i, m) for i, m in enumerate(re.match(r"\s*(%\w+)(?::\d+)? = mem\.barrier ([^{:]*)", line) for line in lines) if m]
for i, match in barriers:
    name, operands = match.group(1), [operand.strip() for operand in match.group(2).split(",")]
    # Names are a function's own.
    rest, other, after = "\n".join(lines[i + 1:]).partition("func.func")
    rest = re.sub(re.escape(name) + r"(?:#(\d+))?(?![\w#])", lambda use: operands[int(use.group(1) or 0)], rest)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as mutant:
        mutant.write("\n".join(lines[:i]) + "\n" + rest + other + after)
        mutant.flush()
        run = subprocess.run([tool, mutant.name, "--shale-verify-memory"], capture_output=True, text=True)
    if run.returncode == 0 or "no barrier parts them" not in run.stderr:
        sys.exit(f"nothing noticed that this is gone: {lines[i].strip()}\n{run.stderr[:500]}")
print(f"{len(barriers)} barriers, each is missed")
