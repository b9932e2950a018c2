#!/usr/bin/env python3
"""Compares the bytes that each collective of a step sends with the design, exactly.

usage: e2e sent --build DIR --case test/models/gpt2 [--more | --brief | --whole] [--stubs DIR]

The communicator counts bytes at the calls that send them, and --report-buffers lists the counts of the first step by rank. The expected
bytes follow from the shapes of PyTorch's final weights, the mesh and the flags, not from the plan. N is the number of ranks on the shard axis, r that
of replicas and K that of micro-batches. W and R are the bytes of all units in the wire type and the reduce type. A parameter starts at a
multiple of 64 bytes, and a unit is padded to a multiple of N elements. 256 elements that are gathered as 8-bit integers with a scale are 260 bytes;
parameters and slices then begin at multiples of 256 elements. Elements that are gathered as bf16 or f16 are 2 bytes. In both cases each micro-batch gathers, with `optimizer` and
`grad`, too. Gradients that are summed as
8-bit integers take 260 bytes for 256 elements, too, and slices have whole blocks for each replica; a reduce-scatter is an all-to-all then, and an all-reduce an
all-to-all and an all-gather. Per step a rank sends:

  none       2 R (N-1)/N
  optimizer  (W + R) (N-1)/N
  grad       (W + K R) (N-1)/N
  full       K (gathers of W + R) (N-1)/N

With replicas it also sends 2 (r-1)/r of its gradients each time they are reduced. With full each unit is gathered twice per micro-batch, in
forward and backward. The last block is gathered once, since its backward pass follows its forward pass, unless only one unit may be
whole at once. With --reshard-after-forward=false each unit is gathered once. The remaining bytes are all-reduces of scalars: the label count,
the sum of losses and the squared norm.

Without --more a mutant must fail, too: a planned program in which one unit is gathered twice in a row.

--more: with replicas and with two micro-batches.
--brief: five of the programs.
--whole: programs in which a rank computes a part of some gradients whole: the model with an L2 term of some parameters in the loss, or the model of
--case if its graph brings the gradients. They are summed with the others of their unit all the same. With full only what is reduced is compared: the
term reads units once more.

Programs in f32 also have the losses and norms of the trajectory; with an L2 term, those of one rank.
--stubs: programs for GPUs, with the stand-ins for NVIDIA's libraries in DIR. NCCL does not report what it sends: each of its calls counts as a ring.
"""
import json
import sys
from collections import Counter

from runner import LOSS, MODELS, NORM, Case, Deviates, compile_changed, expect_deviation, largest, main, metrics, run
from ir_program import collective
from units import INT8, units_of

# Parameters that are tied to another; units whose gradient does not read them; output layers that are units, with which a forward pass ends
# and the backward pass begins; and what else of a model is still whole then, if two units may be.
TABLES, HEADS = {"model.embed_tokens", "tok"}, {"lm_head", "head"}
ENDS = {"lm_head": "root", "head": "head", "transformer.h.1": "transformer.h.1", "h.1": "h.1"}
TO_INT8, SUMMED = ["--wire-dtype", "gather=int8"], ["--wire-dtype", "reduce=int8"]
BOTH = ["--wire-dtype", "gather=int8,reduce=int8"]
TO_BF16, TO_F16, F16_SUMMED = (["--wire-dtype", types] for types in ("gather=bf16", "gather=f16", "gather=f16,reduce=int8"))
STEADY = ["--schedule", "constant", "--save-every", 0]
ALONE = ["--max-gathers-in-flight", "1", "--prefetch", "0"]
# ranks, replicas, strategy, flags, bytes of an element in the wire type and in the reduce type
SETTINGS = [(2, 1, "none", [], 4, 4), (2, 1, "optimizer", [], 4, 4), (2, 1, "grad", [], 4, 4), (2, 1, "full", [], 4, 4), (None, 1, "full", [], 4, 4),
            (2, 1, "full", ["--reshard-after-forward=false"], 4, 4), (2, 1, "full", ["--recompute", "block"], 4, 4), (2, 1, "full", ["--prefetch", "0"], 4, 4),
            (2, 1, "full", ALONE, 4, 4),
            (2, 1, "full", ["--param-dtype", "bf16"], 2, 4), (2, 1, "grad", ["--param-dtype", "bf16", "--reduce-dtype", "bf16"], 2, 2),
            *((2, 1, strategy, TO_INT8, INT8, 4) for strategy in ("optimizer", "grad")), (None, 1, "full", [*TO_INT8, "--param-dtype", "bf16"], INT8, 4),
            *((2, 1, strategy, TO_BF16, 2, 4) for strategy in ("optimizer", "grad", "full")), (None, 1, "full", [*TO_F16, "--recompute", "block"], 2, 4),
            (2, 1, "full", F16_SUMMED, 2, INT8),
            *((2, 1, strategy, SUMMED, 4, INT8) for strategy in ("none", "optimizer", "grad", "full")), (None, 1, "full", BOTH, INT8, INT8)]
