#!/usr/bin/env python3
"""Changes one thing of an exported graph against its record, and compiles it: no file may train another model in silence.

usage: e2e mutated_files --build DIR [--count 20] [--seed 0] [--kinds edge,number,constant,flag] [--jobs 1] [--keep FOLDER]
       e2e mutated_files --build DIR --rules

The files are those of test/models/modules and test/models/today. A change is drawn from the seed: an edge that the record has is redirected to another
value of the same type and shape, or a number of the record, a constant of the exporter or an attribute is changed. shalec must refuse the file, or the
program must be that of the original: the same loss and gradient norm of the first step, within 1e-6 and 1e-5 of it. A change that changes no value passes
by that. Prints each change.

--rules: for each operation of the files, a change of its nodes must be refused, and import with --assume-form, which leaves this one form out.
"""
import argparse
import collections
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Case, metrics

KINDS = ["edge", "number", "constant", "flag"]
# Operations of which other checks refuse the changes that are drawn, too, or that compute the same afterwards.
WITHOUT_RULE = {f"aten.{name}" for name in (
    "_to_copy.default", "_unsafe_view.default", "arange.default", "bitwise_and.Tensor", "bitwise_not.default", "clamp_min.Tensor", "eq.Tensor", "group_norm.default",
    "lerp.Tensor", "mish.default", "repeat_interleave.self_int", "tril.default")} | {"operator.mul", "prims.convert_element_type.default"}
FLOAT, INT64, BOOL = 1, 7, 9


# ---- the wire format of protobuf: a message is a list of [field, wire type, value]

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def decode(data):
    at, message = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 4 if key & 7 == 5 else 8
            value, at = data[at:at + size], at + size
        message.append([key >> 3, key & 7, value])
    return message


