#!/usr/bin/env python3
"""Compiles a fixture, trains it, and compares the run with PyTorch's.

usage: e2e follow --build DIR --case test/models/gpt2 [--model model.onnx] [--trajectory trajectory.json]
                 [--shard none] [--ranks 1] [--flags "..."] [--run "..."] [--weights] [--twice] [--bar 0.02] [--steps N]
                 [--stubs DIR [--stub-order first]]

Bars: loss within 2e-5, gradient norm within 1e-4 relative, final weights (--weights) within 2e-4. Key biases are left out, since
their true gradient is zero. Parameters that the trajectory freezes must keep their bits. --twice runs the program again, which must
give identical bits. --flags has flags of shalec, --run flags of the program. --bar is another bar of the loss, in 16-bit floats; the norm is not
compared then. --steps compares the first steps alone. --stubs is the folder of the stand-ins of NVIDIA's libraries: the program is one for GPUs.
--stub-order is the order in which the stand-ins run work that is ready. Exits with 0 if everything holds, otherwise with 1 and one line that describes the deviation.
"""
import os

from runner import Case, check_frozen, main, same_bits


def follow(a, work):
    case = Case(a.build, a.case, a.trajectory, a.model)
    if a.steps:
        case.steps = a.steps
        del case.trajectory["steps"][a.steps:]
    program = work / "train"
    device, libraries = (["--target=cuda:emulated"], ["--cuda-libraries", a.stubs]) if a.stubs else ([], [])
    environment = {**os.environ, "SHALE_STUB_ORDER": a.stub_order} if a.stub_order else None
    case.shalec(program, a.shard, a.ranks, [*device, *a.flags.split()])
    flags = ["--schedule", "constant", *libraries, *a.run.split()]
    case.train(program, work / "run", flags=flags, environment=environment)
    loss, norm = case.check_metrics(work / "run", a.bar)
    said = f"loss {loss:.1e}, norm {norm:.1e}"
    if a.weights:
        said += f", weights {case.check_weights(work / 'run'):.1e}"
    if case.trajectory.get("frozen"):
        case.train(program, work / "start", steps=0, flags=flags, environment=environment)
        check_frozen(work / "run", work / "start", case.trajectory["frozen"])
    if a.twice:
        case.train(program, work / "again", flags=flags, environment=environment)
        same_bits(work / "run", work / "again", "two runs")
        said += ", twice the same bits"
    return said


if __name__ == "__main__":
    main(follow, ("--case", {"required": True}), ("--model", {"default": "model.onnx"}), ("--trajectory", {"default": "trajectory.json"}),
         ("--shard", {"default": "none"}), ("--ranks", {"type": int, "default": 1}), ("--flags", {"default": ""}),
         ("--run", {"default": ""}), ("--bar", {"type": float}), ("--steps", {"type": int}), ("--stubs", {}), ("--stub-order", {}),
         ("--weights", {"action": "store_true"}), ("--twice", {"action": "store_true"}), success="follows:")
