#!/usr/bin/env python3
"""No buffer of the plan is overwritten while it is live, by the addresses that a running program touches.

usage: e2e touched --build DIR --case test/models/gpt2

The planner, the verifier, the interpreter and --report-buffers all use the accesses that ops declare. This test does not. LLVM's address
sanitizer pass puts a call before every load and store of the kernels. test/shim/Touched.cpp records these addresses, and the ranges
of matmuls, copies and collectives, for each call on each rank. The planned IR only provides the buffers that a call names: the
allocation of each operand. The test checks for one step:

- A call touches only bytes of its operands, at the planned addresses.
- A byte that is read was last written as part of the same buffer. For state this may be in the step before, for an arena it is in the
  same function.
- Before its wait, nothing writes what a collective or copy sends, and nothing touches what it receives.
- Two buffers that are live at once, from the first write to the last read, have no byte in common.
- The arena has at least as many bytes as are live at once, and at most 1.05 times as many.

Mutants must fail: the offset of a buffer is changed to that of another buffer that is live at the same time, and the program is
compiled from the changed plan.
"""
import math
import os
import pathlib

import numpy as np

from ir_program import collective
from runner import Case, Deviates, expect_deviation, main, read_program, run, stage_files

LLVM = pathlib.Path("/usr/lib/llvm-22/bin")
# Libraries that libshale_rt.a needs (lib/Target/CPU), and the calls that the shim intercepts.
LIBRARIES = ["-lgloo", "-l:libsodium.a", "-ldnnl", "-lgomp", "-lpthread"]
WRAPPED = ["launch", "gemm", "grouped_gemm", "gemm_thread", "copy", "zero", "coordinate", "store_coordinate", "start", "wait", "transfer_start",
           "transfer_wait"]
SIZES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "i1": 1}
HOST = 1  # mem::Memory::Host
# The number of operands that an op reads. It writes the others.
READS = {"rt.gemm": 2, "rt.copy": 1, "rt.transfer": 1, "rt.collective": 1, "rt.zero": 0, "rt.coordinate": 0}
READ, WRITTEN, READ_AFTER = 1, 2, 4
NONE, GIVEN = -1, -2  # no buffer; content from before the step
BAR = 1.05
MUTANTS = 3
PROGRAMS = [("full", 2, []), ("none", 1, ["--offload", "activations"]), ("optimizer", 2, ["--recompute", "block", "--offload", "all"]),
            ("full", 2, ["--accumulate", 2, "--param-dtype", "bf16"])]


class Buffer:
    """A planned allocation, or memory outside the planned blocks (block None). `op` is the rt.buffer."""

    def __init__(self, op):
        [result], space = op.results, op.word("space")
        block = f"host {space}" if op.attributes.get("memory") == HOST else space
        self.op, self.name = op, f"{result.name} '{op.attributes['name']}'"
        self.block, self.offset = block if space in ("state", "arena") else None, op.attributes.get("offset", 0)
        self.size = bytes_of(result)


def bytes_of(value):
    return math.prod(value.shape) * SIZES[value.element]


def sides(op):
    """The operands that an op reads, and those that it writes."""
    if op.name == "rt.launch":
        count = op.attributes["operandSegmentSizes"][0]
        return op.operands[:count], op.operands[count:]
    return op.operands[:READS[op.name]], op.operands[READS[op.name]:]


class Plan:
    """Blocks, and of each function its ops in order: (name, operands read, operands written); an operand is (buffer, view offset, axis and
    size of a shard), a wait has the number of its start."""

    def __init__(self, program):
        self.program, attributes = program, program.module.attributes
        self.blocks = {space.replace("_", " "): attributes[f"rt.{space}_bytes"] for space in ("state", "arena", "host_state", "host_arena")
                       if f"rt.{space}_bytes" in attributes}
        self.axes = program.ops("dist.mesh")[0].attributes["axes"]
        self.slots = {}
        self.functions = {name: self.ops(function.body) for name, function in program.symbols("rt.func").items()}

    def ops(self, body):
        values, found = {}, []
        for op in body:
            if op.name == "rt.buffer":
                buffer = Buffer(op)
                if op.word("space") == "state":  # one for each slot
                    buffer = self.slots.setdefault(op.symbol("symbol"), buffer)
                values[op.results[0]] = (buffer, 0, None)
            elif op.name == "rt.view":
                buffer, at, shard = values[op.operands[0]]
                values[op.results[0]] = (buffer, at + op.attributes["offset"], shard)
            elif op.name == "rt.shard":
                buffer, at, _ = values[op.operands[0]]
                values[op.results[0]] = (buffer, at, (op.attributes["axis"], bytes_of(op.results[0])))
            elif op.name == "rt.wait":
                found.append(("wait", values[op.operands[0]], None))
            elif op.name != "rt.return":
                values.update(dict.fromkeys(op.results, len(found)))  # a token
                found.append((collective(op) or op.name.removeprefix("rt."), *([values[value] for value in side] for side in sides(op))))
        return found


