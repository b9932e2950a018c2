"""Deletes each wait of a planned program in turn. Verification must fail each time.

usage: waits.py SHALE_OPT PLANNED.mlir
"""
import subprocess
import sys

tool, path = sys.argv[1:]
lines = open(path).read().split("\n")
waits = [i for i, line in enumerate(lines) if "rt.wait" in line]
reasons = {"an rt.wait is missing before this op": 0, "is in flight when the function returns": 0}
for i in waits:
    run = subprocess.run([tool, "-", "--shale-verify-streams", "-o", "/dev/null"], capture_output=True, text=True,
                         input="\n".join(lines[:i] + lines[i + 1:]))
    reason = next((reason for reason in reasons if reason in run.stderr), None)
    if run.returncode == 0 or not reason:
        sys.exit(f"nothing noticed that this is gone: {lines[i].strip()}")
    reasons[reason] += 1
print(f"{len(waits)} waits are missed: {', '.join(f'{count} times {reason}' for reason, count in reasons.items())}")
