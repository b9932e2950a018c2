"""Compares the output of shale-run --steps with PyTorch's trajectory.

usage: follow.py CASE_DIR TRAJECTORY.json STEP.mlir

Runs the steps of the trajectory in the interpreter and prints the largest
deviations. Exits with 1 above 2e-5 in the loss or 1e-4 (relative) in the norm.
"""
import json, os, subprocess, sys

case, name, module = sys.argv[1:]
with open(os.path.join(case, name)) as f:
    trajectory = json.load(f)
optimizer, steps = trajectory["optimizer"], trajectory["steps"]
command = ["shale-run", module, f"--steps={len(steps)}",
           "--batches=" + os.path.join(case, trajectory.get("batches", "batches.safetensors")),
           f"--clip-grad-norm={trajectory['clip_grad_norm'] or 0}"]
known = ("lr", "beta1", "beta2", "eps", "momentum", "weight_decay")
flags = optimizer.get("flags") or {flag: optimizer[flag] for flag in known if flag in optimizer}
command += [f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items()]
if "betas" in optimizer:
    command += [f"--beta1={optimizer['betas'][0]}", f"--beta2={optimizer['betas'][1]}"]
lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
got = [json.loads(line) for line in lines]
assert len(got) == len(steps), f"{len(got)} steps"
losses = [abs(a["loss"] - b["loss"]) for a, b in zip(got, steps)]
norms = [abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(got, steps)]
follows = all(off <= 2e-5 for off in losses) and all(off <= 1e-4 for off in norms)
loss, norm = max(losses), max(norms)
print(f"{'follows' if follows else 'DEVIATES'}: loss {loss:.1e}, norm {norm:.1e}")
sys.exit(not follows)
