#!/usr/bin/env python3
"""Compares the planned bytes with the design and with the running program, for every strategy.

usage: e2e bytes --build DIR --case test/models/gpt2 [--offload] [--accumulate]

P is the padded bytes of all parameters (f32), N the number of ranks. Per rank:

             parameters  gradients  optimizer state   sent per step, times (N-1)/N
  none       P           P          2P                2P
  optimizer  P           P          2P/N              2P
  grad       P           P/N        2P/N              2P
  full       P/N         P/N        2P/N              P for the reduction, at most 2P for the gathers

- The first three columns hold when the update begins, by plan (--describe) and in the running program (--report-buffers). The program
  records what its step reads after the update begins, fills all other bytes of its arena with NaN, and must give the same run.
- The last column does not count all-reduces of scalars. The communicator must count the same bytes.
- With full, at most two units (root included) are whole or in flight at once, and each is gathered at most twice per
  micro-batch, with --recompute block too.

--offload: two ranks, with each kind of state in host memory and with all of it. The same bytes hold over both memories, and state of an
offloaded kind is in host memory. A value that is being copied when the update begins counts where it comes from, and its copy
is listed as communication. Nothing else is listed as communication then, and without --offload nothing is.
A copy holds the parameters, the moments, the gradient sums or the gradient of one unit; its bytes follow from the shapes of PyTorch's
weights. The program waits for a copy to the host when the next one begins, and reads one copy while the next one arrives. So there are at
most two copies of state, one of a gradient and two of scalars.

--accumulate: two micro-batches per step, with everything, gradients, or nothing offloaded. The program watches all functions of a step.
Accumulators are counted separately, in host memory if gradients are offloaded.

A mutant that lists a unit's gradient as communication is noticed.
"""
import json
import re
from collections import Counter

from runner import Case, Deviates, compile_changed, expect_deviation, main, metrics, run, same_bits
from units import units_of

KEPT = ("parameters", "gradients", "optimizer")
SCALARS = 4096  # bytes allowed for coordinates, norms and factors


def planned_collectives(text):
    """{kind: (count, bytes)} per step, from the output of shalec."""
    return {kind: (int(count), int(size)) for count, kind, size in
            re.findall(r"^ +(\d+) (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)\b", text, re.M)}


def check_wire(strategy, ranks, whole, plan):
    share = whole * (ranks - 1) // ranks
    scalars = 256 * ranks
    gathered = plan.get("all-gather", (0, 0))[1]
    scattered = plan.get("reduce-scatter", (0, 0))[1]
    reduced = plan.get("all-reduce", (0, 0))[1]
    # An all-reduce rounds each slice up by at most one element per group.
    holds = {"none": gathered == scattered == 0 and 2 * share <= reduced <= 2 * share + scalars,
             "optimizer": gathered == scattered == share and reduced <= scalars,
             "grad": gathered == scattered == share and reduced <= scalars,
             "full": scattered == share and share <= gathered <= 2 * share and reduced <= scalars}[strategy]
    if not holds:
        raise Deviates(f"{strategy} on {ranks} ranks plans {plan}; parameters have {whole} bytes")


def designed(strategy, ranks, whole):
    """Bytes of the categories KEPT."""
    part = whole // ranks
    return {"none": (whole, whole, 2 * whole), "optimizer": (whole, whole, 2 * part),
            "grad": (whole, part, 2 * part), "full": (part, part, 2 * part)}[strategy]


def check_kept(what, rows, wanted):
    """`rows` of (category, bytes) must hold the wanted bytes, and otherwise only scalars and copies in flight."""
    have = tuple(sum(size for category, size in rows if category == kept) for kept in KEPT)
    rest = sum(size for category, size in rows if category not in (*KEPT, "communication"))
    if have != wanted or rest > SCALARS:
        raise Deviates(f"{what} holds parameters, gradients, optimizer state of {have} and {rest} bytes beside; {wanted} expected")