def parse_trace(path):
    """(words of the call, array of (how, begin, end)) of each call, and coordinates by axis."""
    calls, axes = [], {}
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            how, begin, end = line.split()
            calls[-1][1].append((int(how), int(begin, 16), int(end, 16)))
        elif line.startswith("axis "):
            _, axis, coordinate = line.split()
            axes[int(axis)] = int(coordinate)
        else:
            calls.append((line.split(), []))
    return calls, axes


def union(ranges):
    """The number of bytes in the union of the ranges. Ranges overlap if a call writes in place."""
    total, reached = 0, 0
    for begin, end in sorted(ranges):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def call_name(words):
    return words[1] if words[0] == "launch" else words[0]


class Memory:
    """The last writer of each byte of a rank's blocks, and the trace so far."""

    def __init__(self, plan, axes, what):
        self.plan, self.axes, self.what = plan, axes, what
        self.base, self.buffers, self.numbers = {}, [], {}
        self.owner = {block: np.full(size, GIVEN if "state" in block else NONE, np.int64) for block, size in plan.blocks.items()}
        self.busy = {block: np.zeros(size, np.int8) for block, size in plan.blocks.items()}  # 1: being sent, 2: being received
        self.spans = {}  # per buffer: first write, last read, lowest and highest byte
        self.event = 0

    def fail(self, message):
        raise Deviates(f"{self.what}, call {self.event}: {message}")

    def number(self, buffer):
        if buffer not in self.numbers:
            self.numbers[buffer] = len(self.buffers)
            self.buffers.append(buffer)
        return self.numbers[buffer]

    def place(self, operand, address):
        """Number, block and range of an operand's allocation. Checks that its address is the planned one."""
        buffer, at, shard = operand
        if buffer.block is None:
            return None
        at += buffer.offset
        if shard:
            at += self.axes[self.plan.axes.index(shard[0])] * shard[1]
        if self.base.setdefault(buffer.block, address - at) != address - at:
            self.fail(f"{buffer.name} is at {address - self.base[buffer.block]} of the {buffer.block}, not at {at}")
        return self.number(buffer), buffer.block, buffer.offset, buffer.offset + buffer.size

    def locate(self, begin, end):
        for block, base in self.base.items():
            if begin < base + len(self.owner[block]) and end > base:
                return block, begin - base, end - base
        return None

    def touch(self, words, touched, inputs, outputs):
        for how, begin, end in touched:
            found = self.locate(begin, end)
            if not found:
                continue  # scratch, inputs, constants
            block, begin, end = found
            covering = [[one[0] for one in side if one and one[1] == block and one[2] <= begin and end <= one[3]] for side in (inputs, outputs)]
            if not any(covering):
                self.touch_parts(words, how, block, begin, end, inputs, outputs)
            else:
                self.access(words, how, block, begin, end, *covering)

    def touch_parts(self, words, how, block, begin, end, inputs, outputs):
        """A range that spans several adjacent operands."""
        edges = sorted({edge for one in (*inputs, *outputs) if one and one[1] == block for edge in one[2:] if begin < edge < end})
        if not edges:
            self.fail(f"{call_name(words)} touches bytes {begin} to {end} of the {block}, which are none of its operands")
        base = self.base[block]
        for low, high in zip([begin, *edges], [*edges, end]):
            self.touch(words, [(how, low + base, high + base)], inputs, outputs)

    def access(self, words, how, block, begin, end, readers, writers):
        owner = self.owner[block][begin:end]
        if len(set(readers)) > 1:
            self.fail(f"{call_name(words)} reads bytes {begin} to {end} of the {block} as both {' and '.join(self.buffers[one].name for one in set(readers))}")
        if how & READ:
            if self.busy[block][begin:end].any() and (self.busy[block][begin:end] == 2).any():
                self.fail(f"{call_name(words)} reads bytes {begin} to {end} of the {block}, which a collective or copy is receiving")
            allowed = np.isin(owner, [*readers, *writers] + ([GIVEN] if "state" in block else []))
            if not allowed.all():
                at = int(np.argmin(allowed))
                last = "nothing" if owner[at] == NONE else self.buffers[owner[at]].name
                self.fail(f"{call_name(words)} reads byte {begin + at} of the {block} as {self.buffers[(readers + writers)[0]].name}; "
                          f"{last} wrote it last")
            for number in np.unique(owner):
                if number in self.spans:
                    self.spans[number][1] = self.event
        if how & WRITTEN:
            if self.busy[block][begin:end].any():
                self.fail(f"{call_name(words)} writes bytes {begin} to {end} of the {block} before a wait")
            self.write(words, block, begin, end, writers)

    def write(self, words, block, begin, end, writers):
        if not writers:
            self.fail(f"{call_name(words)} writes bytes {begin} to {end} of the {block}, which it only reads by the plan")
        self.owner[block][begin:end] = writers[-1]
        span = self.spans.setdefault(writers[-1], [self.event, self.event, begin, end])
        span[2:] = min(span[2], begin), max(span[3], end)

    def run(self, ops, calls):
        """Replays one function. A call lists addresses in the order of the op's operands."""
        for block in self.owner:
            if "arena" in block:
                self.owner[block][:] = NONE
        started, self.spans = {}, {}
        for index, ((name, reads, writes), (words, touched)) in enumerate(zip(ops, calls)):
            self.event += 1
            if name == "wait":
                self.finish(words, *started.pop(reads))
                continue
            split = words.index("to")
            first = {"launch": 2, "gemm": 1, "copy": 1, "zero": 1, "coordinate": 1}.get(name, 2)
            if words[0] != name or split - first != len(reads) or len(words) - split - 1 != len(writes):
                self.fail(f"{call_name(words)} is called, the plan has {name}")
            inputs = [self.place(operand, int(word, 16)) for operand, word in zip(reads, words[first:split])]
            outputs = [self.place(operand, int(word, 16)) for operand, word in zip(writes, words[split + 1:])]
            if name in ("launch", "gemm", "copy", "zero", "coordinate"):
                self.touch(words, touched, inputs, outputs)
            else:
                started[index] = (touched, inputs, outputs)
                self.start(words, touched, inputs, outputs)
        if started:
            self.fail("a collective or copy has no wait")

    def start(self, words, touched, inputs, outputs):
        """Starts a collective, which reads and writes until its wait."""
        self.touch(words, [(READ, begin, end) for how, begin, end in touched if how & READ], inputs, outputs)
        for how, begin, end in touched:
            if not (found := self.locate(begin, end)):
                continue
            block, begin, end = found
            if self.busy[block][begin:end].any():
                self.fail(f"{call_name(words)} takes bytes {begin} to {end} of the {block} before another's wait")
            self.busy[block][begin:end] = 2 if how & WRITTEN else 1
            if how & WRITTEN:
                self.write(words, block, begin, end, [one[0] for one in outputs if one])

    def finish(self, words, touched, inputs, outputs):
        for how, begin, end in touched:
            if not (found := self.locate(begin, end)):
                continue
            block, begin, end = found
            self.busy[block][begin:end] = 0
            side = outputs if how & WRITTEN else inputs
            for one in side:
                if one and one[1] == block and one[0] in self.spans:
                    self.spans[one[0]][1] = self.event

    def live(self, block):
        """(first write, last read, begin, end, buffer) of each buffer that the last function wrote in a block."""
        return sorted((*span, self.buffers[number]) for number, span in self.spans.items() if self.buffers[number].block == block)

    def check_live(self, block):
        """The largest number of bytes live at once. Checks that no two live buffers share a byte, unless a call writes in place."""
        live = self.live(block)
        for index, (first, last, begin, end, buffer) in enumerate(live):
            for later, _, low, high, other in live[index + 1:]:
                if later < last and low < end and begin < high:
                    self.fail(f"{buffer.name} in {begin} to {end} and {other.name} in {low} to {high} of the {block} are live at once")
        return max((union((begin, end) for first, last, begin, end, _ in live if first <= at <= last) for at in {span[0] for span in live}), default=0)


