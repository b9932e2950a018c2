#!/usr/bin/env python3
"""No kernel stores an f32 copy of a 16-bit value: casts are part of the kernels around them.

usage: e2e casts --build DIR

Looks at every kernel of the fixtures' programs in 16-bit floats, with several strategies and micro-batches:

- A kernel must not yield f32 elements that are 16-bit values, only widened or moved. State that is stored in f32 (the first part of a sum)
  is the exception.
- A kernel that only rounds must read f32 state (a master that is sent or has a rounded copy), or the f32 result of a kernel of
  its own or of a collective.
- Products read and write 16-bit floats.
"""
import re

from runner import MODELS, VALUE, Deviates, main, run

MOVES = {"cast", "reshape", "transpose", "slice", "concat", "broadcast", "pad"}
SUMS = {"reduce", "embedding_grad"}
CASES = {"gpt2": ["--dim", "batch=4", "--dim", "sequence=16"], "llama": ["--dim", "batch=4", "--dim", "sequence=16"],
         "plain": ["--dim", "batch=6", "--loss", "cross-entropy:scores,targets"]}
MESHES = [["--mesh", "fsdp=1"], ["--mesh", "fsdp=2", "--shard", "full", "--recompute", "block"], ["--mesh", "fsdp=2", "--shard", "optimizer"],
          ["--mesh", "fsdp=2", "--shard", "full", "--accumulate", "3"]]
POLICIES = [["--param-dtype", "bf16"], ["--param-dtype", "bf16", "--reduce-dtype", "bf16", "--buffer-dtype", "bf16"],
            ["--param-dtype", "bf16", "--master-dtype", "none", "--optimizer-dtype", "bf16"]]


class Kernel:
    """The ops of a kernel, read from lines `%r = nn.op %a, ... : types`."""

    def __init__(self, body):
        self.makers, self.yields = {}, []
        for line in body.splitlines():
            made = re.match(rf"\s*({VALUE})(?::\d+)?(?:, {VALUE})* = nn\.(\w+)(.*)", line)
            if made:
                result, op, rest = made.groups()
                types = re.findall(r"tensor<([^>]*)>", rest)
                self.makers[result] = (op, re.findall(VALUE, rest), types)
            elif "rt.yield" in line:
                self.yields = list(zip(re.findall(VALUE, line), re.findall(r"tensor<([^>]*)>", line)))
        self.ops = {op for op, _, _ in self.makers.values()} - {"constant"}

    def widened(self, value):
        """Whether the value is a widened 16-bit value, possibly moved."""
        op, operands, types = self.makers.get(value, (None, [], []))
        if op == "cast":
            return types[0].endswith("f16")
        return op in MOVES and any(self.widened(operand) for operand in operands)


def elements(kind):
    sizes = [int(size) for size in kind.split("x")[:-1]]
    count = 1
    for size in sizes:
        count *= size
    return count


def check_program(text, what):
    kernels = {m[1]: Kernel(m[2]) for m in re.finditer(r"rt\.kernel @(\S+?)[ (](.*?rt\.yield[^\n]*)", text, re.S)}
    if not kernels or "rt.gemm" not in text:
        raise Deviates(f"{what}: found no kernels")
    if re.search(r"rt\.gemm [^\n]*f32>, memref<[^\n]*f16> *$", text, re.M):
        raise Deviates(f"{what}: a product widens into memory")
    rounds, last = 0, {}
    makers = {}
    for line in text.splitlines():
        made = re.match(rf"\s*({VALUE}) = rt\.(buffer|view|shard)\s+(\S+)", line)
        if made:
            makers[made[1]] = (made[2], made[3].rstrip(","))
        summed = re.search(rf"rt\.collective (?:all_reduce|reduce_scatter) {VALUE} to ({VALUE})", line)
        if summed:
            last[summed[1]] = {"reduce"}
        launch = re.search(r"rt\.launch @(\S+?)\((.*?)\) to \((.*?)\)", line)
        if "rt.func" in line:
            makers, last = {}, {}
        if not launch:
            continue
        kernel = kernels[launch[1]]

        def root(value):
            while makers.get(value, ("buffer", ""))[0] != "buffer":
                value = makers[value][1]
            return value
        inputs, outputs = ([root(v) for v in re.findall(VALUE, group)] for group in (launch[2], launch[3]))
        for place, (value, kind) in zip(outputs, kernel.yields, strict=True):
            state = makers.get(place, ("", ""))[1] == "state"
            if kind.endswith("f32") and elements(kind) > 1 and kernel.widened(value) and not state:
                raise Deviates(f"{what}: @{launch[1]} stores a 16-bit value in f32: tensor<{kind}>")
        only = "cast" in kernel.ops and kernel.ops <= MOVES and any(elements(kind) > 1 for _, kind in kernel.yields)
        if only:
            rounds += 1
            for value in inputs:
                state = makers.get(value, ("", ""))[1] == "state"
                if not state and not last.get(value, set()) & SUMS:
                    raise Deviates(f"{what}: @{launch[1]} only casts what {sorted(last.get(value, {'nothing'}))} made")
        made = set(kernel.ops)
        before = set().union(*(last.get(value, set()) for value in inputs))
        if made <= MOVES:
            made |= before
        for value in outputs:
            last[value] = made
    return len(kernels), rounds


def check(a, work):
    programs = kernels = rounds = 0
    for case, dims in CASES.items():
        for mesh in MESHES:
            for policy in POLICIES:
                out = work / "program.mlir"
                run([f"{a.build}/bin/shalec", MODELS / case / "model.onnx", *dims, *mesh, *policy, "--emit", "rt", "-o", out], "shalec")
                found = check_program(out.read_text(), " ".join([case, *mesh, *policy]))
                programs, kernels, rounds = programs + 1, kernels + found[0], rounds + found[1]
    return f"{programs} programs, {kernels} kernels: no 16-bit value is stored in f32; {rounds} launches only round, each a master or a sum"


if __name__ == "__main__":
    main(check)
