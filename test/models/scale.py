#!/usr/bin/env python3
"""Writes the ONNX file of a large model, in the form of torch's exporter, from the file of a small one.

    scale.py llama-405b|llama-70b|llama-8b|llama-7b|llama-3.2-1b|llama-1b|llama-wide|gpt2-124m|gpt2-30m OUT.onnx [--layers N] [--random-weights]

The graph is that of the fixture of the same family (llama/model.onnx, gpt2/model.onnx): its second layer repeated,
sizes in shapes and constants replaced, every name and scope with them. Weights are external data, OUT.data, which does
not exist unless --random-weights asks for it: what plans needs shapes only. Needs nothing but Python (numpy for weights).
"""
import argparse
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib", "Frontend", "ONNX"))
from onnx_writer import field, varint  # noqa: E402

# Sizes: Llama 3.1 405B, Llama 3 70B and 8B, Llama 2 7B, Llama 3.2 1B (with a head of its own), TinyLlama 1.1B, GPT-2 small, from their published configurations. gpt2-30m is the model of test/bench/gpt2.py,
# llama-wide that of test/e2e/plan/siblings.py: the fixture with gate and up of whole sectors.
MODELS = {
    "llama-405b": dict(family="llama", layers=126, width=16384, heads=128, kv=8, ffn=53248, vocab=128256, theta=500000.0),
    "llama-70b": dict(family="llama", layers=80, width=8192, heads=64, kv=8, ffn=28672, vocab=128256, theta=500000.0),
    "llama-1b": dict(family="llama", layers=22, width=2048, heads=32, kv=4, ffn=5632, vocab=32000, theta=10000.0),
    "llama-3.2-1b": dict(family="llama", layers=16, width=2048, heads=32, kv=8, ffn=8192, vocab=128256, theta=500000.0),
    "llama-8b": dict(family="llama", layers=32, width=4096, heads=32, kv=8, ffn=14336, vocab=128256, theta=500000.0),
    "llama-7b": dict(family="llama", layers=32, width=4096, heads=32, kv=32, ffn=11008, vocab=32000, theta=10000.0),
    "llama-wide": dict(family="llama", layers=2, width=64, heads=4, kv=2, ffn=192, vocab=256, theta=10000.0),
    "gpt2-124m": dict(family="gpt2", layers=12, width=768, heads=12, kv=12, ffn=3072, vocab=50257, positions=1024),
    "gpt2-30m": dict(family="gpt2", layers=6, width=384, heads=6, kv=6, ffn=1536, vocab=50257, positions=1024),
}
SMALL_HEAD_SIZE, SMALL_HEADS, SMALL_WIDTH, SMALL_VOCAB = 16, 4, 64, 256


