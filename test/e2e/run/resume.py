#!/usr/bin/env python3
"""Stops a run and resumes it.

usage: e2e resume --build DIR --case test/models/gpt2 [--trajectory FILE]

On the same number of ranks the bits are those of an uninterrupted run. On 2, then 4, then 1 ranks the run stays on PyTorch's trajectory. A
run with a diverging update ends with 93 and saves nothing, and the checkpoint before it can be resumed as if that run had not happened. A
mutant that reports finite losses and norms is noticed.
"""
import subprocess

from runner import Case, Deviates, compile_changed, expect_deviation, main, same_bits

CONSTANT = ["--schedule", "constant"]


def same_world_size(case, program, work):
    """Compares 20 steps in one run with 10 steps and 10 resumed ones, on a cosine schedule."""
    cosine = ["--schedule", "cosine", "--warmup", "3", "--min-lr", "1e-4"]
    case.train(program, work / "whole", flags=cosine, what="the whole run")
    case.train(program, work / "parts", flags=[*cosine, "--stop-after", "10"], what="the first part")
    case.train(program, work / "parts", flags=[*cosine, "--resume", "must"], what="the second part")
    same_bits(work / "whole", work / "parts", "a run at once and a resumed one")


def diverges(case, program, out):
    """Resumes the run of five steps in `out` with a learning rate that makes the next weights too large. Requires exit code 93 and no
    new checkpoint."""
    hyper = [str(flag) for flag in case.hyper_flags()]
    for flag in ("--lr", "--weight-decay"):  # weights grow by a factor of 1e12 per step
        hyper[hyper.index(flag) + 1] = "1e6"
    done = subprocess.run([program, "--data", case.batches, "--steps", "10", *hyper, "--out", out, *CONSTANT, "--resume", "must"],
                          capture_output=True, text=True)
    if done.returncode != 93 or "is not finite; the update was not applied" not in done.stderr:
        raise Deviates(f"an update that diverges ends with {done.returncode}: {done.stderr[-500:]}")
    if sorted(path.name for path in (out / "checkpoints").iterdir()) != ["step-00000005"]:
        raise Deviates("a run that diverged left a checkpoint")


def non_finite(case, program, work):
    case.train(program, work / "straight", steps=10, flags=CONSTANT, what="the run at once")
    case.train(program, work / "diverged", steps=10, flags=[*CONSTANT, "--stop-after", "5"], what="the first part")
    diverges(case, program, work / "diverged")
    case.train(program, work / "diverged", steps=10, flags=[*CONSTANT, "--resume", "must"], what="the part after")
    same_bits(work / "straight", work / "diverged", "a run at once and one that diverged between")


def finite(program):
    """The text of a planned program that reports a loss of 0 and a norm of 1, and updates with every gradient. The loss goes where the norm does."""
    types, changes = ["tensor<f32>", "tensor<f32>", "tensor<i1>"], {}
    for end in program.ops("rt.yield"):
        if [value.type for value in end.operands] == types and (both := end.operands[2].producer) and both.name == "nn.and":
            changes[both] = ""
            changes[end] = ("%one = nn.constant dense<1.0> : tensor<f32>\n%true = nn.constant dense<true> : tensor<i1>\n"
                            f"rt.yield %one, %one, %true : {', '.join(types)}")
    for buffer in program.ops("rt.buffer"):
        if buffer.word("space") == "metric" and buffer.attributes["index"] == 0:
            changes[buffer] = program.line(buffer).replace(" index = 0", " index = 1")
    return program.with_lines(changes)


def check_mutant(case, work):
    compile_changed(case, work, work / "mutant", "full", 2, (), finite)
    case.train(work / "mutant", work / "unnoticed", steps=10, flags=[*CONSTANT, "--stop-after", "5"], what="the mutant")
    expect_deviation(lambda: diverges(case, work / "mutant", work / "unnoticed"), "that a diverging run goes on", "ends with 0")


def check(a, work):
    case = Case(a.build, a.case, a.trajectory)
    programs = {ranks: work / f"train{ranks}" for ranks in (1, 2, 4)}
    for ranks, program in programs.items():
        case.shalec(program, "full" if ranks > 1 else "none", ranks)
    same_world_size(case, programs[2], work)
    non_finite(case, programs[2], work)
    if a.trajectory == "trajectory.json":
        check_mutant(case, work)
    case.train(programs[2], work / "moved", flags=[*CONSTANT, "--stop-after", "7"], what="2 ranks")
    case.train(programs[4], work / "moved", flags=[*CONSTANT, "--stop-after", "14", "--resume", "must"], what="4 ranks")
    case.train(programs[1], work / "moved", flags=[*CONSTANT, "--resume", "must"], what="1 rank")
    case.check_metrics(work / "moved")
    if a.trajectory == "trajectory.json":
        case.check_weights(work / "moved")
    return "the same bits on 2 ranks, also after a run that ended with 93; on the trajectory over 2 -> 4 -> 1"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--trajectory", {"default": "trajectory.json"}), success="resumes:")
