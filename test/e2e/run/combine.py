#!/usr/bin/env python3
"""Random combinations of flags that must not change a run.

usage: e2e combine --build DIR [--count 60] [--seed 0] [--extras-only]

Each program follows PyTorch's trajectory. Programs that differ only in data movement have the same bits.

A class is a fixture, mesh, strategy, units, buckets, number of micro-batches per step and their synchronization: everything that decides
the order of sums. A class of gpt2 may have frozen parameters, which must keep their bits. The members of a class differ in
recomputation, offload, prefetch, gathers in flight, and resharding after forward. Every member must have the bits of the first.
With K micro-batches per step the rows of each batch are split into K. The seed decides everything.

`count` programs are in f32. Every second class also has a companion: the model with dropout (compared with the interpreter's run of the
unsharded step), a fixture in 16-bit floats (loss within the bar of the type; norms and weights are not compared), or both.
"""
import random
from concurrent.futures import ThreadPoolExecutor

from dropping import Dropout
from dropping import off as off_by
from runner import LOSS, MODELS, NORM, Case, Deviates, check_frozen, cut, largest, main, metrics, same_bits

MEMBERS = 4
# Rows per batch, and meshes by their number of data ranks.
CASES = {"gpt2": 4, "llama": 4, "plain": 6}
MESHES = {1: ["fsdp=1"], 2: ["fsdp=2"], 3: ["fsdp=3"], 4: ["fsdp=4", "replica=2,fsdp=2"], 6: ["replica=3,fsdp=2"]}
STRATEGIES = ("none", "optimizer", "grad", "full", "full")
MICRO_BATCHES = (1, 1, 2)
TRAJECTORIES = {"gpt2": ("trajectory.json", "trajectory.json", "trajectory-frozen.json")}
# Flags of 16-bit floats, and the bar for the loss relative to the f32 run.
TYPES = (("--param-dtype bf16", 0.02), ("--param-dtype bf16 --reduce-dtype bf16 --buffer-dtype bf16", 0.03),
          ("--param-dtype bf16 --master-dtype none --optimizer-dtype bf16", 0.1), ("--param-dtype f16", 0.02))
EXTRAS = ((True, True), (False, True), (True, False))  # dropout, 16-bit floats
MODULES = "match:mlp|layers|h\\..*up"
# (flag, values, strategy or None): flags that decide the class, and flags in which the members of a class differ.
CLASS = [("--unit", ("block", "block", "size:20000", MODULES), None),
         ("--bucket-size", ("0", "25MiB", "64KiB"), None)]
MEMBER = [("--recompute", ("none", "block", "selective", "block:0.5", MODULES), None),
          ("--offload", ("none", "all", "optimizer", "params,grads", "activations:0.5", "grads,optimizer:0.5,activations"), None),
          ("--prefetch", ("0", "1", "2", "3"), None),
          ("--max-gathers-in-flight", ("1", "2", "3", "4"), None),
          ("--order", ("overlap", "memory"), None),
          ("--reshard-after-forward", ("true", "false"), "full")]


def draw_flags(rng, table, shard):
    return [word for flag, values, only in table if only in (None, shard) for word in (flag, rng.choice(values))]


def draw_class(rng, dropout=False, half=False):
    name, shard = "dropout" if dropout else rng.choice(sorted(CASES)), rng.choice(STRATEGIES)
    pieces = rng.choice(MICRO_BATCHES)
    rows = 4 if dropout else CASES[name] // pieces
    mesh = rng.choice([mesh for ranks, meshes in sorted(MESHES.items()) if rows % ranks == 0 for mesh in meshes])
    dtypes, bar = rng.choice(TYPES) if half else ("", None)
    flags = ["--mesh", mesh, *dtypes.split(), *draw_flags(rng, CLASS, shard)]
    if pieces > 1:
        flags += ["--accumulate", str(pieces)]
        if shard in ("grad", "full"):
            flags += ["--sync-every-microbatch", rng.choice(("true", "false"))]
    return {"case": name, "shard": shard, "flags": flags, "pieces": pieces, "bar": bar,
            "trajectory": rng.choice(TRAJECTORIES.get(name, ("trajectory.json",)))}


def draw(seed, count):
    """Classes with their members: `count` members in f32 on the fixtures, and the companions."""
    rng, more = random.Random(seed), random.Random(seed + 1000)
    classes, extras = [], []
    while count > 0:
        kind = draw_class(rng)
        kind["members"] = [draw_flags(rng, MEMBER, kind["shard"]) for _ in range(min(MEMBERS, count))]
        count -= len(kind["members"])
        if len(classes) % 2 == 0:
            extras.append(draw_class(more, *EXTRAS[len(extras) % len(EXTRAS)]))
            extras[-1]["members"] = [draw_flags(more, MEMBER, extras[-1]["shard"]) for _ in range(MEMBERS)]
        classes.append(kind)
    return classes, extras


