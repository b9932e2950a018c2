#!/usr/bin/env python3
"""Trains with --loss next-token on batches that have only the tokens. The run must have the bits of one on batches with labels: the
tokens one position later, and -100 at the last position of each row.

usage: e2e nexttokens --build DIR

On 1 and 3 ranks, with the batch as the first dimension; with int32 tokens; and in evaluation. Refused, with exit code 65: the tokens
alone where the loss ignores no label, and where no input holds them.
"""
import subprocess

import numpy as np

from runner import MODELS, Case, Deviates, main, read_safetensors, run, same_bits, save_safetensors


def train(a, case, work, name, program, data):
    out = work / name
    run([program, "--data", data, "--steps", 8, "--lr", 1e-3, "--out", out], name)
    return out


def refused(command, message):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if result.returncode != 65 or message not in result.stderr:
        raise Deviates(f"ended with {result.returncode}, not 65 and '{message}': {result.stderr[-400:]}")


def check(a, work):
    case = Case(a.build, MODELS / "plain")
    tokens = read_safetensors(case.batches)["tokens"]
    labels = np.concatenate([tokens[..., 1:], np.full(tokens.shape[:-1] + (1,), -100)], -1)
    save_safetensors(work / "tokens.safetensors", {"tokens": tokens})
    save_safetensors(work / "narrow.safetensors", {"tokens": tokens.astype(np.int32)})
    save_safetensors(work / "both.safetensors", {"tokens": tokens, "labels": labels})
    save_safetensors(work / "labels.safetensors", {"labels": labels})
    flags = [case.folder / "model.onnx", "--dim", f"batch={tokens.shape[1]}", "--loss", "next-token:scores"]
    for ranks in (1, 3):
        program = work / f"train-{ranks}"
        run([case.bin / "shalec", *flags, "--mesh", f"fsdp={ranks}", "-o", program], "shalec")
        want = train(a, case, work, f"both-{ranks}", program, work / "both.safetensors")
        for data in ("tokens", "narrow"):
            same_bits(train(a, case, work, f"{data}-{ranks}", program, work / f"{data}.safetensors"), want, f"{data} on {ranks} ranks")
        losses = [run([program, "--eval-only", "--eval-data", work / f"{data}.safetensors", "--out", want], "evaluation").stdout for data in ("tokens", "both")]
        if losses[0].splitlines()[0].split("loss")[1:] != losses[1].splitlines()[0].split("loss")[1:]:
            raise Deviates(f"evaluations on {ranks} ranks differ: {losses}")
    refused([work / "train-1", "--data", work / "labels.safetensors", "--steps", 1, "--out", work / "none"], "has no tensor 'tokens', which the program reads")
    # A mean over all positions has no label for the last one.
    losses = MODELS / "losses"
    program = work / "ignores-none"
    run([case.bin / "shalec", losses / "gather.onnx", "--dim", "batch=4", "-o", program], "shalec")
    save_safetensors(work / "ids.safetensors", {"input_ids": read_safetensors(losses / "batches.safetensors")["input_ids"]})
    refused([program, "--data", work / "ids.safetensors", "--steps", 1, "--out", work / "none"],
            "has no tensor 'labels', and it cannot be made of the tokens in 'input_ids': the last position of a row has no next token")
    return "the bits of batches with labels, on 1 and 3 ranks; two refused"


if __name__ == "__main__":
    main(check)
