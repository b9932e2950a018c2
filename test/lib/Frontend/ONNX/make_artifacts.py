"""Writes folders of ONNX Runtime's training artifacts of a small model: make_artifacts.py CASE FOLDER.

The checkpoint is written here, by the rules of FlatBuffers: a table is a signed distance to its list of fields, then its fields.
"""
import os
import struct
import sys
from onnx_writer import *

MS = "com.microsoft"
W = struct.pack("<8f", *[0.5] * 8)
BUFFER = "_grad.accumulation.buffer"


class Flat:
    """Writes tables front to back; a field is None or (kind, value)."""

    def __init__(self, root, identifier=b"ODTC"):
        self.out = bytearray(b"\0\0\0\0" + identifier)
        struct.pack_into("<I", self.out, 0, self.table(root))

    def align(self):
        self.out += b"\0" * (-len(self.out) % 8)

    def table(self, fields):
        self.align()
        at, offsets = 4, []
        for one in fields:
            offsets.append(at if one else 0)
            at += 8 if one else 0
        self.out += struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), at, *offsets)
        begin = len(self.out)
        self.out += struct.pack("<i", 4 + 2 * len(fields)) + b"\0" * (at - 4)
        for one, offset in zip(fields, offsets):
            if one:
                self.field(begin + offset, *one)
        return begin

    def field(self, at, kind, value):
        if kind in "iqfB":
            struct.pack_into("<" + kind, self.out, at, value)
            return
        if kind == "table":
            target = self.table(value)
        elif kind == "tables":
            target = self.vector(struct.pack(f"<{len(value)}I", *[0] * len(value)), len(value))
            for i, one in enumerate(value):
                place = target + 4 + 4 * i
                struct.pack_into("<I", self.out, place, self.table(one) - place)
        elif kind == "longs":
            target = self.vector(struct.pack(f"<{len(value)}q", *value), len(value))
        else:
            target = self.vector(value, len(value))
        struct.pack_into("<I", self.out, at, target - at)

    def vector(self, data, count):
        self.align()
        begin = len(self.out)
        self.out += struct.pack("<I", count) + data
        return begin


def values(name=b"w", dims=(4, 2), data=W, kind=FLOAT, external=None):
    return [("bytes", name), None, ("longs", dims), ("i", kind), ("bytes", data) if data is not None else None, None,
            ("q", external) if external is not None else None]


def checkpoint(trained=(values(),), frozen=(), groups=None, version=2, module=True, nominal=0, identifier=b"ODTC"):
    state = [("tables", trained), ("tables", frozen) if frozen else None, ("B", nominal), None]
    root = [("i", version), ("table", state) if module else None, ("tables", groups) if groups is not None else None]
    return lambda: bytes(Flat(root, identifier).out)


def group(step=3, rate=0.125, moments=(values(b"momentum0", data=b"\0" * 32), values(b"momentum1", data=b"\0" * 32))):
    return [("bytes", b"group0"), ("q", step), ("f", rate), ("tables", [[("bytes", b"w"), ("tables", moments)]])]


X, LOSS = value("x", ["batch", 4]), value("loss", [])


def forward(inputs=None, body=(), out=LOSS):
    """loss = mean((x w)^2), with w as an input."""
    nodes = [*(body or [node("MatMul", ["x", "w"], ["y"], "product")]), node("Mul", ["y", "y"], ["z"], "square"),
             node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)]
    return model(graph(nodes, [X, *(inputs or [value("w", [4, 2])])], [out]))


def training(names=("w",), body=(), out=LOSS):
    inputs = [X, *(value(n, [4, 2]) for n in names), *(value(n + BUFFER, [4, 2]) for n in names), value("lazy_reset_grad", [1], BOOL)]
    return model(graph(list(body), inputs, [out]), (("", 18), (MS, 1)))


def adamw(**attributes):
    return node("AdamWOptimizer", ["learning_rate", "step", "params", "gradients", "m1", "m2"], ["done"], "adamw", MS, **attributes)


def optimizer(*nodes):
    return model(graph(nodes or [adamw(adam_mode=1, alpha=0.5, beta=0.75, epsilon=0.25, weight_decay=0.125)], [], []), (("", 18), (MS, 1)))


def folder(check=checkpoint(), step=None, update=None, evaluate=None):
    return {"checkpoint": check, "training_model.onnx": lambda: step or training(), "optimizer_model.onnx": lambda: update or optimizer(),
            "eval_model.onnx": lambda: evaluate or forward()}


def without(name):
    files = folder()
    del files[name]
    return files


def patched(at, data):
    """The checkpoint with other bytes at an offset."""
    def write():
        out = bytearray(checkpoint()())
        out[at:at + len(data)] = data
        return bytes(out)
    return folder(write)


