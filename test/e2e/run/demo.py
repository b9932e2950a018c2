#!/usr/bin/env python3
"""Trains the demo model for 300 steps on the batches of PyTorch's reference run. The evaluation loss must be within 0.02 of PyTorch's, and
in f32 the loss of every step within 1e-4. --steps N ends the run before, without the evaluation.

usage: e2e demo --build DIR [--ranks 2] [--shard full] [--flags "--param-dtype bf16"] [--steps N]
"""
import json

import batches
from runner import MODELS, Deviates, largest, main, metrics, run, save_safetensors

BAR, STEP = 0.02, 1e-4


def check(a, work):
    reference = json.loads((MODELS / "demo" / "reference.json").read_text())
    training, evaluation = batches.draw(MODELS / "data" / "tinyshakespeare.txt")
    save_safetensors(work / "train.safetensors", {"input_ids": training, "labels": training})
    save_safetensors(work / "eval.safetensors", {"input_ids": evaluation, "labels": evaluation})
    s = reference["settings"]
    run([f"{a.build}/bin/shalec", MODELS / "demo" / "model.onnx", "-o", work / "train",
         "--dim", f"batch={batches.BATCH}", "--dim", f"sequence={batches.SEQUENCE}",
         "--mesh", f"fsdp={a.ranks}", "--shard", a.shard, *a.flags.split()], "shalec")
    whole = a.steps == batches.STEPS
    run([work / "train", "--data", work / "train.safetensors", *(["--eval-data", work / "eval.safetensors"] if whole else []),
         "--steps", a.steps, "--lr", s["lr"], "--beta1", s["beta1"],
         "--beta2", s["beta2"], "--eps", s["eps"], "--weight-decay", s["weight_decay"], "--clip-grad-norm",
         s["clip_grad_norm"], "--schedule", "constant", "--out", work / "run"], "the program", timeout=7200 if whole else 600)
    lines = metrics(work / "run")
    losses = [line["loss"] for line in lines if "loss" in line]
    worst = largest(abs(got - want) for got, want in zip(losses, reference["loss"][:a.steps], strict=True))
    if not a.flags and not worst <= STEP:
        raise Deviates(f"the loss of a step is off by {worst:.1e} (bar {STEP})")
    if not whole:
        return f"{a.steps} losses within {worst:.1e} of PyTorch's"
    got = lines[-1].get("eval_loss")
    if got is None:
        raise Deviates("no eval_loss in the last line of metrics.jsonl")
    if not abs(got - reference["eval_loss"]) <= BAR:
        raise Deviates(f"evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f} (bar {BAR})")
    return f"{a.steps} losses within {worst:.1e} of PyTorch's; evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f}"


if __name__ == "__main__":
    main(check, ("--ranks", {"type": int, "default": 2}), ("--shard", {"default": "full"}), ("--flags", {"default": ""}),
         ("--steps", {"type": int, "default": batches.STEPS}), success="follows:")
