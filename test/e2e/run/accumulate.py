#!/usr/bin/env python3
"""Follows PyTorch's run with two micro-batches per step, and compares the bytes that ranks send with the design.

usage: e2e accumulate --build DIR --case test/models/gpt2 [--flags "--param-dtype bf16"] [--bar 0.02] [--brief]

Runs every strategy, with gradients reduced in each micro-batch and once per step. W and R are the padded bytes of all parameters in
the wire type and the reduce type, N is the number of ranks and K that of micro-batches. Per step a rank sends (N-1)/N of:

  none       2 R
  optimizer  W for the gathers, R for the reduction
  grad       W for the gathers, R for the reduction, or K R if it reduces each micro-batch
  full       K times the bytes of its gathers, R for the reduction, or K R if it reduces each micro-batch

and all-reduces of scalars. On two replicas of two shards half of each reduction is added. Plan and communicator must agree.
Accumulators are f32 for every reduce type. They are slices if each micro-batch is reduced, otherwise whole.
Four micro-batches of half the rows must take the same steps. This tests the function of micro-batches 2 to K-1.

--flags: flags of 16-bit floats. The loss must be within --bar of PyTorch's f32 run, the gradient norm is not compared, and no step may
be skipped. --brief: three of the programs only.
"""
import re

from runner import Case, Deviates, cut, largest, main, metrics, run

# strategy, flags, reductions of R per step of K micro-batches, whether accumulators are whole
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
    """Bytes of an element in the wire type and in the reduce type."""
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
    for kind, size in re.findall(r"^ +\d+ (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)\b", said, re.M):
        plan[kind] = plan.get(kind, 0) + int(size)
    case.train(program, out)
    loss, norm = check_loss(case, out, bar) if bar else case.check_metrics(out)
    described = run([program, "--describe"], "--describe").stdout
    state = {}
    for size, category in re.findall(r"^ +state +\d+ +(\d+) +\d+ +(\w+) ", described, re.M):
        state[category] = state.get(category, 0) + int(size)
    shards = 2 if "replica" in own else ranks
    # Two f32 moments per element, plus the loss scale and its counter.
    scale = 8 if re.search(r"[ =]f16", flags) else 0
    elements = (state["optimizer"] - scale) // 8 * (1 if strategy == "none" else shards)
    expected = 4 * elements // (1 if accumulators_whole else shards) + 8  # plus the sums of loss and count
    if state["gradients"] != expected:
        raise Deviates(f"{way} on {ranks} ranks has accumulators of {state['gradients']} bytes; {expected} expected")
    if ranks > 1:
        check_wire(way, ranks, *(width * elements for width in widths(flags)), plan)
    total = sum(plan.values())
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {total}:
        raise Deviates(f"{way} on {ranks} ranks sent {counted} bytes per step, but the plan has {total}")
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
    # One rank has nothing to synchronize, so each strategy runs once.
    runs = [(WAYS[way], 1) for way in (0, 1, 2, 4)] + [(way, 2) for way in WAYS] + [(WAYS[4], 4)]
    if a.bar:  # 16-bit floats: other bars
        runs = [(WAYS[0], 1)] + [(way, 2) for way in WAYS] + [(way, 4) for way in REPLICAS]
    if a.brief:
        runs = [(WAYS[0], 1), (WAYS[3], 2), (WAYS[4], 2)]
    found = [follow(case, work, *one, a.flags, a.bar) for one in runs]
    if not a.bar:
        found += [follow_four(a, work, "full"), follow_four(a, work, "grad", "--sync-every-microbatch=false")]
    return f"{len(found)} programs, loss {max(l for l, _ in found):.1e}, norm {max(n for _, n in found):.1e}; bytes as designed and as counted"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--flags", {"default": ""}), ("--bar", {"type": float, "default": 0}), ("--brief", {"action": "store_true"}))