def check_rank(plan, path, what, steps):
    """The peak of each function and block by the trace, and the spans of @step."""
    calls, axes = parse_trace(path)
    memory, at, peaks = Memory(plan, axes, what), 0, {}
    order = [name for name in ("accumulate_first", "accumulate", "step") if name in plan.functions]
    for _ in range(steps):
        for name in order:
            ops = plan.functions[name]
            memory.run(ops, calls[at:at + len(ops)])
            at += len(ops)
            for block in (block for block in plan.blocks if "arena" in block):
                peaks[name, block] = max(memory.check_live(block), peaks.get((name, block), 0))
    if at != len(calls):
        raise Deviates(f"{what}: {len(calls)} calls in {steps} steps, {at} by plan")
    return peaks, memory, len(calls)


def instrument(a, codegen, program):
    """Links the module in the LLVM dialect with the shim before the runtime."""
    step = program.with_suffix(".ll")
    run([LLVM / "mlir-translate", "--mlir-to-llvmir", codegen, "-o", step], "mlir-translate")
    run([LLVM / "opt", "-mtriple=x86_64-pc-linux-gnu", "-passes=default<O1>,forceattrs,asan<kernel>", "-force-attribute=sanitize_address",
         "-asan-instrumentation-with-call-threshold=0", "-asan-memory-access-callback-prefix=__touch_", "-asan-kernel-mem-intrinsic-prefix",
         "-asan-opt-same-temp=0", "-asan-stack=0", "-asan-globals=0", step, "-o", step.with_suffix(".bc")], "opt")
    run([LLVM / "llc", "-O1", "-mcpu=native", "-relocation-model=pic", "-filetype=obj", step.with_suffix(".bc"), "-o", step.with_suffix(".o")], "llc")
    run(["c++", "-o", program, step.with_suffix(".o"), f"{a.build}/lib/libshale_touched.a", *(f"-Wl,--wrap=shale_{name}" for name in WRAPPED),
         f"{a.build}/lib/libshale_rt.a", *LIBRARIES], "linking")


