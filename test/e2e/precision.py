#!/usr/bin/env python3
"""Trains a fixture in half types and holds the loss against PyTorch's f32 run.

usage: precision.py --build DIR --case test/models/gpt2 --flags "--param-dtype bf16" [--bar 0.02]
                    [--shard none,optimizer,grad,full] [--ranks 1,2] [--twice]

Each strategy on each number of ranks: the loss of every step within the bar; the gradient norm is reported, not held.
--twice: the last program run again gives the same bits.
"""
from runner import Case, Deviates, main, metrics, same_bits


def check(a, work):
    case = Case(a.build, a.case)
    wanted = [step["loss"] for step in case.trajectory["steps"]]
    norms = [step["grad_norm"] for step in case.trajectory["steps"]]
    said = []
    for shard in a.shard.split(","):
        for ranks in map(int, a.ranks.split(",")):
            program, out = work / f"train-{shard}-{ranks}", work / f"run-{shard}-{ranks}"
            case.shalec(program, shard, ranks, a.flags.split())
            case.train(program, out)
            lines = metrics(out)
            if len(lines) != len(wanted) or any(line["loss"] is None for line in lines):
                raise Deviates(f"{shard} on {ranks} ranks: {len(lines)} steps, or a loss that is not finite")
            loss = max(abs(line["loss"] - want) for line, want in zip(lines, wanted))
            norm = max(abs(line["grad_norm"] - want) / want for line, want in zip(lines, norms))
            if not loss <= a.bar:
                raise Deviates(f"{shard} on {ranks} ranks: loss is off by {loss:.4f} (bar {a.bar})")
            said.append(f"{shard}/{ranks}: loss {loss:.4f}, norm {norm:.3f}")
    if a.twice:
        case.train(program, work / "again")
        same_bits(out, work / "again", "two runs")
        said.append("twice the same bits")
    return "; ".join(said)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--flags", {"default": "--param-dtype bf16"}), ("--bar", {"type": float, "default": 0.02}),
         ("--shard", {"default": "none,optimizer,grad,full"}), ("--ranks", {"default": "1,2"}), ("--twice", {"action": "store_true"}),
         success="follows:")