def described_rows(described):
    """The planned buffers when the update begins: (space, category, bytes)."""
    return [(space, category, int(size)) for space, size, category in
            re.findall(r"^ +((?:host )?(?:state|arena)) +\d+ +(\d+) +\d+ +(\w+) ", described, re.M)]


def check_spaces(what, planned, report, offload):
    """The running program must have the planned buffers in each space, and offloaded state in host memory."""
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
    # With strategy optimizer the update begins with the reduction of gradients.
    if offload in ("grads", "optimizer", "all") and not what.startswith("optimizer") and not any(space.startswith("host") and of == "gradients" for space, of, _ in planned):
        raise Deviates(f"{what}: no gradient is in host memory when the update begins")
    if offload == "none" and any("host" in space for space, _, _ in planned):
        raise Deviates(f"{what}: something is in host memory")


def check_running(what, report, wanted, whole, elements, accumulators=0):
    """Checks the tables of all ranks. Returns the bytes of padding per rank."""
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
    # Without padding, each element is there once, or once per rank if it is replicated.
    for category, times, kept in zip(KEPT, (1, 1, 2), wanted):
        if accumulators and category == "gradients":
            continue
        copies = 1 if kept < times * whole else len(report)
        # The plan gives each rank an equal share of a gradient's padding, rounded down.
        rounding = sum(row["category"] == category for rank in report for row in rank["when_update_begins"]) if category == "gradients" else 0
        if not 0 <= used[category] - 4 * times * elements * copies <= rounding:
            raise Deviates(f"{what}: {category} without padding have {used[category]} bytes on all ranks; {copies} x {4 * times * elements} expected")
    return max(padding)


def check_copies(what, units, report, offload):
    """Checks the buffers listed as communication when the update begins. `units`: bytes per rank of a unit's gradient or state."""
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
            raise Deviates(f"{what}, rank {rank['rank']}: these copies are in flight when the update begins: {rows}")
    return [name for name, _ in large]


def check_gathers(what, report, said, batches):
    at_once = max(rank["units_at_once"] for rank in report)
    planned = int(re.search(r"^units +at most (\d+) whole", said, re.M).group(1))
    if at_once > 2 or planned > 2:
        raise Deviates(f"{what} has {at_once} units whole or in flight at once, {planned} by plan")
    if not any("root" == gather["unit"] for gather in report[0]["gathers"]):
        raise Deviates(f"{what} never gathers the root unit")
    for rank in report:
        times = Counter(gather["unit"] for gather in rank["gathers"])
        if max(times.values()) > 2 * batches:
            raise Deviates(f"{what}, rank {rank['rank']}: units are gathered {dict(times)} times in {batches} micro-batches")
    return at_once, planned


def check_program(case, work, shard, ranks, offload="none", recompute="none"):
    """Compiles and checks one program. Returns a line for the summary."""
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
        # An accumulator may become the gradient in place.
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
        raise Deviates(f"{what} sent {counted} bytes per step, but the plan has {total}")
    return found


def check_mutant(case, work):
    """A buffer that is not a copy in flight must not escape the table by being called communication."""
    unit = next(unit for unit in units_of(case, 2, 4, 4) if unit != "root")

    def as_communication(planned):
        buffers = [op for op in planned.ops("rt.buffer") if op.word("category") == "gradients" and op.attributes["name"] == unit]
        return planned.with_lines({op: planned.line(op).replace(" gradients ", " communication ") for op in buffers})
    compile_changed(case, work / "ir", work / "train", "full", 2, (), as_communication)
    case.train(work / "train", work / "run", steps=3, flags=["--report-buffers", work / "report.json"])
    report = json.loads((work / "report.json").read_text())
    expect_deviation(lambda: check_copies("mutant", {}, report, "none"), "that a gradient is called communication", f"{unit} with")


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
    if not a.offload and not a.accumulate:
        (work / "mutant").mkdir()
        check_mutant(case, work / "mutant")
    return "at rest and on the wire as designed, and as counted\n  " + "\n  ".join(found)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--offload", {"action": "store_true"}), ("--accumulate", {"action": "store_true"}), success="bytes:")
