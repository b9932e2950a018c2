#!/usr/bin/env python3
"""Checks steps that f16 skips, with every strategy, several micro-batches per step, recomputation and offload.

usage: e2e scaling --build DIR --case test/models/gpt2

The learning rate is so large that gradients overflow f16 in some steps and not in others.

- A skipped step changes no bit of the parameters, also if the optimizer runs on the host. Every other step changes them.
- The loss scale halves with each skipped step, and only then.
- Programs that differ only in data movement (recomputation, offload, prefetch) skip the same steps and end with the same bits.
"""
from runner import Case, Deviates, main, metrics, same_bits

# Learning rates for one micro-batch and for two: some steps overflow f16, others do not.
LR, LR_OF_SUMS = "1", "3"
STEPS = 5
# strategy, ranks, flags that decide the order of sums, flags that only move data
WAYS = [("none", 1, "", "--recompute selective --offload activations"),
        ("none", 2, "--accumulate 2", "--recompute block --offload grads,optimizer"),
        ("optimizer", 2, "", "--offload optimizer"),
        ("grad", 2, "--accumulate 2 --sync-every-microbatch=false", "--offload all"),
        ("full", 2, "--accumulate 2", "--recompute block --offload all --prefetch 2 --max-gathers-in-flight 3"),
        ("full", 4, "--mesh replica=2,fsdp=2", "--recompute block --offload params,optimizer:0.5")]


def train(case, program, out, lr, steps=STEPS):
    case.train(program, out, steps, ["--schedule", "constant", "--lr", lr])
    return metrics(out)


def check_skips(case, program, out, lr, lines, what):
    skipped = [line["step"] for line in lines if line["skipped"]]
    if not 0 < len(skipped) < STEPS:
        raise Deviates(f"{what} skips {skipped} of {STEPS} steps: nothing is tested")
    for before, after in zip(lines, lines[1:]):
        if after["loss_scale"] != before["loss_scale"] / (2 if before["skipped"] else 1):
            raise Deviates(f"{what}: the loss scale goes from {before['loss_scale']} to {after['loss_scale']} at step {after['step']}")
    # Runs that end just before and just after a skipped step and another step.
    for step in (skipped[0], next(step for step in range(STEPS) if step not in skipped)):
        ends = [out.with_name(f"{out.name}-{end}") for end in (step, step + 1)]
        for end, steps in zip(ends, (step, step + 1)):
            train(case, program, end, lr, steps)
        same = len({(end / "model.safetensors").read_bytes() for end in ends}) == 1
        if same != (step in skipped):
            raise Deviates(f"{what}: step {step}, {'skipped' if step in skipped else 'not skipped'}, {'keeps' if same else 'changes'} the parameters")
    return len(skipped)


def check(a, work):
    case, count = Case(a.build, a.case), 0
    for number, (shard, ranks, sums, moves) in enumerate(WAYS):
        outs = []
        for index, flags in enumerate((sums, f"{sums} {moves}")):
            what, program = f"{shard} on {ranks} ranks {flags}", work / f"{number}-{index}"
            case.shalec(program, shard, ranks, ["--param-dtype", "f16", *flags.split()])
            outs.append(work / f"run-{number}-{index}")
            lr = LR_OF_SUMS if "--accumulate" in flags else LR
            lines = train(case, program, outs[-1], lr)
            if index or number == 0:
                count += check_skips(case, program, outs[-1], lr, lines, what)
        same_bits(*outs, f"{shard} on {ranks} ranks {sums} with and without {moves}")
    return f"{len(WAYS)} strategies, {count} steps skipped to the bit; the same with and without what moves data"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
