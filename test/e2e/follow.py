#!/usr/bin/env python3
"""Compiles a fixture, trains it, and compares the run with PyTorch's.

usage: follow.py --build DIR --case test/models/gpt2 [--model model.onnx] [--trajectory trajectory.json]
                 [--shard none] [--ranks 1] [--flags "..."] [--run "..."] [--weights] [--twice] [--bar 0.02]

Bars: loss within 2e-5, gradient norm within 1e-4 relative, final weights (--weights) within 2e-4. Key biases are left out, since
their true gradient is zero. Parameters that the trajectory freezes must keep their bits. --twice runs the program again, which must
give identical bits. --run has flags of the program. --bar is another bar of the loss, in 16-bit floats; the norm is not compared then. Exits with 0 if everything holds, otherwise with 1 and one line that describes the deviation.
"""
import re

import numpy as np

from runner import Case, Deviates, main, read_safetensors, same_bits


def check_frozen(out, initial, pattern):
    """Parameters that match the pattern must keep their bits."""
    got, first = read_safetensors(out / "model.safetensors"), read_safetensors(initial / "model.safetensors")
    frozen = [name for name in got if re.search(pattern, name)]
    if not frozen:
        raise Deviates(f"no parameter matches {pattern}")
    for name in got:
        same = np.array_equal(got[name].view(np.uint32), first[name].view(np.uint32))
        if same != (name in frozen):
            raise Deviates(f"{name} {'kept' if same else 'changed'} its bits")


def follow(a, work):
    case = Case(a.build, a.case, a.trajectory, a.model)
    program = work / "train"
    case.shalec(program, a.shard, a.ranks, a.flags.split())
    flags = ["--schedule", "constant", *a.run.split()]
    case.train(program, work / "run", flags=flags)
    loss, norm = case.check_metrics(work / "run", a.bar)
    said = f"loss {loss:.1e}, norm {norm:.1e}"
    if a.weights:
        said += f", weights {case.check_weights(work / 'run'):.1e}"
    if case.trajectory.get("frozen"):
        case.train(program, work / "start", steps=0, flags=flags)
        check_frozen(work / "run", work / "start", case.trajectory["frozen"])
    if a.twice:
        case.train(program, work / "again", flags=flags)
        same_bits(work / "run", work / "again", "two runs")
        said += ", twice the same bits"
    return said


if __name__ == "__main__":
    main(follow, ("--case", {"required": True}), ("--model", {"default": "model.onnx"}), ("--trajectory", {"default": "trajectory.json"}),
         ("--shard", {"default": "none"}), ("--ranks", {"type": int, "default": 1}), ("--flags", {"default": ""}),
         ("--run", {"default": ""}), ("--bar", {"type": float}),
         ("--weights", {"action": "store_true"}), ("--twice", {"action": "store_true"}), success="follows:")
