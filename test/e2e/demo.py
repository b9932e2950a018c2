#!/usr/bin/env python3
"""Trains the demo model for 300 steps on the batches of PyTorch's reference run. The evaluation loss must be within 0.02 of PyTorch's.

usage: demo.py --build DIR [--ranks 2] [--shard full] [--flags "--param-dtype bf16"]
"""
import json

import batches
from runner import MODELS, Deviates, main, metrics, run, save_safetensors

BAR = 0.02


def check(a, work):
    reference = json.loads((MODELS / "demo" / "reference.json").read_text())
    training, evaluation = batches.draw(MODELS / "data" / "tinyshakespeare.txt")
    save_safetensors(work / "train.safetensors", {"input_ids": training, "labels": training})
    save_safetensors(work / "eval.safetensors", {"input_ids": evaluation, "labels": evaluation})
    s = reference["settings"]
    run([f"{a.build}/bin/shalec", MODELS / "demo" / "model.onnx", "-o", work / "train",
         "--dim", f"batch={batches.BATCH}", "--dim", f"sequence={batches.SEQUENCE}",
         "--mesh", f"fsdp={a.ranks}", "--shard", a.shard, *a.flags.split()], "shalec")
    run([work / "train", "--data", work / "train.safetensors", "--eval-data", work / "eval.safetensors",
         "--eval-every", batches.STEPS, "--steps", batches.STEPS, "--lr", s["lr"], "--beta1", s["beta1"],
         "--beta2", s["beta2"], "--eps", s["eps"], "--weight-decay", s["weight_decay"], "--clip-grad-norm",
         s["clip_grad_norm"], "--schedule", "constant", "--out", work / "run"], "the program")
    got = metrics(work / "run")[-1].get("eval_loss")
    if got is None:
        raise Deviates("no eval_loss in the last line of metrics.jsonl")
    if not abs(got - reference["eval_loss"]) <= BAR:
        raise Deviates(f"evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f} (bar {BAR})")
    return f"evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f}"


if __name__ == "__main__":
    main(check, ("--ranks", {"type": int, "default": 2}), ("--shard", {"default": "full"}), ("--flags", {"default": ""}), success="follows:")