def decode(data):
    """A message's fields: [(number, value)], value an int or bytes (also of fixed-size fields)."""
    out, at = [], 0

    def read_varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    while at < len(data):
        key, at = read_varint(at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = read_varint(at)
        elif kind == 2:
            size, at = read_varint(at)
            value, at = data[at:at + size], at + size
        else:
            size = 4 if kind == 5 else 8
            value, at = (kind, data[at:at + size]), at + size
        out.append((number, value))
    return out


def encode(fields):
    return b"".join(varint(n << 3 | v[0]) + v[1] if isinstance(v, tuple) else field(n, v) for n, v in fields)


def text(fields, number):
    return next((v.decode() for n, v in fields if n == number), "")


class Node:
    def __init__(self, data):
        self.fields = decode(data)
        self.inputs = [v.decode() for n, v in self.fields if n == 1]
        self.outputs = [v.decode() for n, v in self.fields if n == 2]
        meta = {text(decode(v), 1): text(decode(v), 2) for n, v in self.fields if n == 9}
        match = re.search(r"\.(?:layers|h)\.(\d+)", meta.get("pkg.torch.onnx.name_scopes", ""))
        self.layer = int(match.group(1)) if match else None

    def rewritten(self, rename, retext):
        """The node's bytes with names of values and every text of its metadata replaced."""
        out = []
        for number, value in self.fields:
            if number in (1, 2):
                value = rename(value.decode())
            elif number == 3:
                value = retext(value.decode())
            elif number == 9:
                value = encode([(n, retext(v.decode()) if n == 2 else v) for n, v in decode(value)])
            out.append((number, value))
        return encode(out)


class Scaler:
    def __init__(self, size):
        self.size = size
        self.head = size["width"] // size["heads"]
        with open(os.path.join(HERE, size["family"], "model.onnx"), "rb") as file:
            self.model = decode(file.read())
        self.graph = decode(next(v for n, v in self.model if n == 7))
        self.nodes = [Node(v) for n, v in self.graph if n == 1]

    # -- constants ------------------------------------------------------------
    def scaled(self, value, node, pair):
        """The size that the small model's `value` stands for in this one."""
        s = self.size
        if s["family"] == "llama":
            in_layer = {SMALL_HEAD_SIZE: self.head, SMALL_HEADS: s["heads"], SMALL_HEAD_SIZE // 2: self.head // 2,
                        2: (s["kv"], s["heads"] // s["kv"])[pair], 0.25: self.head ** -0.5}
            outside = {SMALL_VOCAB: s["vocab"]}
        else:
            in_layer = {SMALL_HEAD_SIZE: self.head, SMALL_HEADS: s["heads"], SMALL_WIDTH: s["width"], 0.25: self.head ** -0.5,
                        3 * SMALL_WIDTH: 3 * s["width"], 4 * SMALL_WIDTH: s["ffn"]}
            outside = {SMALL_WIDTH: s["width"], SMALL_VOCAB: s["vocab"]}
        return (outside if node.layer is None else in_layer).get(value, value)

    def scale_record(self, node):
        """Replaces the sizes in the record of a node's operation, as in the constants that it reads."""
        def sizes(part):
            pair = iter([0, 1])  # [2, 2] are key-value heads and the heads of each
            return re.sub(r"(?<![\w%.-])\d+(?![\w.])", lambda m: str(self.scaled(int(m[0]), node, next(pair, 0) if m[0] == "2" else 0)), part)

        def replaced(record):
            head, _, rest = record.partition("(args = (")
            arguments, _, named = rest.rpartition("), kwargs = ")
            operation = head.split("aten.")[-1].split(".")[0]
            if operation in ("view", "_unsafe_view", "reshape", "expand"):
                arguments = re.sub(r"\[.*\]", lambda m: sizes(m[0]), arguments)
            elif operation in ("split", "slice"):
                at = 1 if operation == "split" else 2
                parts = arguments.split(", ")
                arguments = ", ".join(parts[:at] + [sizes(part) if at == 2 or i == 0 else part for i, part in enumerate(parts[at:])])
            else:
                arguments = re.sub(r"(?<![\w.])0\.25(?!\d)", repr(self.head ** -0.5), arguments)
            named = named.replace("scale: 0.25", f"scale: {self.head ** -0.5!r}")
            return f"{head}(args = ({arguments}), kwargs = {named}"

        fields = []
        for number, value in node.fields:
            entry = decode(value) if number == 9 else []
            if text(entry, 1) == "pkg.torch.onnx.fx_node" and "(args = (" in text(entry, 2):
                value = encode([(n, replaced(v.decode()) if n == 2 else v) for n, v in entry])
            fields.append((number, value))
        node.fields = fields

    def scale_constant(self, node, pair):
        """Replaces the sizes in a Constant: a list of integers, or a scalar tensor. Returns whether it was [2]."""
        fields, two = [], False
        for number, value in node.fields:
            if number == 5:
                attribute = decode(value)
                out = []
                for n, v in attribute:
                    if n == 8 and v < 1 << 62:
                        two |= v == 2 and node.layer is not None
                        v = self.scaled(v, node, pair)
                    elif n == 5:
                        v = encode([(k, self.scale_raw(decode(v), w, node) if k == 9 else w) for k, w in decode(v)])
                    out.append((n, v))
                value = encode(out)
            fields.append((number, value))
        node.fields = fields
        return two

    def scale_raw(self, tensor, raw, node):
        kind = next(v for n, v in tensor if n == 2)
        form = {1: "f", 7: "q"}.get(kind)
        if form is None or any(n == 1 for n, _ in tensor) or len(raw) != struct.calcsize(form):
            return raw  # not a scalar
        value = struct.unpack("<" + form, raw)[0]
        return raw if value in (2.0, 3.0) else struct.pack("<" + form, self.scaled(value, node, 0))

    # -- parameters -----------------------------------------------------------
    def shape(self, name):
        s = self.size
        kv = s["kv"] * self.head
        for part, dims in {
            "embed_tokens.weight": [s["vocab"], s["width"]], "lm_head.weight": [s["vocab"], s["width"]],
            "wte.weight": [s["vocab"], s["width"]], "wpe.weight": [s.get("positions"), s["width"]],
            "q_proj.weight": [s["width"], s["width"]], "o_proj.weight": [s["width"], s["width"]],
            "k_proj.weight": [kv, s["width"]], "v_proj.weight": [kv, s["width"]],
            "gate_proj.weight": [s["ffn"], s["width"]], "up_proj.weight": [s["ffn"], s["width"]],
            "down_proj.weight": [s["width"], s["ffn"]], "inv_freq": [self.head // 2],
            "c_attn.weight": [s["width"], 3 * s["width"]], "c_attn.bias": [3 * s["width"]],
            "attn.c_proj.weight": [s["width"], s["width"]], "c_proj.bias": [s["width"]],
            "c_fc.weight": [s["width"], s["ffn"]], "c_fc.bias": [s["ffn"]], "mlp.c_proj.weight": [s["ffn"], s["width"]],
        }.items():
            if name.endswith(part):
                return dims
        return [s["width"]]  # norms

    def initializer(self, fields, name):
        dims = self.shape(name)
        out = [(1, d) for d in dims] + [(2, 1), (8, name)]
        if name.endswith("inv_freq"):
            half = len(range(self.head // 2))
            return encode(out + [(9, struct.pack(f"<{half}f", *(self.size["theta"] ** (-i / half) for i in range(half))))])
        count = 4
        for d in dims:
            count *= d
        entries = {"location": self.data_name, "offset": self.offset, "length": count}
        self.weights.append((name, dims))
        self.offset += (count + 63) // 64 * 64
        return encode(out + [(13, field(1, k) + field(2, str(v))) for k, v in entries.items()] + [(14, 1)])

    # -- the graph ------------------------------------------------------------
    def of_layer(self, layer):
        """Text of layer 1 as text of `layer`."""
        def retext(value):
            value = re.sub(r"(\.layers\.|\.h\.)1\b", lambda m: m.group(1) + str(layer), value)
            value = re.sub(r"(_layers_|_h_)1_", lambda m: m.group(1) + f"{layer}_", value)
            return re.sub(r"%(\w+)", lambda m: "%" + self.rename(m.group(1), layer), value)
        return retext

    def rename(self, name, layer):
        if name == self.enters:  # what layer 0 hands on
            return name if layer == 1 else self.rename(self.leaves, layer - 1)
        if name in self.inside and layer > 1:
            return f"{name}_layer_{layer}"
        if ".layers.1." in name or ".h.1." in name:
            return re.sub(r"(\.layers\.|\.h\.)1\.", lambda m: m.group(1) + f"{layer}.", name)
        return name

    def run(self, data_name):
        last = self.size["layers"] - 1
        self.data_name, self.offset, self.weights = data_name, 0, []
        layer = {o: n.layer for n in self.nodes for o in n.outputs}
        self.inside = {o for o, l in layer.items() if l == 1}
        self.inside |= {m for n in self.nodes if n.layer == 1 for m in re.findall(r"'(\w+)'\]", encode(n.fields).decode("latin1"))}
        hidden = re.compile(r"add_\d+$")
        self.enters = next(i for n in self.nodes if n.layer == 1 for i in n.inputs if layer.get(i) == 0 and hidden.match(i))
        self.leaves = next(i for n in self.nodes if n.layer is None for i in n.inputs if layer.get(i) == 1 and hidden.match(i))
        pair = 0
        for node in self.nodes:
            if b"Constant" in [v for n, v in node.fields if n == 4]:
                pair = (pair + 1) % 2 if self.scale_constant(node, pair) else pair
            self.scale_record(node)
        out = []
        written = False
        for node in self.nodes:
            if node.layer == 1:
                if not written:
                    written = True
                    for k in range(1, last + 1):
                        out += [(1, n.rewritten(lambda v, k=k: self.rename(v, k), self.name_of(k))) for n in self.nodes if n.layer == 1]
                continue
            end = lambda v: self.rename(v, last) if v in (self.leaves,) else v  # noqa: E731
            out.append((1, node.rewritten(end, lambda v: re.sub(r"%(\w+)", lambda m: "%" + end(m.group(1)), v))))
        for number, value in self.graph:
            if number == 5:
                name = text(decode(value), 8)
                repeat = range(1, last + 1) if re.search(r"\.(layers|h)\.1\.", name) else [1]
                out += [(5, self.initializer(decode(value), self.rename(name, k))) for k in repeat]
            elif number == 16:
                out.append((16, encode([(n, self.signature(v.decode()) if n == 2 else v) for n, v in decode(value)])))
            elif number == 12:
                out.append((12, self.output(value)))
            elif number not in (1, 13):  # value_info would repeat the small shapes
                out.append((number, value))
        return encode([(n, encode(out) if n == 7 else v) for n, v in self.model])

    def name_of(self, layer):
        retext = self.of_layer(layer)
        return lambda v: retext(v) + (f"_layer_{layer}" if layer > 1 and v.startswith(("node_", "n0_")) else "")

    def signature(self, value):
        lines = []
        done = False
        for line in value.split("\n"):
            if re.search(r"(_layers_|_h_)1_", line):
                if not done:
                    done = True
                    block = [l for l in value.split("\n") if re.search(r"(_layers_|_h_)1_", l)]
                    for k in range(1, self.size["layers"]):
                        lines += [self.of_layer(k)(l) for l in block]
                continue
            lines.append(line)
        return "\n".join(lines)

    def output(self, value):
        """The logits' last dimension is the vocabulary's size."""
        def walk(data, path):
            out = []
            for n, v in decode(data):
                if n == path[0]:
                    v = (self.size["vocab"] if v == SMALL_VOCAB else v) if len(path) == 1 else walk(v, path[1:]) if isinstance(v, bytes) else v
                out.append((n, v))
            return encode(out)
        return walk(value, [2, 1, 2, 1, 1])  # type.tensor_type.shape.dim.dim_value


def write_weights(path, weights):
    import numpy
    random = numpy.random.default_rng(0)
    with open(path, "wb") as file:
        for name, dims in weights:
            count = 1
            for d in dims:
                count *= d
            norm = len(dims) == 1 and name.endswith("weight")
            data = numpy.ones(count, "<f4") if norm else numpy.zeros(count, "<f4") if len(dims) == 1 else \
                numpy.resize((random.standard_normal(min(count, 1 << 22), dtype="f4") * 0.02).astype("<f4"), count)
            file.write(data.tobytes() + b"\0" * (-data.nbytes % 64))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="another number of layers than the model's")
    parser.add_argument("--random-weights", action="store_true", help="write OUT.data, too")
    args = parser.parse_args()
    size = dict(MODELS[args.model])
    if args.layers:
        size["layers"] = args.layers
    scaler = Scaler(size)
    data = re.sub(r"\.onnx$", "", os.path.basename(args.out)) + ".data"
    model = scaler.run(data)
    with open(args.out, "wb") as file:
        file.write(model)
    if args.random_weights:
        write_weights(os.path.join(os.path.dirname(args.out) or ".", data), scaler.weights)


if __name__ == "__main__":
    main()
