#!/usr/bin/env python3
"""Follows PyTorch's run of two micro-batches a step, for every strategy and both ways to synchronise, and holds the bytes
on the wire against design and the communicator's count.

usage: accumulate.py --build DIR --case test/models/gpt2 [--flags "--param-dtype bf16"] [--bar 0.02] [--brief]

With W and R the padded bytes of all parameters in the wire and the reduce type, N ranks and K micro-batches a rank sends a
step: none 2R; optimizer and grad W for the gathers and R for the reduction, grad K R for the reduction when it synchronises
each micro-batch; full K times the gathers of W, and K R or R for the reduction; each times (N-1)/N, and listed scalars. On
two replicas of two shards half of each reduction comes to it. The accumulators are in f32 whatever is reduced, and whole
unless each micro-batch is synchronised over their slices.

Four micro-batches of half the rows take the same steps: those between the first and the last have a function of their own.

--flags: with 16-bit floats, PyTorch's being f32: the loss is held against --bar, the gradient norm is not, and no step may be
skipped. --brief: three of the programs.
"""
import re

from combine import cut
from runner import Case, Deviates, largest, main, metrics, run

# strategy, flags, reductions of R in a step of K, whether accumulators are whole
WAYS = [("none", "", None, True), ("optimizer", "", 1, True), ("grad", "", 2, False),
        ("grad", "--sync-every-microbatch=false", 1, True), ("full", "", 2, False), ("full", "--sync-every-microbatch=false", 1, True)]
REPLICAS = [("full", "--mesh=replica=2,fsdp=2", 2, False), ("grad", "--mesh=replica=2,fsdp=2 --sync-every-microbatch=false", 1, True)]
K = 2


def check_wire(way, ranks, wire, reduced_bytes, plan):
    strategy, flags, reductions, _ = way
    shards, scalars = (2 if "replica" in flags else ranks), 512 * ranks
    share, reduce_share = wire * (shards - 1) // shards, reduced_bytes * (shards - 1) // shards
    gathered, scattered, reduced = (plan.get(kind, 0) for kind in ("all-gather", "reduce-scatter", "all-reduce"))
    if strategy == "none":
        holds = gathered == scattered == 0 and 2 * reduce_share <= reduced <= 2 * reduce_share + scalars
    else:
        low, high = (K * share, 2 * K * share) if strategy == "full" else (share, share)
        over_replicas = reductions * reduced_bytes // shards if shards < ranks else 0
        holds = scattered == reductions * reduce_share and low <= gathered <= high and 0 <= reduced - over_replicas <= scalars
    if not holds:
        raise Deviates(f"{way} on {ranks} ranks plans {plan}; W is {wire}, R {reduced_bytes} bytes")


def widths(flags):
    """Bytes of an element that is sent, and of one that is reduced."""
    half = [f"--{what}-dtype" in flags and not re.search(f"--{what}-dtype[ =]f32", flags) for what in ("param", "reduce")]
    return [2 if is_half else 4 for is_half in half]


def check_loss(case, out, bar):
    lines, wanted = metrics(out), case.trajectory["steps"]
    skipped = [line["step"] for line in lines if line.get("skipped")]
    if skipped or len(lines) != len(wanted):
        raise Deviates(f"{len(lines)} steps, skipped {skipped}")
    loss, norm = (largest(abs(line[what] - step[what]) for line, step in zip(lines, wanted)) for what in ("loss", "grad_norm"))
    if not loss <= bar:
        raise Deviates(f"loss is off by {loss:.4f} (bar {bar})")
    return loss, norm


def follow(case, work, way, ranks, flags, bar):
    strategy, own, _, accumulators_whole = way
    name = f"{strategy}-{ranks}-{len(own)}"
    program, out = work / name, work / f"run-{name}"
    said = case.shalec(program, strategy, ranks, [*own.split(), *flags.split()])
    plan = {}
    for kind, size in re.findall(r"^ +\d+ (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)$", said, re.M):
        plan[kind] = plan.get(kind, 0) + int(size)
    case.train(program, out)
    loss, norm = check_loss(case, out, bar) if bar else case.check_metrics(out)
    described = run([program, "--describe"], "--describe").stdout
    state = {}
    for size, category in re.findall(r"^ +state +\d+ +(\d+) +\d+ +(\w+) ", described, re.M):
        state[category] = state.get(category, 0) + int(size)
    shards = 2 if "replica" in own else ranks
    # Moments are two f32 an element; the loss scale and its counter stand beside them.
    scale = 8 if re.search(r"[ =]f16", flags) else 0
    elements = (state["optimizer"] - scale) // 8 * (1 if strategy == "none" else shards)
    expected = 4 * elements // (1 if accumulators_whole else shards) + 8  # and the sums of loss and count
    if state["gradients"] != expected:
        raise Deviates(f"{way} on {ranks} ranks has accumulators of {state['gradients']} bytes; {expected} expected")
    if ranks > 1:
        check_wire(way, ranks, *(width * elements for width in widths(flags)), plan)
    total = sum(plan.values())
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {total}:
        raise Deviates(f"{way} on {ranks} ranks sent {counted} bytes a step; the plan says {total}")
    return loss, norm


def follow_four(a, work, strategy, *flags):
    case = Case(a.build, a.case, "trajectory-accumulate.json")
    cut(case, work / "halves.safetensors", 2)
    case.trajectory["accumulate"] = 4
    program, out = work / f"four-{strategy}", work / f"run-four-{strategy}"
    case.shalec(program, strategy, 2, flags)
    case.train(program, out)
    return case.check_metrics(out)


def check(a, work):
    case = Case(a.build, a.case, "trajectory-accumulate.json")
    # On one rank there is nothing to synchronise: each strategy once.
    runs = [(WAYS[way], 1) for way in (0, 1, 2, 4)] + [(way, 2) for way in WAYS] + [(WAYS[4], 4)]
    if a.bar:  # what 16-bit floats change
        runs = [(WAYS[0], 1)] + [(way, 2) for way in WAYS] + [(way, 4) for way in REPLICAS]
    if a.brief:
        runs = [(WAYS[0], 1), (WAYS[3], 2), (WAYS[4], 2)]
    found = [follow(case, work, *one, a.flags, a.bar) for one in runs]
    if not a.bar:
        found += [follow_four(a, work, "full"), follow_four(a, work, "grad", "--sync-every-microbatch=false")]
    return f"{len(found)} programs, loss {max(l for l, _ in found):.1e}, norm {max(n for _, n in found):.1e}; bytes as designed and as counted"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--flags", {"default": ""}), ("--bar", {"type": float, "default": 0}), ("--brief", {"action": "store_true"}))
