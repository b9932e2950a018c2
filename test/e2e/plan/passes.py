#!/usr/bin/env python3
"""Checks that passes do not change results, one by one and in pairs, in the interpreter on 1, 2 and 4 ranks (plain: 1, 2, 3).

usage: e2e passes --build DIR --case test/models/gpt2 [--all | --share N] [--only REGEX] [--list]

1. Programs between passes. Compiles a fixture with a set of flags, keeps the program after each pass that changes it, runs each
   program once, and compares every two. Neighbours show the effect of one pass, other pairs that of several.
   - In f64, all but the planned program: within 1e-12, for results that both programs have. (A planned program has byte buffers and runs in
     its declared types.) Casts have no effect in f64, so this includes the precision pass. If precision rounds stored values (no masters,
     bf16 moments), programs before it are not compared with programs after it. With --accumulate the same holds for autodiff: the
     loss of a step with several micro-batches is not that of the forward pass.
   - In declared types, all programs: within r u, where u is the unit of the narrowest type (2^-24; bf16 2^-8, f16 2^-11) and r is the
     longest chain of values of that type in any of the programs. Each value of the chain rounds once.
   - In declared types, to the bit, where passes only move values: from partition to the last program before decomposition
     (recomputation, gathers, offload), and from decomposition to plan (fusion, schedule, plan).
2. Sets of flags: each policy alone, and each pair of policies of different kinds, with --shard full and defaults otherwise.
   Policies that only move data (recompute, offload, prefetch, gathers) must give the bits of the planned program without them.

--all runs every policy on each number of ranks, and every pair on one number of ranks, in turn. Without it the test runs ctest's share:
every other policy of gpt2 and llama, so that both together cover all; of plain, which takes four times as long, one in sixteen; and one in
SHARE (or N) pairs. --only selects sets by name.
"""
import itertools
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from runner import Case, Deviates, longest_chain, main, read_program, run, stage_files

SHARE = {"gpt2": 160, "llama": 160, "plain": 600}
POLICY_SHARE = {"gpt2": 2, "llama": 2, "plain": 16}
# kind: policies by name. These only move data:
MOVES = {
    "recompute": {"block": "--recompute block", "selective": "--recompute selective"},
    "offload": {"all": "--offload all", "params": "--offload params", "grads": "--offload grads", "optimizer": "--offload optimizer",
                "activations": "--offload activations:0.5"},
    "gathers": {"prefetch-0": "--prefetch 0", "prefetch-2": "--prefetch 2 --max-gathers-in-flight 3",
                "bounded": "--prefetch 3 --max-gathers-in-flight 2", "keep": "--reshard-after-forward=false"},
    "order": {"memory": "--order memory"},
}
# These also change roundings or the order of sums:
COMPUTES = {
    "dtype": {"bf16": "--param-dtype bf16", "f16": "--param-dtype f16", "all-bf16": "--param-dtype bf16 --reduce-dtype bf16 --buffer-dtype bf16",
              "no-master": "--param-dtype bf16 --master-dtype none --optimizer-dtype bf16"},
    "shard": {"none": "--shard none", "optimizer": "--shard optimizer", "grad": "--shard grad", "hybrid": "--mesh replica=2,fsdp=2 --shard hybrid"},
    "bucket": {"25MiB": "--bucket-size 25MiB", "64KiB": "--bucket-size 64KiB"},
    "accumulate": {"each": "--accumulate 3", "once": "--accumulate 3 --sync-every-microbatch=false"},
    "unit": {"size": "--unit size:20000", "match": "--unit match:mlp|layers"},
    "train": {"freeze": "--freeze wte|embed|tok", "sgd": "--optimizer sgd"},
    "import": {"no-recover": "--no-recover"},
}
POLICIES = [(kind, name, flags.split()) for table in (MOVES, COMPUTES) for kind, names in table.items() for name, flags in names.items()]
ORDER = ("import", "recover", "annotate", "autodiff", "precision", "partition", "policies", "memory", "fusion", "plan")
UNIT = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}


