"""Deletes each barrier (or another op with one result per operand) of a program in turn, so that its users read its operands.
Verification must fail each time.

usage: mutate.py SHALE_OPT PROGRAM.mlir [OP_REGEX MESSAGE]
"""
import re
import subprocess
import sys
import tempfile

tool, path, *rest = sys.argv[1:]
op, message = rest or (r"mem\.barrier", "a mem.barrier is missing")
lines = open(path).read().split("\n")
found = [(i, m) for i, m in enumerate(re.match(r"\s*(%[\w.$-]+)(?::\d+)? = " + op + r" ([^{:]*)", line) for line in lines) if m]
for i, match in found:
    name, operands = match.group(1), [operand.strip() for operand in match.group(2).split(",")]
    # Names of values are local to a function.
    after, other, functions = "\n".join(lines[i + 1:]).partition("func.func")
    after = re.sub(re.escape(name) + r"(?:#(\d+))?(?![\w.$#-])", lambda use: operands[int(use.group(1) or 0)], after)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as mutant:
        mutant.write("\n".join(lines[:i]) + "\n" + after + other + functions)
        mutant.flush()
        run = subprocess.run([tool, mutant.name, "--shale-verify-memory"], capture_output=True, text=True)
    if run.returncode == 0 or message not in run.stderr:
        sys.exit(f"nothing noticed that this is gone: {lines[i].strip()}\n{run.stderr[:500]}")
print(f"{len(found)} of {op}, each is missed")
