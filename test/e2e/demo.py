#!/usr/bin/env python3
"""Trains the demo model for 300 steps on the batches of PyTorch's reference run; the evaluation loss is within 0.02 of it.

usage: demo.py --build DIR [--ranks 2] [--shard full]
"""
import argparse
import json
import pathlib
import sys
import tempfile

import batches
import follow

BAR = 0.02
MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--shard", default="full")
    a = p.parse_args()
    reference = json.loads((MODELS / "demo" / "reference.json").read_text())
    training, evaluation = batches.draw(MODELS / "data" / "tinyshakespeare.txt")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        batches.save_safetensors(work / "train.safetensors", {"input_ids": training, "labels": training})
        batches.save_safetensors(work / "eval.safetensors", {"input_ids": evaluation, "labels": evaluation})
        s = reference["settings"]
        try:
            follow.run([f"{a.build}/bin/shalec", str(MODELS / "demo" / "model.onnx"), "-o", str(work / "train"),
                        "--dim", f"batch={batches.BATCH}", "--dim", f"sequence={batches.SEQUENCE}",
                        "--mesh", f"fsdp={a.ranks}", "--shard", a.shard], "shalec")
            follow.run([str(work / "train"), "--data", str(work / "train.safetensors"), "--eval-data", str(work / "eval.safetensors"),
                        "--eval-every", str(batches.STEPS), "--steps", str(batches.STEPS), "--lr", str(s["lr"]), "--beta1", str(s["beta1"]),
                        "--beta2", str(s["beta2"]), "--eps", str(s["eps"]), "--weight-decay", str(s["weight_decay"]), "--clip-grad-norm",
                        str(s["clip_grad_norm"]), "--schedule", "constant", "--out", str(work / "run"), "--nproc", str(a.ranks)], "the program")
            lines = [json.loads(line) for line in (work / "run" / "metrics.jsonl").open()]
            got = lines[-1].get("eval_loss")
            if got is None:
                raise follow.Deviates("no eval_loss in the last line of metrics.jsonl")
            if not abs(got - reference["eval_loss"]) <= BAR:
                raise follow.Deviates(f"evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f} (bar {BAR})")
            print(f"follows: evaluation loss {got:.4f}, PyTorch's is {reference['eval_loss']:.4f}")
            return 0
        except follow.Deviates as error:
            print("deviates:", error)
            return 1


if __name__ == "__main__":
    sys.exit(main())