def program(path):
    """The text of a dump without the flags and the stage that --save-temps records."""
    text = re.sub(r"^(// To .*\n)+", "", path.read_text())
    return re.sub(r',\s*shale\.flags = \[[^\]]*\],\s*shale\.stage = "[a-z]*"', "", text, count=1)


def programs(case, folder, flags, ranks, *more):
    """(stage and pass, file) of each program that differs from the one before it."""
    words, shard = [*flags, *more], "full"
    if case.most_ranks == 3:  # six rows
        words = [word.replace("replica=2", "replica=3") for word in words]
    if "--shard" in words:
        at = words.index("--shard")
        shard = words[at + 1]
        del words[at:at + 2]
    files = list(stage_files(case, folder, "rt", shard, ranks, words, {"sequence": 8}).items())
    return files[:1] + [after for before, after in zip(files, files[1:]) if program(before[1]) != program(after[1])]


class Chain:
    """The programs of a set of flags, one after each pass that changes something."""

    def __init__(self, case, folder, flags, ranks):
        self.case, self.flags, self.ranks = case, flags, ranks
        found = programs(case, folder, flags, ranks, "--save-temps-passes")
        self.names, self.files = [name for name, _ in found], [path for _, path in found]
        if not self.names[-1].startswith("plan"):
            raise Deviates(f"the last program is {self.names[-1]}, not the planned one")
        self.passes = {name.split("-", 2)[-1] for name in self.names[1:]}
        self.worst, self.pairs = {"f64": 0.0, "declared": 0.0}, {"f64": 0, "declared": 0, "bits": 0}

    def first(self, stage, which=""):
        """The index of the first program at or after a stage or, if named, a pass."""
        return next(i for i, name in enumerate(self.names) if ORDER.index(name.split("-")[0]) >= ORDER.index(stage) and re.search(which, name))

    def compare(self, kind, files, *how):
        """Runs each program and compares every two. Returns the classes of equal bits."""
        # The tool prints functions for two programs and counts pairs for more, so the last one is passed twice.
        others = files[1:] if len(files) > 2 else files[1:] * 2
        said = run([self.case.bin / "shale-run", files[0], *(f"--compare={path}" for path in others), f"--ranks={self.ranks}", *how],
                   f"{' '.join(self.flags)} on {self.ranks} ranks, {kind}").stdout
        self.pairs[kind] += len(files) * (len(files) - 1) // 2
        self.worst[kind] = max(self.worst[kind], float(re.search(r"pairs, .* difference (\S+)", said).group(1)))
        return [line.split()[2:] for line in said.splitlines() if line.startswith("same bits: ")]

    def check_bits(self, classes, files):
        names = [path.name for path in files]
        if len(names) > 1 and not any(set(names) <= set(kind) for kind in classes):
            raise Deviates(f"{' '.join(self.flags)} on {self.ranks} ranks: {', '.join(names)} have not the same bits")
        self.pairs["bits"] += len(names) * (len(names) - 1) // 2

    def check(self, *same):
        """`same`: planned programs with other flags that must have the bits of this one."""
        read = [read_program(self.case.bin, path) for path in self.files]
        elements = {value.element for program in read for value in program.values()}
        self.narrowest = next(kind for kind in ("bf16", "f16", "f32") if kind in elements)
        cuts = [self.first("autodiff")] if "--accumulate" in self.flags else []
        floor = ["--floor=0.01"] if cuts else []  # gradients of key biases are zero except for rounding
        rounds_state = [self.first("precision")] if "--master-dtype" in self.flags else []
        tensors = len(self.files) - 1  # the last one is planned
        for begin, end in zip([0, *cuts, *rounds_state], [*cuts, *rounds_state, tensors]):
            self.compare("f64", self.files[begin:end], "--as=f64", *floor)
        partitioned, fused, decomposed = self.first("partition", "materialize-units$"), self.first("fusion"), self.first("fusion", "decompose$|fusion$")
        self.bound = max(longest_chain(program, self.narrowest) for program in read[:decomposed + 1]) * UNIT[self.narrowest]
        declared = [f"--tolerance={self.bound}", *floor]
        if cuts:
            self.compare("declared", self.files[:cuts[0]], *declared)
        classes = self.compare("declared", [*self.files[sum(cuts):], *same], *declared)
        self.check_bits(classes, self.files[partitioned:fused])
        self.check_bits(classes, [*self.files[decomposed:], *same])


