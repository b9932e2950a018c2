"""Shared by the tests of optimizers whose state has a form of its own: one step, its state in checkpoints, and a run that is resumed."""
import json
import re
import subprocess

import numpy as np

from runner import Deviates, metrics, read_safetensors, same_bits

# Strategies, ranks and flags.
WAYS = [("none", 1, []), ("none", 2, []), ("optimizer", 2, []), ("grad", 2, []), ("full", 4, []), ("full", 2, ["--offload", "all"])]
ONCE = ["--schedule", "constant"]


def stored(folder, role, number=np.float32):
    """The state of a role in the shards of a checkpoint. The pieces of a parameter must cover its state exactly once."""
    manifest, state = json.loads((folder / "manifest.json").read_text())["body"], {}
    for piece in sorted((p for p in manifest["pieces"] if p["role"] == role), key=lambda p: p["begin"]):
        with open(folder / piece["file"], "rb") as file:
            file.seek(piece["offset"])
            values = np.frombuffer(file.read(4 * (piece["end"] - piece["begin"])), number)
        before = state.setdefault(piece["parameter"], np.zeros(0, number))
        if len(before) != piece["begin"]:
            raise Deviates(f"the state of {piece['parameter']} is stored up to {len(before)}, then from {piece['begin']}")
        state[piece["parameter"]] = np.concatenate([before, values])
    return state


def stored_whole(folder, role):
    """The state of a role in the full form of a checkpoint."""
    return {key.split("/", 1)[1]: value for key, value in read_safetensors(folder / "optimizer.safetensors").items() if key.split("/", 1)[0] == role}


def first_step(case, work, optimizer, shard, ranks, flags):
    """Runs one step without clipping, and checks that it sends the planned bytes. Returns a name for the run, the folder of the checkpoint, and
    the bytes of optimizer state of each rank."""
    what = f"{shard} on {ranks}" + "".join(f", {flag}" for flag in flags)
    name = re.sub(r"\W+", "-", what)
    program, out, report = work / name, work / f"run-{name}", work / f"report-{name}.json"
    said = case.shalec(program, shard, ranks, ["--optimizer", optimizer, *flags])
    case.train(program, out, 1, [*ONCE, "--clip-grad-norm", 0, "--checkpoint", "both", "--save-every", 1, "--report-buffers", report], what=what)
    held = []
    for rank in json.loads(report.read_text()):
        rows = [row for row in rank["when_update_begins"] if row["category"] == "optimizer" and "state" in row["space"]]
        held.append(sum(row["bytes"] - row["padding"] for row in rows))
    planned = sum(int(size) for size in re.findall(r"^ +\d+ [a-z-]+ over \w+ +(\d+)\b", said, re.M))
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {planned}:
        raise Deviates(f"{what} sent {counted} bytes per step; the plan says {planned}")
    return what, next((out / "checkpoints").glob("step-*")), held


def refused(what, command, code, message):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != code or message not in done.stderr:
        raise Deviates(f"{what} ends with {done.returncode}, not {code} and '{message}': {done.stderr[-500:]}")


def check_resume(case, work, program):
    """Compares a run at once with one that is resumed from a full checkpoint. A checkpoint of AdamW is refused."""
    case.train(program, work / "straight", 6, ONCE)
    case.train(program, work / "parts", 6, [*ONCE, "--stop-after", 3, "--checkpoint", "full"])
    case.train(program, work / "parts", 6, [*ONCE, "--resume", "must"])
    same_bits(work / "straight", work / "parts", "a run at once and one resumed from a full checkpoint")
    case.shalec(work / "adamw", "full", 4)
    case.hyper_flags = lambda: ["--lr", 1e-2]
    case.train(work / "adamw", work / "other", 1, [*ONCE, "--save-every", 1])
    refused("a checkpoint of AdamW", [program, "--data", case.batches, "--steps", 2, "--out", work / "other", "--resume", "must"], 65,
            "was saved with another optimizer")