def number(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def encode(message):
    out = []
    for field, wire, value in message:
        out.append(number(field << 3 | wire))
        out.append(number(value) if wire == 0 else (number(len(value)) if wire == 2 else b"") + value)
    return b"".join(out)


def get(message, field, missing=b""):
    return next((value for one, _, value in message if one == field), missing)


def every(message, field):
    return [value for one, _, value in message if one == field]


def text(message, field):
    return get(message, field).decode()


def record_line(node):
    return next((text(entry, 2) for entry in map(decode, every(node, 9)) if text(entry, 1) == "pkg.torch.onnx.fx_node"), "")


def target(node):
    """The operation of PyTorch that a node was made from: "aten.mul.Tensor"."""
    return record_line(node).split("[target=")[-1].split("]")[0].removeprefix("torch.ops.")


def record(node):
    """The name of the operation that a node was made from, and its arguments: "mul", ["%x", "0.5"]."""
    line = record_line(node)
    return line[1:].split(" ")[0].rstrip(":"), re.findall(r"%\w+|[^\s,()\[\]]+", line.split("](args = ")[-1].split(", kwargs = ")[0])


# ---- the graph

class Graph:
    def __init__(self, path):
        self.model = decode(path.read_bytes())
        self.place = next(i for i, one in enumerate(self.model) if one[0] == 7)
        self.fields = decode(self.model[self.place][2])
        self.nodes = [(i, decode(value)) for i, (field, _, value) in enumerate(self.fields) if field == 1]
        self.tensors = [(i, decode(value)) for i, (field, _, value) in enumerate(self.fields) if field == 5]
        meta = [decode(value) for value in every(self.fields, 16)]
        signature = next(text(entry, 2) for entry in meta if text(entry, 1).endswith("graph_signature"))
        self.placeholders = {target: name for name, target in re.findall(r"(\w+): \w+ target=['\"]([^'\"]+)", signature.split("# outputs")[0])}
        self.types, self.made = {}, {}  # a value's type; the number of the node that computes it, -1 for the graph's own
        for field in (11, 12, 13):
            for value in map(decode, every(self.fields, field)):
                shape = decode(get(decode(get(value, 2)), 1))
                dims = tuple(tuple(map(tuple, decode(dim)))[:1] for dim in every(decode(get(shape, 2)), 1))
                self.types[text(value, 1)] = (get(shape, 1, 0), tuple(value if one == 1 else value.decode() for dim in dims for one, _, value in dim))
                if field == 11:
                    self.made[text(value, 1)] = -1
        for _, tensor in self.tensors:
            self.made[text(tensor, 8)] = -1
            self.types[text(tensor, 8)] = (get(tensor, 2, 0), tuple(every(tensor, 1)))
        for at, (_, node) in enumerate(self.nodes):
            for name in every(node, 2):
                self.made[name.decode()] = at
        self.needed, work = set(), [text(decode(value), 1) for value in every(self.fields, 12)]
        while work:
            at = self.made.get(work.pop(), -1)
            if at >= 0 and at not in self.needed:
                self.needed.add(at)
                work += [name.decode() for name in every(self.nodes[at][1], 1)]

        self.among = self.needed  # the nodes that a change may be of

    def keep(self, operation):
        """Restricts changes to the nodes of one operation of PyTorch."""
        self.among = {at for at in self.needed if target(self.nodes[at][1]) == operation}

    def named(self, value):
        """How a record names a value."""
        at = self.made.get(value, -1)
        return "%" + (self.placeholders.get(value, value) if at < 0 else record(self.nodes[at][1])[0] or value)

    def change(self, place, message, path):
        """Writes the file with another message at one place of the graph."""
        fields = list(self.fields)
        fields[place] = [fields[place][0], 2, encode(message)]
        model = list(self.model)
        model[self.place] = [7, 2, encode(fields)]
        path.write_bytes(encode(model))

    # Each of these yields (place, the changed message, what was changed).

    def edge(self, draw):
        """Another value of its type, which is there before the node, where the record names the value."""
        found = []
        for at in sorted(self.among):
            place, node = self.nodes[at]
            inputs = [i for i, (field, _, _) in enumerate(node) if field == 1 and self.types.get(node[i][2].decode()) is not None]
            found += [(at, place, node, i) for i in inputs if self.named(node[i][2].decode()) in record(node)[1]]
        draw.shuffle(found)
        for at, place, node, i in found:
            old = node[i][2].decode()
            others = [name for name, kind in self.types.items() if kind == self.types[old] and name != old and self.made.get(name, at) < at
                      and self.named(name) not in record(node)[1]]
            if others:
                new = draw.choice(sorted(others))
                changed = [list(one) for one in node]
                changed[i][2] = new.encode()
                yield place, changed, f"{text(node, 4)} '{text(node, 3)}' reads '{new}' for '{old}'"

    def number(self, draw):
        """Another number, of a node that has its operation's arguments in their order."""
        nodes = collections.Counter(record(node)[0] for _, node in self.nodes if text(node, 4) != "Constant")
        numbers = set()
        for at in self.among:
            name, args = record(node := self.nodes[at][1])
            read = [value.decode() for value in every(node, 1)]
            if nodes[name] == 1 and len(args) == len(read) and text(node, 4) not in ("Constant", "Gemm"):
                numbers |= {value for value, arg in zip(read, args) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", arg) and self.types.get(value, (0,))[0] == FLOAT}
        yield from self.constant(draw, numbers)

    def constant(self, draw, names=None):
        """Another constant of the exporter, a number or a truth value. What the program computed, such as a mask, is in no record but by its name."""
        named = {arg[1:] for _, node in self.nodes for arg in record(node)[1]}
        read = {name.decode() for at in self.among for name in every(self.nodes[at][1], 1)} - named if names is None else names
        found = [(place, tensor, None) for place, tensor in self.tensors if text(tensor, 8) in read - self.placeholders.keys()]
        found += [(place, node, i) for at in sorted(self.needed) for place, node in [self.nodes[at]] if text(node, 4) == "Constant"
                  for i, one in enumerate(node) if one[0] == 5 and get(decode(one[2]), 5) and text(node, 2) in read]
        draw.shuffle(found)
        for place, message, i in found:
            tensor = message if i is None else decode(get(decode(message[i][2]), 5))
            kind, raw = get(tensor, 2, 0), bytearray(get(tensor, 9))
            size = {FLOAT: 4, INT64: 8, BOOL: 1}.get(kind)
            if not raw or not size or (kind == FLOAT and len(raw) > 4):
                continue  # more floats may be a folded parameter
            at = draw.randrange(len(raw) // size) * size
            if kind == FLOAT:
                old, = struct.unpack_from("<f", raw, at)
                struct.pack_into("<f", raw, at, new := old * 1.5 + 0.25 if abs(old) < 1e30 else 0.25)
            elif kind == INT64:
                old, = struct.unpack_from("<q", raw, at)
                struct.pack_into("<q", raw, at, new := old + (draw.choice([-1, 1]) if abs(old) < 1 << 62 else -1 if old > 0 else 1))
            else:
                old, new = raw[at], 1 - raw[at]
                raw[at] = new
            changed = [[field, wire, bytes(raw) if field == 9 else value] for field, wire, value in tensor]
            if i is not None:
                attribute = [[field, wire, encode(changed) if field == 5 else value] for field, wire, value in decode(message[i][2])]
                changed = [list(one) for one in message]
                changed[i][2] = encode(attribute)
            yield place, changed, f"constant '{text(message, 8) if i is None else text(message, 3)}' has {new:g} for {old:g}"

    def flag(self, draw):
        """Another number of an attribute."""
        found = [(place, node, i) for at in sorted(self.among) for place, node in [self.nodes[at]] if record(node)[0]
                 for i, one in enumerate(node) if one[0] == 5 and (get(decode(one[2]), 20, 0) in (1, 2))]
        draw.shuffle(found)
        for place, node, i in found:
            attribute = decode(node[i][2])
            name = text(attribute, 1)
            if get(attribute, 20) == 1:
                old, = struct.unpack("<f", get(attribute, 2, b"\0\0\0\0"))
                new = old * 1.5 + 0.25
                rest, value = 2, [2, 5, struct.pack("<f", new)]
            else:
                old = get(attribute, 3, 0)
                new = 1 - old if old in (0, 1) else (old + 1) % (1 << 64)
                rest, value = 3, [3, 0, new]
            changed = [list(one) for one in node]
            changed[i][2] = encode([one for one in attribute if one[0] != rest] + [value])
            yield place, changed, f"{text(node, 4)} '{text(node, 3)}' has {name}={new:g} for {old:g}"


# ---- what shalec makes of it

def first_step(case, model, work, flags=()):
    """Compiles a file and trains one step. Returns the exit code and the message, or 0 with loss and gradient norm."""
    program, out = work / "train", work / "run"
    flags = [*map(str, case.trajectory["flags"]), *flags]
    done = subprocess.run([case.bin / "shalec", model, "-o", program, *flags], capture_output=True, text=True, timeout=120)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error: " in line), done.stderr[-200:])
        return done.returncode, re.sub(r".*?\.onnx: ", "", said)
    done = subprocess.run([program, "--data", case.batches, "--steps", "1", *map(str, case.hyper_flags()), "--schedule", "constant", "--out", out],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        return -1, f"the program ends with {done.returncode}: {done.stderr[-150:].strip()}"
    line = metrics(out)[0]
    return 0, (line["loss"], line["grad_norm"])


def is_same(got, wanted):
    return abs(got[0] - wanted[0]) <= 1e-6 * max(1, abs(wanted[0])) and abs(got[1] - wanted[1]) <= 1e-5 * max(wanted[1], 1e-3)


def check_rules(a, folders, work):
    """For each operation of the files: a change of its nodes that is refused, and no longer if this operation is not held against its form. Returns
    the operations for which there is none among the first changes of each kind."""
    draw, files = random.Random(a.seed), collections.defaultdict(list)
    for folder in folders:
        graph = Graph(folder / "model.onnx")
        for operation in {target(graph.nodes[at][1]) for at in graph.needed} - {""}:
            files[operation].append(folder)

    def shows(operation, folder, kind, number):
        case, here = Case(a.build, folder), work / f"{operation}-{kind}-{number}"
        graph = Graph(folder / case.model)
        graph.keep(operation)
        place, message, said = next(getattr(graph, kind)(random.Random(a.seed + number)), (None,) * 3)
        if said is None:
            return False
        here.mkdir(parents=True)
        graph.change(place, message, here / "model.onnx")
        flag = ["--assume-form", operation]
        code, why = first_step(case, here / "model.onnx", here)
        if code != 65 or " ".join(flag) not in why:
            return False
        code, found = first_step(case, here / "model.onnx", here, flag)
        print(f"{operation}: {said}; without its form {'another model' if code == 0 else found[:100]}", flush=True)
        return code == 0

    def is_shown(operation):
        folders = draw.sample(files[operation], len(files[operation]))
        tries = [(folder, kind, number) for number in range(4) for folder in folders for kind in ("edge", "flag", "constant")]
        return any(shows(operation, folder, kind, at) for at, (folder, kind, _) in enumerate(tries[:60]))

    return [operation for operation in sorted(files) if not is_shown(operation)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--kinds", type=lambda words: words.split(","), default=KINDS)
    p.add_argument("--rules", action="store_true", help="check instead that each operation's form is what refuses a change of it")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--keep", type=pathlib.Path, help="where changed files stay")
    a = p.parse_args()
    folders = sorted(path.parent for name in ("modules", "today") for path in (MODELS / name / "cases").glob("*/model.onnx"))
    random.Random(a.seed).shuffle(folders)
    folders = folders if a.rules else folders[:max(8, a.count // 5)]
    with tempfile.TemporaryDirectory() as folder:
        work = a.keep or pathlib.Path(folder)
        if a.rules:
            left = check_rules(a, folders, work)
            print("no change is refused by the form alone of:", *left)
            sys.exit(not set(left) <= WITHOUT_RULE)
        originals = {}

        def original(case):
            if case.folder not in originals:
                here = work / f"original-{len(originals)}"
                here.mkdir(parents=True)
                originals[case.folder] = first_step(case, case.folder / case.model, here)
            return originals[case.folder]

        def one(at):
            case, kind = Case(a.build, folders[at % len(folders)]), a.kinds[(at + at // len(folders)) % len(a.kinds)]
            code, wanted = original(case)
            if code:
                return "without", kind, case.folder, f"the original: {wanted}"
            here = work / str(at)
            here.mkdir(parents=True)
            place, message, said = next(getattr(graph := Graph(case.folder / case.model), kind)(random.Random(a.seed * 100003 + at)), (None,) * 3)
            if said is None:
                return "without", kind, case.folder, "nothing to change"
            graph.change(place, message, here / "model.onnx")
            code, got = first_step(case, here / "model.onnx", here)
            if code:
                return ("refused" if code in (64, 65) else "BROKEN"), kind, case.folder, f"{said}: {got[:150]}"
            if is_same(got, wanted):
                return "same", kind, case.folder, said
            return "OTHER", kind, case.folder, f"{said}: loss {got[0]:.6f} for {wanted[0]:.6f}, norm {got[1]:.6f} for {wanted[1]:.6f}"

        with ThreadPoolExecutor(a.jobs) as pool:
            results = list(pool.map(one, range(a.count)))
    for verdict, kind, case, said in results:
        print(f"{verdict:8} {kind:7} {case.parent.parent.name}/{case.name}: {said}")
    count = collections.Counter((kind, verdict) for verdict, kind, _, _ in results)
    verdicts = ["refused", "same", "without", "OTHER", "BROKEN"]
    print(f"{'':8}" + "".join(f"{verdict:>9}" for verdict in verdicts))
    for kind in a.kinds:
        print(f"{kind:8}" + "".join(f"{count[kind, verdict]:9}" for verdict in verdicts))
    sys.exit(any(verdict in ("OTHER", "BROKEN") for verdict, *_ in results))


if __name__ == "__main__":
    main()