def sets_of(case, whole, share):
    """(name, flags, flags without those that only move data, ranks) of every set."""
    turn = ["gpt2", "llama", "plain"].index(case.folder.name)
    numbers = [1, 2, case.most_ranks]
    chosen = [[policy] for policy in POLICIES]
    pairs = [list(pair) for pair in itertools.combinations(POLICIES, 2) if pair[0][0] != pair[1][0]]
    # The policies of plain run on 1 and 2 ranks.
    found = [("none", [], [], ranks) for ranks in (numbers if whole or case.folder.name != "plain" else numbers[2:])]
    for i, policies in enumerate(chosen + pairs):
        alone = i < len(chosen)
        if not whole and ((i + turn) % POLICY_SHARE[case.folder.name] if alone else (i + 13 * turn) % (share or SHARE[case.folder.name])):
            continue
        name = "+".join(f"{kind}:{policy}" for kind, policy, _ in policies)
        flags = [word for _, _, words in policies for word in words]
        still = [word for kind, _, words in policies if kind not in MOVES for word in words]
        for ranks in numbers if whole and alone else [numbers[(i // 2 if alone else i) % 3]]:
            found.append((name, flags, still, ranks))
    return found


def check_set(case, work, number, name, flags, still, ranks):
    chain, same = Chain(case, work / f"{number}", flags, ranks), []
    if flags != still:
        _, planned = programs(case, work / f"{number}-still", still, ranks)[-1]
        same.append(planned.rename(work / f"{number}" / "still.mlir"))
    chain.check(*same)
    return chain


def check(a, work):
    case = Case(a.build, a.case)
    sets = [one for one in sets_of(case, a.all, a.share) if re.search(a.only, one[0])]
    if not sets:
        raise Deviates(f"no set of flags matches --only '{a.only}'")
    if a.list:
        return "\n".join(f"{name} on {ranks}" for name, _, _, ranks in sets)
    failures = []

    def guarded(numbered):
        number, (name, *rest) = numbered
        try:
            return check_set(case, work, number, name, *rest)
        except Deviates as error:
            failures.append(f"{name}: {error}")
            if a.all:
                print(failures[-1], file=sys.stderr, flush=True)

    with ThreadPoolExecutor(2) as pool:
        chains = list(pool.map(guarded, enumerate(sets)))
        # After the recover stage the default export gives the same program, so one set of flags is enough.
        other = Case(a.build, a.case, model="model-default-export.onnx")
        if not a.only:
            chains.append(Chain(other, work / "other", [], 1))
            chains[-1].check()
    chains = [chain for chain in chains if chain]
    pairs = {kind: sum(chain.pairs[kind] for chain in chains) for kind in ("f64", "declared", "bits")}
    passes = set().union(*(chain.passes for chain in chains))
    most = lambda what, *kinds: max((chain.worst[what] for chain in chains if chain.narrowest in kinds), default=0)
    said = (f"{len(chains)} sets of flags, {sum(len(chain.files) for chain in chains)} programs around {len(passes)} passes; pairs: {pairs['f64']} in f64, "
            f"worst {most('f64', *UNIT):.1e}; {pairs['declared']} as declared, worst in f32 {most('declared', 'f32'):.1e}, bf16 {most('declared', 'bf16'):.1e}, "
            f"f16 {most('declared', 'f16'):.1e}; {pairs['bits']} to the bit")
    if failures:
        raise Deviates(f"{len(failures)} of {len(sets)} sets\n  " + "\n  ".join(failures) + f"\nthe others: {said}")
    return said


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--all", {"action": "store_true"}), ("--share", {"type": int, "default": 0}), ("--only", {"default": ""}),
         ("--list", {"action": "store_true"}), success="equal:")