STEPS = 2


def trace(case, work, program):
    """The traces of the ranks, unordered."""
    for old in work.glob("touched.*"):
        old.unlink()
    case.train(program, work / f"run-{program.name}", STEPS, ["--schedule", "constant", "--save-every", 0],
               {**os.environ, "SHALE_TOUCHED": str(work / "touched"), "OMP_NUM_THREADS": "1"})
    return sorted(work.glob("touched.*"))


def check_program(a, case, work, shard, ranks, flags):
    what = f"{shard} on {ranks} rank(s) {' '.join(map(str, flags))}".strip()
    files = stage_files(case, work / "ir", "llvm", shard, ranks, flags)
    plan = Plan(read_program(case.bin, files["plan"]))
    instrument(a, files["codegen"].with_suffix(".mlirbc"), work / "traced")
    traces = trace(case, work, work / "traced")
    if len(traces) != ranks:
        raise Deviates(f"{what}: {len(traces)} traces")
    largest, count = {}, 0
    for path in traces:
        peaks, memory, calls = check_rank(plan, path, what, STEPS)
        count += calls
        for (_, block), peak in peaks.items():
            largest[block] = max(largest.get(block, 0), peak)
    said = []
    for block, peak in largest.items():
        arena = plan.blocks[block]
        said.append(f"{block} of {arena} bytes, {peak} live")
        if not peak <= arena <= BAR * peak:
            raise Deviates(f"{what}: {said[-1]}")
    return f"{what}: {count} calls, " + ", ".join(said), memory


def overlaps(memory, count):
    """Pairs of buffers of @step that are live at once, adjacent and far apart. A mutant puts the second where the first is."""
    live, size = memory.live("arena"), memory.plan.blocks["arena"]
    pairs = [(last - first, buffer, other) for index, (first, last, *_, buffer) in enumerate(live) for later, _, _, _, other in live[index + 1:]
             if later < last and min(buffer.size, other.size) > 64 and buffer.offset + other.size <= size]
    pairs.sort(key=lambda pair: pair[0])
    return [pairs[(len(pairs) - 1) * at // (count - 1)][1:] for at in range(count)]


def check_mutant(a, case, work, program, buffer, other):
    """Compiles a plan in which `other` has the address of `buffer` while both are live."""
    line = program.line(other.op).replace(f" offset = {other.offset}", "").replace(" arena", f" arena offset = {buffer.offset}", 1)
    work.mkdir()
    (work / "plan.mlir").write_text(program.with_lines({other.op: line}))
    run([case.bin / "shalec", "--compile-from=plan", work / "plan.mlir", "--emit", "llvm", "-o", work / "codegen.mlir"], "compiling a changed plan")
    instrument(a, work / "codegen.mlir", work / "traced")
    plan = Plan(read_program(case.bin, work / "plan.mlir"))

    def check_ranks():
        for path in trace(case, work, work / "traced"):
            check_rank(plan, path, "mutant", STEPS)
    return expect_deviation(check_ranks, f"that {other.name} lies where {buffer.name} is")


def check(a, work):
    case, found, noticed = Case(a.build, a.case), [], 0
    for number, (shard, ranks, flags) in enumerate(PROGRAMS):
        folder = work / str(number)
        folder.mkdir()
        said, memory = check_program(a, case, folder, shard, ranks, flags)
        found.append(said)
        if number == 0:
            for at, pair in enumerate(overlaps(memory, MUTANTS)):
                found.append("mutant: " + check_mutant(a, case, folder / f"mutant{at}", memory.plan.program, *pair))
                noticed += 1
    return "\n  ".join([f"by the addresses that programs touch; {noticed} mutants noticed", *found])


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="touched:")