CLIP = node("InplaceClipGradNorm", ["gradients"], ["clipped"], "clip", MS, max_norm=0.5)
CLIPPED = node("SGDOptimizerV2", ["learning_rate", "params", "clipped"], ["done"], "sgd", MS)
DROP = [node("Dropout", ["x", "ratio"], ["d", "m"], "drop")]
RATIO = node("Constant", [], ["ratio"], "ratio", value=floats("", [], [0.25]))

CASES = {
    "good": folder(),
    "torch": folder(update=optimizer(adamw(adam_mode=0))),
    "uncorrected": folder(update=optimizer(adamw(adam_mode=1, correct_bias=0))),
    "sgd-clipped": folder(update=optimizer(CLIP, CLIPPED)),
    "group": folder(checkpoint(groups=[group()])),
    "frozen": folder(checkpoint(frozen=[values(b"u")]), evaluate=forward([value("w", [4, 2]), value("u", [4, 2])],
                                                                        [node("Add", ["w", "u"], ["wu"], "sum"), node("MatMul", ["x", "wu"], ["y"], "product")])),
    "external": {**folder(checkpoint([values(data=None, external=8)])), "checkpoint.data": lambda: b"\0" * 8 + W},
    "dropout": folder(step=training(body=[node("Dropout", ["x", "ratio", "yes"], ["d", "m"], "drop")]),
                      evaluate=forward(body=[RATIO, *DROP, node("MatMul", ["d", "w"], ["y"], "product")])),
    # Files.
    "no-checkpoint": without("checkpoint"),
    "no-optimizer": without("optimizer_model.onnx"),
    "no-training": without("training_model.onnx"),
    "empty-folder": {},
    "broken-model": {**folder(), "training_model.onnx": lambda: b"\x3a\xff"},
    # The checkpoint.
    "empty": folder(lambda: b""),
    "short": folder(lambda: checkpoint()()[:40]),
    "cut": folder(lambda: checkpoint()()[:-24]),
    "identifier": folder(checkpoint(identifier=b"ORTM")),
    "version": folder(checkpoint(version=1)),
    "nominal": folder(checkpoint(nominal=1)),
    "no-module": folder(checkpoint(module=False)),
    "no-parameters": folder(checkpoint(trained=[]), step=training(names=())),
    "root-beyond": patched(0, b"\xff\xff\xff\x7f"),
    "fields-before": patched(18, b"\xff\xff\xff\x7f"),
    "twice": folder(checkpoint([values(), values()])),
    "unknown": folder(checkpoint([values(), values(b"u")]), step=training(("w", "u"))),
    "not-trained": folder(checkpoint([values(), values(b"u")])),
    "lacking": folder(step=training(("w", "u"))),
    "shape": folder(checkpoint([values(dims=(2, 4))])),
    "type": folder(checkpoint([values(kind=INT64)])),
    "bytes": folder(checkpoint([values(data=W[:28])])),
    "no-data": folder(checkpoint([values(data=None)])),
    "two-places": folder(checkpoint([values(external=0)])),
    "external-missing": folder(checkpoint([values(data=None, external=8)])),
    "external-short": {**folder(checkpoint([values(data=None, external=8)])), "checkpoint.data": lambda: W},
    "many-dims": folder(checkpoint([values(dims=[1] * 65)])),
    "moments": folder(checkpoint(groups=[group(moments=[values(b"momentum0")])])),
    "two-groups": folder(checkpoint(groups=[group(), group()])),
    "step": folder(checkpoint(groups=[group(step=-1)])),
    "rate": folder(checkpoint(groups=[group(rate=float("nan"))])),
    # The models.
    "other-loss": folder(step=training(out=value("cost", []))),
    "lamb": folder(update=optimizer(node("LambOptimizer", ["a"], ["b"], "lamb", MS))),
    "two-updates": folder(update=optimizer(adamw(), adamw())),
    "no-update": folder(update=optimizer(CLIP)),
    "alpha": folder(update=optimizer(adamw(alpha=1.5))),
    "mode": folder(update=optimizer(adamw(adam_mode=2))),
    "attribute": folder(update=optimizer(adamw(amsgrad=1))),
    "clip-zero": folder(update=optimizer(node("InplaceClipGradNorm", ["gradients"], ["clipped"], "clip", MS, max_norm=0.0), CLIPPED)),
    "clip-type": folder(update=optimizer(node("InplaceClipGradNorm", ["gradients"], ["clipped"], "clip", MS, norm_type="inf"), CLIPPED)),
    "clip-unused": folder(update=optimizer(CLIP, adamw())),
    "dropout-fused": folder(step=training(body=[node("BiasDropout", ["x", "b"], ["d", "m"], "drop", MS)])),
    "dropout-lost": folder(step=training(body=[node("Dropout", ["x", "ratio", "yes"], ["d", "m"], "drop")])),
}

case, path = sys.argv[1:]
os.makedirs(path, exist_ok=True)
for name, write in CASES[case].items():
    with open(os.path.join(path, name), "wb") as out:
        out.write(write())