BRIEF = [(2, 1, "full", BOTH, INT8, INT8), (2, 1, "full", TO_BF16, 2, 4), (2, 1, "full", TO_INT8, INT8, 4), (2, 1, "optimizer", [], 4, 4), (None, 1, "full", [], 4, 4), (2, 1, "full", ["--recompute", "block"], 4, 4)]
REPLICAS = [(2, 2, strategy, [], 4, 4) for strategy in ("none", "optimizer", "grad", "full")] + \
           [(2, 2, "none", SUMMED, 4, INT8), (2, 2, "full", SUMMED, 4, INT8)]
ACCUMULATED = [(2, 1, "none", [], 4, 4), (2, 1, "optimizer", [], 4, 4), (2, 1, "grad", [], 4, 4), (2, 1, "full", [], 4, 4), (4, 1, "full", ["--offload", "all"], 4, 4),
               (2, 1, "full", ["--sync-every-microbatch=false"], 4, 4), (2, 2, "full", [], 4, 4), (2, 1, "grad", TO_INT8, INT8, 4), (2, 1, "full", TO_INT8, INT8, 4),
               (2, 1, "optimizer", TO_BF16, 2, 4), (2, 1, "full", TO_BF16, 2, 4), (2, 1, "none", SUMMED, 4, INT8), (2, 1, "full", SUMMED, 4, INT8)]
WHOLE = [(2, 1, "full", [], 4, 4), (4, 1, "full", [], 4, 4), (2, 1, "grad", [], 4, 4), (2, 1, "optimizer", [], 4, 4), (2, 1, "none", [], 4, 4),
         (2, 2, "full", [], 4, 4), (2, 1, "full", ["--param-dtype", "bf16"], 2, 4), (2, 1, "full", SUMMED, 4, INT8)]
SQUARED = ["m.lm_head.weight", "m.transformer.h.0.mlp.c_fc.weight", "m.transformer.h.1.ln_1.bias"]


class Penalized(Case):
    """A model with the squares of some parameters in the loss. What is wanted are the losses and norms of one rank."""

    def __init__(self, build, folder, work):
        super().__init__(build, folder, model=work / "model.onnx")
        run([sys.executable, MODELS.parent / "passes/sharding/Inputs/add_l2.py", self.folder / "model.onnx", self.model, *SQUARED], "add_l2.py")
        self.shalec(work / "alone", "none")
        self.train(work / "alone", work / "one", 3, STEADY)
        self.trajectory = {**self.trajectory, "steps": metrics(work / "one")}

    def shalec(self, output, shard="none", ranks=1, flags=(), sizes=None):
        return super().shalec(output, shard, ranks, [*flags, "--loss-output", "loss=1,l2=0.01"], sizes)


def check_steps(case, out, what):
    for got, want in zip(metrics(out), case.trajectory["steps"]):
        loss, norm = abs(got["loss"] - want["loss"]), abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"]
        if not largest([loss / LOSS, norm / NORM]) <= 1:
            raise Deviates(f"{what}: the loss of step {got['step']} is off by {loss:.1e}, its norm by {norm:.1e}")


