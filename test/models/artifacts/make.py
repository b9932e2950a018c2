#!/usr/bin/env python3
"""Writes ONNX Runtime's training artifacts of a tiny transformer, and the runs of ONNX Runtime's own training that programs must follow.

Needs onnxruntime-training-cpu 1.19, onnx 1.16 and torch from PyPI (Python 3.11); the files are in the repository, so the tests need none.

usage: make.py

Writes training_model.onnx, eval_model.onnx and checkpoint, which all cases share; optimizer-NAME.onnx, trajectory-NAME.json and
final-NAME.safetensors of each case; and batches.safetensors. `wpe` is frozen.
"""
import io
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e" / "lib"))
from runner import save_safetensors

WORDS, LENGTH, WIDTH, HEADS, ROWS, STEPS = 48, 12, 16, 2, 4, 20


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        rows, length, width = x.shape
        q, k, v = (part.reshape(rows, length, HEADS, width // HEADS).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(width, -1))
        scores = q @ k.transpose(-1, -2) / (width // HEADS) ** 0.5 + mask
        seen = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(rows, length, width)
        x = x + self.proj(seen)
        return x + self.down(torch.nn.functional.gelu(self.up(self.ln2(x))))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.block, self.ln = Block(), torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -1e9).triu(1))

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[None]
        return self.head(self.ln(self.block(x, self.mask))).reshape(-1, WORDS)


def export(module):
    file = io.BytesIO()
    torch.onnx.export(module, (torch.zeros(ROWS, LENGTH, dtype=torch.int64),), file, input_names=["ids"], output_names=["logits"], opset_version=15,
                      dynamo=False, do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING,
                      dynamic_axes={"ids": {0: "batch"}, "logits": {0: "rows"}})
    return onnx.load_model_from_string(file.getvalue())


def with_attributes(model, **values):
    for node in model.graph.node:
        if node.op_type == "AdamWOptimizer":
            for attribute in node.attribute:
                if attribute.name in values:
                    attribute.CopyFrom(onnx.helper.make_attribute(attribute.name, values[attribute.name]))
    return model


def write_artifacts(folder, module):
    model = export(module)
    names = [name for name, _ in module.named_parameters()]
    trained = [name for name in names if not name.startswith("wpe")]
    artifacts.generate_artifacts(model, requires_grad=trained, frozen_params=["wpe.weight"], loss=artifacts.LossType.CrossEntropyLoss,
                                 optimizer=artifacts.OptimType.AdamW, artifact_directory=str(folder))
    made = {"adamw": onnx.load(folder / "optimizer_model.onnx")}
    sgd = tempfile.mkdtemp()
    artifacts.generate_artifacts(model, requires_grad=trained, frozen_params=["wpe.weight"], loss=artifacts.LossType.CrossEntropyLoss,
                                 optimizer=artifacts.OptimType.SGD, artifact_directory=sgd)
    made["sgd"] = onnx.load(pathlib.Path(sgd) / "optimizer_model.onnx")
    shutil.rmtree(sgd)
    # Other constants than onnxblock's defaults; Transformers' form.
    made["constants"] = with_attributes(onnx.load(folder / "optimizer_model.onnx"), alpha=0.8, beta=0.95, epsilon=1e-3, weight_decay=0.2)
    # PyTorch's form.
    made["torch"] = with_attributes(onnx.load(folder / "optimizer_model.onnx"), adam_mode=0, epsilon=1e-3, weight_decay=0.2)
    made["uncorrected"] = with_attributes(onnx.load(folder / "optimizer_model.onnx"), correct_bias=0, epsilon=1e-3, weight_decay=0.1)
    clipped = with_attributes(onnx.load(folder / "optimizer_model.onnx"), epsilon=1e-2)
    update = clipped.graph.node[0]
    clipped.graph.node.insert(0, onnx.helper.make_node("InplaceClipGradNorm", ["gradients"], ["clipped"], "clip", domain="com.microsoft",
                                                       max_norm=0.5, norm_type="fro"))
    clipped.graph.node[1].input[3] = "clipped"
    made["clipped"] = clipped
    return made


def parameters_of(state, names):
    return {name: np.array(state.parameters[name].data) for name in names}


def gradient_norm(path, values, feeds):
    """Runs the training model once with these parameters; its gradients are in the buffers then."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ort, buffers = {}, []
    for given in session.get_inputs():
        name = given.name
        if name.endswith("_grad.accumulation.buffer"):
            value = np.zeros_like(values[name[:-len("_grad.accumulation.buffer")]])
        elif name == "lazy_reset_grad":
            value = np.array([True])
        else:
            value = feeds[name] if name in feeds else values[name]
        ort[name] = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        if name.endswith("buffer"):
            buffers.append(ort[name])
    session.run_with_ort_values([o.name for o in session.get_outputs()], ort)
    return float(np.sqrt(sum(np.sum(b.numpy().astype(np.float64) ** 2) for b in buffers)))


def train(folder, names, batches, rate):
    state = CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    module = Module(str(folder / "training_model.onnx"), state, str(folder / "eval_model.onnx"))
    optimizer = Optimizer(str(folder / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(rate)
    module.train()
    steps = []
    for step in range(STEPS):
        ids, labels = batches["ids"][step], batches["labels"][step]
        norm = gradient_norm(folder / "training_model.onnx", parameters_of(state, names), {"ids": ids, "labels": labels})
        loss = module(ids, labels)
        optimizer.step()
        module.lazy_reset_grad()
        steps.append({"step": step, "loss": float(loss), "grad_norm": norm})
    return steps, parameters_of(state, names)


def write():
    torch.manual_seed(3)
    random = np.random.default_rng(5)
    module = Transformer()
    names = [name for name, _ in module.named_parameters()]
    ids = random.integers(0, WORDS, (STEPS, ROWS, LENGTH + 1))
    ids[..., 1::2] = (ids[..., 0::2][..., :ids[..., 1::2].shape[-1]] * 5 + 1) % WORDS  # every second word follows from the one before
    batches = {"ids": ids[..., :-1].astype(np.int64), "labels": ids[..., 1:].reshape(STEPS, -1).astype(np.int64)}
    save_safetensors(HERE / "batches.safetensors", batches)
    made = write_artifacts(HERE, module)
    (HERE / "optimizer_model.onnx").unlink()
    for name, optimizer in made.items():
        rate = 0.5 if name == "sgd" else 0.01
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for shared in ("training_model.onnx", "eval_model.onnx", "checkpoint"):
                shutil.copy(HERE / shared, folder)
            (folder / "optimizer_model.onnx").write_bytes(optimizer.SerializeToString())
            (HERE / f"optimizer-{name}.onnx").write_bytes(optimizer.SerializeToString())
            steps, final = train(folder, names, batches, rate)
        save_safetensors(HERE / f"final-{name}.safetensors", final)
        said = {"onnxruntime": onnxruntime.__version__, "optimizer": {"name": "of the file", "flags": {"lr": rate}}, "steps": steps}
        (HERE / f"trajectory-{name}.json").write_text(json.dumps(said, indent=1) + "\n")
        print(name, steps[0]["loss"], "->", steps[-1]["loss"])


write()
