#!/usr/bin/env python3
"""Holds the plan's bytes against design and against the running program, for every strategy.

usage: bytes.py --build DIR --case test/models/gpt2 [--offload] [--accumulate]

With P the padded bytes of all parameters (f32) and N ranks, a rank
- keeps, when the update begins, parameters, gradients and optimizer state of: none P, P, 2P; optimizer P, P, 2P/N;
  grad P, P/N, 2P/N; full P/N, P/N, 2P/N. By plan (--describe) and by the running program (--report-buffers), which
  recorded what its step reads after the update began, filled all other bytes of its arena with NaN, and still makes the
  same run;
- sends a step: none 2P, optimizer and grad 2P, full P for the reduction and at most 2P for the gathers, each times
  (N-1)/N, and listed scalars; which is what the communicator counts;
- with full has at most two units whole or on their way at once, the root unit counted, and gathers none more than twice a
  micro-batch, with --recompute block too.

--offload: on 2 ranks, with each kind of state in host memory and with all of it. The same bytes as above, over both
memories; what is being copied when the update begins is where it comes from, its copy is on its way and listed as communication.
State of an offloaded kind is in host memory.

Nothing else is communication when the update begins, and without --offload nothing is. A copy is a unit's parameters, moments or sums of gradients, or its
gradient: it has the bytes that follow from the shapes of PyTorch's weights. A copy to the host is waited for when the next one begins,
and one is read while the next one comes: at most two copies of state and one of a gradient are there, and two of scalars. --accumulate: with two micro-batches a step, everything offloaded, gradients and nothing; the program
watches all functions of a step, and accumulators stand beside, in host memory where gradients are offloaded.
"""
import json
import re
from collections import Counter

from runner import Case, Deviates, main, metrics, run, same_bits
from sent import units_of

KEPT = ("parameters", "gradients", "optimizer")
SCALARS = 4096  # of coordinates, norms, factors


def planned_collectives(text):
    """{kind: (count, bytes)} of a step, as shalec prints them."""
    return {kind: (int(count), int(size)) for count, kind, size in
            re.findall(r"^ +(\d+) (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)$", text, re.M)}


def check_wire(strategy, ranks, whole, plan):
    share = whole * (ranks - 1) // ranks
    scalars = 256 * ranks
    gathered = plan.get("all-gather", (0, 0))[1]
    scattered = plan.get("reduce-scatter", (0, 0))[1]
    reduced = plan.get("all-reduce", (0, 0))[1]
    # An all-reduce rounds each slice up to an element a group.
    holds = {"none": gathered == scattered == 0 and 2 * share <= reduced <= 2 * share + scalars,
             "optimizer": gathered == scattered == share and reduced <= scalars,
             "grad": gathered == scattered == share and reduced <= scalars,
             "full": scattered == share and share <= gathered <= 2 * share and reduced <= scalars}[strategy]
    if not holds:
        raise Deviates(f"{strategy} on {ranks} ranks plans {plan}; parameters have {whole} bytes")


def designed(strategy, ranks, whole):
    """Bytes of KEPT."""
    part = whole // ranks
    return {"none": (whole, whole, 2 * whole), "optimizer": (whole, whole, 2 * part),
            "grad": (whole, part, 2 * part), "full": (part, part, 2 * part)}[strategy]


def check_kept(what, rows, wanted):
    """`rows` of (category, bytes) hold what is wanted, and scalars and copies on their way beside it."""
    have = tuple(sum(size for category, size in rows if category == kept) for kept in KEPT)
    rest = sum(size for category, size in rows if category not in (*KEPT, "communication"))
    if have != wanted or rest > SCALARS:
        raise Deviates(f"{what} holds parameters, gradients, optimizer state of {have} and {rest} bytes beside; {wanted} expected")


def described_rows(described):
    """The plan's buffers when the update begins: (space, category, bytes)."""
    return [(space, category, int(size)) for space, size, category in
            re.findall(r"^ +((?:host )?(?:state|arena)) +\d+ +(\d+) +\d+ +(\w+) ", described, re.M)]


