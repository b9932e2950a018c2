#!/usr/bin/env python3
"""Records the gradients of the first step of the fixtures gpt2 and llama, and the errors of PyTorch's bf16 step. Needs torch,
transformers, onnx and safetensors from PyPI; the files are in the repository.

usage: gradients.py [gpt2 llama]

FOLDER/gradients.safetensors holds the gradients by name of the parameter, for the loss of the first batch with the weights of
FOLDER/model.onnx. They are computed in f64 and rounded to f32 once. FOLDER/gradients.json holds the norm of each gradient and the norm of the
error of PyTorch's bf16 step. That step is FSDP's MixedPrecision(param_dtype=bf16, reduce_dtype=f32) on one rank: parameters are cast to
bf16, the module computes in bf16 (buffers stay f32, transformers computes the loss from f32 logits), and the gradient of a parameter is
bf16 (for a tied parameter a sum in bf16) and is cast to f32 for the reduction.
"""
import json
import pathlib
import sys

import onnx
import torch
import transformers
from onnx import numpy_helper
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
NONE = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def build(name, weights):
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=256, n_positions=weights["transformer.wpe.weight"].shape[0], n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0, **NONE))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=weights["model.layers.0.mlp.gate_proj.weight"].shape[0], num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False))


def weights_of(path):
    """Parameters of the file by name, without the prefix `m` of the exporting wrapper."""
    graph = onnx.load(str(path)).graph
    found = {one.name[2:]: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer if one.name.startswith("m.")}
    if "transformer.wpe.weight" in found:
        found.setdefault("transformer.wte.weight", found.get("lm_head.weight"))  # tied
    return found


def gradients(name, weights, batch, kind, parameters_in=None):
    """Loss and gradients of one step. The module has type `kind`, or only its parameters have type `parameters_in`."""
    model = build(name, weights).eval()
    missing = [one for one, _ in model.named_parameters() if one not in weights]
    if missing:
        raise SystemExit(f"{name}: model.onnx has no {missing}")
    with torch.no_grad():
        for one, value in model.named_parameters():
            value.copy_(weights[one])
    model.to(kind)
    for value in model.parameters():
        value.data = value.data.to(parameters_in or kind)
    loss = model(input_ids=batch["input_ids"][0], labels=batch["labels"][0], use_cache=False).loss
    loss.backward()
    return loss.item(), {one: value.grad.double() for one, value in model.named_parameters()}


def record(name):
    folder = HERE / name
    weights, batch = weights_of(folder / "model.onnx"), load_file(folder / "batches.safetensors")
    loss, exact = gradients(name, weights, batch, torch.float64)
    first = json.loads((folder / "trajectory.json").read_text())["steps"][0]
    norm = sum(value.square().sum() for value in exact.values()).sqrt().item()
    if abs(loss - first["loss"]) > 2e-6 or abs(norm - first["grad_norm"]) > 1e-5 * norm:
        raise SystemExit(f"{name}: loss {loss}, norm {norm}; the trajectory begins with {first}")
    single = gradients(name, weights, batch, torch.float32)[1]
    half_loss, half = gradients(name, weights, batch, torch.float32, torch.bfloat16)
    said = {one: {"norm": value.norm().item(), "f32_error": (single[one] - value).norm().item(), "bf16_error": (half[one] - value).norm().item()}
            for one, value in exact.items()}
    save_file({one: value.float() for one, value in exact.items()}, folder / "gradients.safetensors")
    (folder / "gradients.json").write_text(json.dumps({
        "torch": torch.__version__, "transformers": transformers.__version__, "recipe": "parameters cast to bf16, computed in bf16, gradients "
        "in bf16, f32 after the reduction; one rank", "loss": loss, "bf16_loss": half_loss, "gradients": said}, indent=1) + "\n")
    worst = max(said, key=lambda one: said[one]["bf16_error"] / said[one]["norm"])
    print(f"{name}: loss {loss:.7f}, in bf16 {half_loss:.7f}; bf16 off by up to {said[worst]['bf16_error'] / said[worst]['norm']:.3f} ({worst})")


if __name__ == "__main__":
    for one in sys.argv[1:] or ["gpt2", "llama"]:
        record(one)
