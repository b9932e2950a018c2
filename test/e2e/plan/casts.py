#!/usr/bin/env python3
"""No kernel stores an f32 copy of a 16-bit value: casts are part of the kernels around them.

usage: e2e casts --build DIR

Looks at every kernel of the fixtures' programs in 16-bit floats, with several strategies and micro-batches:

- A kernel must not yield f32 elements that are 16-bit values, only widened or moved. State that is stored in f32 (the first part of a sum)
  is the exception.
- A kernel that only rounds must read f32 state (a master that is sent or has a rounded copy), or the f32 result of a kernel of
  its own or of a collective.
- Matmuls read and write 16-bit floats.
"""
import math

from ir_program import collective
from runner import MODELS, Deviates, main, read_program, run

MOVES = {"cast", "reshape", "transpose", "slice", "concat", "broadcast", "pad"}
SUMS = {"reduce", "embedding_grad"}
CASES = {"gpt2": ["--dim", "batch=4", "--dim", "sequence=16"], "llama": ["--dim", "batch=4", "--dim", "sequence=16"],
         "plain": ["--dim", "batch=6", "--loss", "cross-entropy:scores,targets"]}
MESHES = [["--mesh", "fsdp=1"], ["--mesh", "fsdp=2", "--shard", "full", "--recompute", "block"], ["--mesh", "fsdp=2", "--shard", "optimizer"],
          ["--mesh", "fsdp=2", "--shard", "full", "--accumulate", "3"]]
POLICIES = [["--param-dtype", "bf16"], ["--param-dtype", "bf16", "--reduce-dtype", "bf16", "--buffer-dtype", "bf16"],
            ["--param-dtype", "bf16", "--master-dtype", "none", "--optimizer-dtype", "bf16"]]


class Kernel:
    """What a kernel computes: the names of its ops without the dialect, and the values that it stores."""

    def __init__(self, op):
        self.ops = {short(inner) for inner in op.body[:-1]} - {"constant"}
        self.stored = op.body[-1].operands


def short(op):
    """The name of an op without the dialect."""
    return op.name.split(".", 1)[1]


def widened(value):
    """Whether the value is a widened 16-bit value, possibly moved."""
    op = value.producer
    if op and op.name == "nn.cast":
        return op.operands[0].element.endswith("f16")
    return bool(op) and short(op) in MOVES and any(widened(operand) for operand in op.operands)


def is_large(value):
    return math.prod(value.shape) > 1


def root(value):
    """The buffer that a view or a shard is a part of."""
    while value.producer.name != "rt.buffer":
        value = value.producer.operands[0]
    return value


def is_state(value):
    return value.producer.word("space") == "state"


def check_launch(what, name, kernel, outputs):
    """A kernel must not store a 16-bit value in f32, except in state."""
    for place, value in zip(outputs, kernel.stored, strict=True):
        if value.element == "f32" and is_large(value) and widened(value) and not is_state(place):
            raise Deviates(f"{what}: @{name} stores a 16-bit value in f32: {value.type}")


def check_program(program, what):
    """The numbers of kernels and of launches that only round."""
    kernels = {name: Kernel(op) for name, op in program.symbols("rt.kernel").items()}
    if not kernels or not program.ops("rt.gemm"):
        raise Deviates(f"{what}: found no kernels")
    for matmul in program.ops("rt.gemm"):
        if matmul.operands[0].element == "f32" and matmul.operands[2].element.endswith("f16"):
            raise Deviates(f"{what}: a matmul widens into memory")
    rounds, last = 0, {}  # `last`: the names of the ops that made a value
    for op in program.walk():
        if collective(op) in ("all_reduce", "reduce_scatter"):
            last[op.operands[1]] = {"reduce"}
        if op.name != "rt.launch":
            continue
        name = op.symbol("kernel")
        kernel, count = kernels[name], op.attributes["operandSegmentSizes"][0]
        inputs, outputs = ([root(value) for value in side] for side in (op.operands[:count], op.operands[count:]))
        check_launch(what, name, kernel, outputs)
        if "cast" in kernel.ops and kernel.ops <= MOVES and any(is_large(value) for value in kernel.stored):
            rounds += 1
            for value in inputs:
                if not is_state(value) and not last.get(value, set()) & SUMS:
                    raise Deviates(f"{what}: @{name} only casts what {sorted(last.get(value, {'nothing'}))} made")
        made = set(kernel.ops)
        if made <= MOVES:
            made = made.union(*(last.get(value, set()) for value in inputs))
        last.update(dict.fromkeys(outputs, made))
    return len(kernels), rounds


def check(a, work):
    programs = kernels = rounds = 0
    for case, dims in CASES.items():
        for mesh in MESHES:
            for policy in POLICIES:
                out = work / "program.mlir"
                run([f"{a.build}/bin/shalec", MODELS / case / "model.onnx", *dims, *mesh, *policy, "--emit", "rt", "-o", out], "shalec")
                found = check_program(read_program(f"{a.build}/bin", out), " ".join([case, *mesh, *policy]))
                programs, kernels, rounds = programs + 1, kernels + found[0], rounds + found[1]
    return f"{programs} programs, {kernels} kernels: no 16-bit value is stored in f32; {rounds} launches only round, each a master or a sum"


if __name__ == "__main__":
    main(check)