def check_spaces(what, planned, report, offload):
    """The running program has the plan's buffers in each space, and state where it is asked for."""
    for rank in report:
        running = [(row["space"], row["category"], row["bytes"]) for row in rank["when_update_begins"]]
        if sorted(running) != sorted(planned):
            raise Deviates(f"{what}, rank {rank['rank']}: the program has {sorted(running)}, the plan {sorted(planned)}")
    for kind, category in (("params", "parameters"), ("optimizer", "optimizer")):
        where = {space for space, of, _ in planned if of == category and "state" in space}
        if where != {"host state" if offload in (kind, "all") else "state"}:
            raise Deviates(f"{what}: {category} are in {where}")
    sums = {space for space, of, size in planned if of == "gradients" and "state" in space and size > 4}
    if sums and sums != {"host state" if offload in ("grads", "all") else "state"}:
        raise Deviates(f"{what}: gradients add up in {sums}")
    # With strategy optimizer the update begins with their reduction.
    if offload in ("grads", "optimizer", "all") and not what.startswith("optimizer") and not any(space.startswith("host") and of == "gradients" for space, of, _ in planned):
        raise Deviates(f"{what}: no gradient is in host memory when the update begins")
    if offload == "none" and any("host" in space for space, _, _ in planned):
        raise Deviates(f"{what}: something is in host memory")


def check_running(what, report, wanted, whole, elements, accumulators=0):
    """The tables of all ranks; returns the bytes of padding of a rank."""
    used, padding = {kept: 0 for kept in KEPT}, []
    for rank in report:
        rows = rank["when_update_begins"]
        check_kept(f"{what}, running, rank {rank['rank']},", [(row["category"], row["bytes"]) for row in rows], wanted)
        unused = [row["name"] for row in rows if not row["touched"]]
        if unused or not rank["bytes_overwritten_to_check"]:
            raise Deviates(f"{what}, rank {rank['rank']}: {unused} are not used, {rank['bytes_overwritten_to_check']} bytes were overwritten to check")
        for block in rank["blocks"]:
            begin = int(block["address"], 16)
            inside = [row for row in rows if row["space"] == block["name"]]
            if not all(begin <= int(row["address"], 16) and int(row["address"], 16) + row["bytes"] <= begin + block["bytes"] for row in inside):
                raise Deviates(f"{what}, rank {rank['rank']}: a buffer lies outside of the {block['name']}")
        for row in rows:
            if row["category"] in KEPT:
                used[row["category"]] += row["bytes"] - row["padding"]
        padding.append(sum(row["padding"] for row in rows))
    # What is no padding is each element once, or once a rank where it is replicated.
    for category, times, kept in zip(KEPT, (1, 1, 2), wanted):
        if accumulators and category == "gradients":
            continue
        copies = 1 if kept < times * whole else len(report)
        # The plan lists an equal share of a gradient's padding, rounded down, for each rank.
        rounding = sum(row["category"] == category for rank in report for row in rank["when_update_begins"]) if category == "gradients" else 0
        if not 0 <= used[category] - 4 * times * elements * copies <= rounding:
            raise Deviates(f"{what}: {category} without padding have {used[category]} bytes on all ranks; {copies} x {4 * times * elements} expected")
    return max(padding)


def check_copies(what, units, report, offload):
    """What is listed as communication when the update begins; `units`: bytes of a unit's gradient or state on a rank."""
    for rank in report:
        rows = [(row["name"], row["bytes"]) for row in rank["when_update_begins"] if row["category"] == "communication"]
        large, found = [row for row in rows if row[1] > 8], []
        for name, size in large:
            unit = next((unit for unit in units if name == unit or name.startswith(f"{unit}.f32")), None)
            if unit is None or size != units[unit]:
                raise Deviates(f"{what}, rank {rank['rank']}: {name} with {size} bytes is listed as communication, units have {units}")
            found.append(name[len(unit):])
        gradients = found.count("")
        if offload == "none" and rows or len(set(large)) < len(large) or gradients > 1 or len(found) - gradients > 2 or len(rows) - len(large) > 2:
            raise Deviates(f"{what}, rank {rank['rank']}: these copies are on their way when the update begins: {rows}")
    return [name for name, _ in large]