def expected(strategy, units, shards, replicas, batches, flags, gathered, reduced):
    """{(kind, axis): bytes}."""
    ends = HEADS if flags == ALONE else HEADS | {ENDS[next(name for name in ENDS if name in units)]}
    reductions = 1 if strategy in ("none", "optimizer") or "--sync-every-microbatch=false" in flags else batches
    found = Counter()
    for unit, elements in units.items():
        share = elements // shards * (shards - 1)
        if strategy == "none" and reduced == INT8:
            found["all-to-all", "fsdp"] += share * reduced
            found["all-gather", "fsdp"] += share * reduced
        elif strategy == "none":
            found["all-reduce", "fsdp"] += 2 * share * reduced
        else:
            found["all-to-all" if reduced == INT8 else "reduce-scatter", "fsdp"] += reductions * share * reduced
            once = unit in ends or unit in TABLES or "--reshard-after-forward=false" in flags
            # plain's positions are in the same unit as its last norm: used before all blocks, after them, and after the head in the backward pass.
            apart = unit == "root" and "head" in units and flags == ALONE
            gathers = batches * (1 if once else 3 if apart else 2) if strategy == "full" else batches if "gather=" in " ".join(flags) else 1
            found["all-gather", "fsdp"] += gathers * share * gathered
        own = elements if strategy == "none" else elements // shards
        if replicas > 1 and reduced == INT8:
            for kind in ("all-to-all", "all-gather"):
                found[kind, "replica"] += reductions * own // replicas * (replicas - 1) * reduced
        elif replicas > 1:
            found["all-reduce", "replica"] += reductions * 2 * (replicas - 1) * -(-own // replicas) * reduced
    return found


def scalars_of(strategy, shards, replicas, batches, brings=False):
    """The number of scalars summed over each axis: count and loss per micro-batch, and the squared norm if gradients are sharded. They are f32; a graph
    that brings its gradients counts labels as integers of 64 bits."""
    found = Counter({("all-reduce", "fsdp", 8 * (shards - 1)): (1 if brings else 2) * batches + (strategy != "none")})
    if replicas > 1:
        found["all-reduce", "replica", 8 * (replicas - 1)] += (1 if brings else 2) * batches
    for axis, ranks in (("fsdp", shards), ("replica", replicas)):
        if brings and ranks > 1:
            found["all-reduce", axis, 16 * (ranks - 1)] += batches
    return found


def gathered_again(program):
    """The text of a planned program in which a gather whose wait follows it runs twice."""
    ops = list(program.walk())
    gather, wait = next((op, after) for op, after in zip(ops, ops[1:]) if collective(op) == "all_gather" and after.operands == op.results)
    [token], site = gather.results, gather.attributes["site"]
    sites = 1 + max(op.attributes["site"] for op in program.ops("rt.collective"))
    again = program.line(gather).replace(f"{token.name} =", "%again =", 1).replace(f" site = {site} ", f" site = {sites} ")
    return program.with_lines({wait: "\n".join([program.line(wait), again, "rt.wait %again"])})


def check_program(case, work, setting, change=None, stubs=None):
    ranks, replicas, strategy, flags, gathered, reduced = setting
    shards = ranks or case.most_ranks
    batches = case.trajectory.get("accumulate") or 1
    what = f"{case.folder.name}, {strategy} on {replicas} x {shards} ranks, {batches} micro-batch(es), {' '.join(flags) or 'no flags'}"
    mesh = ["--mesh", f"replica={replicas},fsdp={shards}"] if replicas > 1 else []
    device, libraries = (["--target", "cuda:emulated"], ["--cuda-libraries", stubs]) if stubs else ([], [])
    if change:
        compile_changed(case, work / "ir", work / "train", strategy, shards, [*mesh, *flags, *device], change)
    else:
        case.shalec(work / "train", strategy, shards, [*mesh, *flags, *device])
    case.train(work / "train", work / "run", steps=3, flags=[*STEADY, "--report-buffers", work / "report.json", *libraries])
    if (gathered, reduced) == (4, 4):
        check_steps(case, work / "run", what)
    units = units_of(case, shards, gathered, reduced, replicas)
    wanted = expected(strategy, units, shards, replicas, batches, flags, gathered, reduced)
    if isinstance(case, Penalized) and strategy == "full":
        del wanted["all-gather", "fsdp"]
    few = scalars_of(strategy, shards, replicas, batches, case.folder.name == "joint")
    report = json.loads((work / "report.json").read_text())
    for rank in report:
        found, scalars = Counter(), []
        for site in rank["sent"]:
            key = site["kind"], site["axis"], site["bytes"]
            if key in few:
                scalars.append(key)
            else:
                found[key[:2]] += site["bytes"]
        if isinstance(case, Penalized) and strategy == "full":
            del found["all-gather", "fsdp"]
        if found != wanted:
            raise Deviates(f"{what}, rank {rank['rank']}: sent {dict(found - wanted)} too much, {dict(wanted - found)} too little")
        if Counter(scalars) != few:
            raise Deviates(f"{what}, rank {rank['rank']}: in addition to units it sends {dict(Counter(scalars))}, not {dict(few)}")
    sent = sum(site["bytes"] for site in report[0]["sent"])
    if {line["comm_bytes"] for line in metrics(work / "run")} != {sent}:
        raise Deviates(f"{what}: metrics.jsonl has other bytes than the {sent} of the collectives")
    return int(sum(wanted.values()))


def check_mutant(case, work, stubs):
    """Returns the message about a program that gathers a unit once more."""
    work.mkdir()
    return expect_deviation(lambda: check_program(case, work, (2, 1, "full", [], 4, 4), gathered_again, stubs), "that a unit is gathered once more",
                            "too much")


def check(a, work):
    case = Case(a.build, a.case)
    runs = [(case, setting) for setting in (BRIEF if a.brief else SETTINGS)]
    if a.more:
        accumulated = Case(a.build, a.case, "trajectory-accumulate.json")
        runs = [(case, setting) for setting in REPLICAS] + [(accumulated, setting) for setting in ACCUMULATED]
    if a.whole:
        of = case if b"grad." in (case.folder / case.model).read_bytes() else Penalized(a.build, a.case, work)
        runs = [(of, setting) for setting in WHOLE]
    total = 0
    for number, (of, setting) in enumerate(runs):
        (work / str(number)).mkdir()
        total += check_program(of, work / str(number), setting, stubs=a.stubs)
    said = f"{len(runs)} programs send {total} bytes for units, exactly as designed"
    return said if a.more or a.whole else said + "\n  mutant: " + check_mutant(case, work / "mutant", a.stubs)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--more", {"action": "store_true"}), ("--brief", {"action": "store_true"}),
         ("--whole", {"action": "store_true"}), ("--stubs", {}), success="sent:")