class DropoutCase(Dropout):
    """The model with dropout, with the interface of Case. It follows the interpreter's run."""

    def __init__(self, build, work, pieces):
        work.mkdir()
        super().__init__(build, work)
        self.wanted = self.interpret(*(("--accumulate", pieces) if pieces > 1 else ()))

    def shalec(self, output, shard, flags):
        self.compile(output, "--shard", shard, *flags)

    def train(self, program, out):
        super().train(program, out)

    def losses(self):
        return [line["loss"] for line in self.wanted]

    def check_metrics(self, out):
        loss, norm = off_by(metrics(out), self.wanted)
        if not (loss <= LOSS and norm <= NORM):
            raise Deviates(f"loss is off by {loss:.1e}, gradient norm by {norm:.1e}")
        return loss, norm

    def check_weights(self, out):
        return 0.0


class FixtureCase(Case):
    def losses(self):
        return [step["loss"] for step in self.trajectory["steps"]]

    def check_weights(self, out):
        if not self.trajectory.get("frozen"):
            return super().check_weights(out)
        start = out.with_suffix(".start")
        self.train(out.with_suffix(".train"), start, steps=0)
        check_frozen(out, start, self.trajectory["frozen"])
        return 0.0


def check_losses(case, out, bar):
    """Checks the loss of every step against the bar. Returns the largest difference."""
    lines = metrics(out)
    skipped = [line["step"] for line in lines if line.get("skipped")]
    off = largest(abs(line["loss"] - want) for line, want in zip(lines, case.losses()))
    if skipped or len(lines) != len(case.losses()) or not off <= bar:
        raise Deviates(f"{len(lines)} steps, skipped {skipped}, loss is off by {off:.4f} (bar {bar})")
    return off


def follow_class(a, work, number, kind):
    """Runs all members. Returns the largest differences from the trajectory, and a line for each failure."""
    if kind["case"] == "dropout":
        case = DropoutCase(a.build, work / f"{number}", kind["pieces"])
    else:
        case = FixtureCase(a.build, MODELS / kind["case"], kind["trajectory"])
        if kind["pieces"] > 1:
            cut(case, work / f"{number}.safetensors", kind["pieces"])
    worst, failures, first = [0.0, 0.0, 0.0], [], None
    for index, member in enumerate(kind["members"]):
        out = work / f"{number}-{index}"
        try:
            case.shalec(out.with_suffix(".train"), kind["shard"], flags=kind["flags"] + member)
            case.train(out.with_suffix(".train"), out)
            found = [check_losses(case, out, kind["bar"])] if kind["bar"] else [*case.check_metrics(out), case.check_weights(out)]
            first = first or (out, member)
            same_bits(first[0], out, f"it and the one with {' '.join(first[1])}")
        except Deviates as error:
            failures.append(f"{kind['case']} --shard {kind['shard']} {' '.join(kind['flags'] + member)}: {error}")
            continue
        worst = [largest(pair) for pair in zip(worst, found + [0.0, 0.0])]
    return worst, failures


def check(a, work):
    classes, extras = draw(a.seed, a.count)
    if a.extras_only:
        classes = []
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda numbered: follow_class(a, work, *numbered), enumerate(classes + extras)))
    failures = [line for _, lines in found for line in lines]
    if failures:
        raise Deviates(f"{len(failures)} failed\n  " + "\n  ".join(failures))
    beside = {what: max((worst[0] for (worst, _), kind in zip(found, classes + extras) if kind in extras and bool(kind["bar"]) == half), default=0)
              for what, half in (("half", True), ("dropout", False))}
    loss, norm, weights = (max(column) for column in zip(*([worst for worst, _ in found[:len(classes)]] or [[0, 0, 0]])))
    return (f"{sum(len(kind['members']) for kind in classes)} combinations in {len(classes)} classes of equal bits; loss {loss:.1e}, norm {norm:.1e}, "
            f"weights {weights:.1e}; beside them {sum(len(kind['members']) for kind in extras)} in {len(extras)} classes: "
            f"dropout in f32, loss {beside['dropout']:.1e}; 16-bit floats {beside['half']:.4f}")


if __name__ == "__main__":
    main(check, ("--count", {"type": int, "default": 8}), ("--seed", {"type": int, "default": 0}),
         ("--extras-only", {"action": "store_true"}), success="combines:")