def check_gathers(what, report, said, batches):
    at_once = max(rank["units_at_once"] for rank in report)
    planned = int(re.search(r"^units +at most (\d+) whole", said, re.M).group(1))
    if at_once > 2 or planned > 2:
        raise Deviates(f"{what} has {at_once} units whole or on their way at once, {planned} by plan")
    if not any("root" == gather["unit"] for gather in report[0]["gathers"]):
        raise Deviates(f"{what} never gathers the root unit")
    for rank in report:
        times = Counter(gather["unit"] for gather in rank["gathers"])
        if max(times.values()) > 2 * batches:
            raise Deviates(f"{what}, rank {rank['rank']}: units are gathered {dict(times)} times in {batches} micro-batches")
    return at_once, planned


def check_program(case, work, shard, ranks, offload="none", recompute="none"):
    """One line of what was found."""
    what = f"{shard} on {ranks} ranks" + (f", {offload} offloaded" if offload != "none" else "") + (f", {recompute} recomputed" if recompute != "none" else "")
    name = f"{shard}-{ranks}-{offload}"
    program, out, report_file = work / f"train-{name}", work / f"run-{name}", work / f"report-{name}.json"
    said = case.shalec(program, shard, ranks, ["--offload", offload, "--recompute", recompute])
    plan = planned_collectives(said)
    described = run([program, "--describe"], "--describe").stdout
    planned = described_rows(described)
    elements = int(re.search(r"^parameters: \d+ with (\d+) elements", described, re.M).group(1))
    at_rest = sum(size for space, category, size in planned if category == "parameters" and "state" in space)
    whole = at_rest * (ranks if shard == "full" else 1)
    accumulators = sum(size for space, category, size in planned if category == "gradients" and "state" in space)
    kept = designed(shard, ranks, whole)
    wanted = kept
    if case.trajectory.get("accumulate"):
        # What is summed up may become the gradient in place.
        gradients = sum(size for _, category, size in planned if category == "gradients")
        wanted = (kept[0], gradients, kept[2])
        if not kept[1] <= accumulators <= gradients <= kept[1] + accumulators:
            raise Deviates(f"{what}: accumulators of {accumulators} bytes, gradients of {gradients}")
    else:
        check_wire(shard, ranks, whole, plan)
    check_kept(f"{what}, by plan,", [row[1:] for row in planned], wanted)
    case.train(program, out, steps=3, flags=["--report-buffers", report_file])
    case.train(program, work / f"plain-{name}", steps=3)
    same_bits(out, work / f"plain-{name}", f"{what} with and without --report-buffers")
    report = json.loads(report_file.read_text())
    padding = check_running(what, report, wanted, whole, elements, accumulators)
    check_spaces(what, planned, report, offload)
    split = 1 if shard == "none" else ranks
    copies = check_copies(what, {unit: 4 * size // split for unit, size in units_of(case, split, 4, 4).items()}, report, offload)
    found = f"{what}: {wanted}, {padding} of padding" + (f", on their way {' '.join(copies)}" if copies else "")
    if shard == "full":
        found += ", units at once %d, by plan %d" % check_gathers(what, report, said, case.trajectory.get("accumulate") or 1)
    counted = {line["comm_bytes"] for line in metrics(out)}
    total = sum(size for _, size in plan.values())
    if counted != {total}:
        raise Deviates(f"{what} sent {counted} bytes a step; the plan says {total}")
    return found


STRATEGIES = ("none", "optimizer", "grad", "full")


def check(a, work):
    case = Case(a.build, a.case)
    if a.offload:
        kinds = [(shard, "all") for shard in STRATEGIES] + [(shard, kind) for shard in ("none", "full") for kind in ("optimizer", "params", "grads")]
        programs = [(case, shard, 2, kind) for shard, kind in kinds]
    else:
        programs = [(case, shard, ranks, "none") for shard in STRATEGIES for ranks in (2, case.most_ranks)]
        programs.append((case, "full", 2, "none", "block"))
    if a.accumulate:
        twice = Case(a.build, a.case, "trajectory-accumulate.json")
        programs += [(twice, shard, 2, kind) for shard in ("none", "full") for kind in ("none", "grads", "all")]
    found = []
    for number, (of, *program) in enumerate(programs):
        (work / str(number)).mkdir()
        found.append(check_program(of, work / str(number), *program))
    return "at rest and on the wire as designed, and as counted\n  " + "\n  ".join(found)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--offload", {"action": "store_true"}), ("--accumulate", {"action": "store_true"}), success="bytes:")
