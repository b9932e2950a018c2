"""Runs the interpreter for every recorded run of an optimizer (test/models/optimizers.py) and compares.

usage: optimizers.py CASE_DIR FORWARD.mlir
"""
import json, pathlib, subprocess, sys

case, forward = pathlib.Path(sys.argv[1]), sys.argv[2]
files = sorted(case.glob("trajectory-optimizer-*.json"))
assert files, f"no recorded run in {case}"
for file in files:
    name = file.stem.removeprefix("trajectory-optimizer-")
    step = f"{forward}.{name}.mlir"
    run = json.loads(file.read_text())
    no_decay = [f"--shale-no-decay=no-decay={run['no_decay']}"] if "no_decay" in run else []
    subprocess.run(["shale-opt", forward, *no_decay, f"--shale-scale-updates=factor=lr_scale values={run.get('lr_scale', '')}",
                    f"--shale-assign-optimizers=optimizer={run['optimizer']['name']}",
                    f"--shale-autodiff=optimizer={run['optimizer']['name']}", "-o", step], check=True)
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("follow.py"), case, file.name, step], stdout=subprocess.PIPE, text=True)
    print(name, done.stdout, end="")
    if done.returncode:
        sys.exit(1)
