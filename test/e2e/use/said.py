#!/usr/bin/env python3
"""What shalec and programs say to people who use them for the first time, with the commands as they type them.

usage: e2e said --build DIR

- A program of images counts samples, in its lines, its report and its description; one of tokens counts tokens. Both say at the start what
  their data holds, and at the end what memory was planned and used. metrics.jsonl has the same fields for both.
- Files of other formats, made by the libraries that write them, are refused by their names as data and as initial weights.
- Each flag of another framework that docs/guide/from-fsdp.md shows is answered as there. The table of these words knows all flags of programs.
- Data that is too short for --steps is refused with a word on --epochs. The checkpoint of another model is one error, not one a rank.
"""
import gzip
import os
import pickle
import re
import subprocess
import zipfile

import numpy as np

from gpt import SMALL, write_model
from runner import MODELS, ROOT, Deviates, main, metrics, run

QUIET = {**os.environ, "OMP_NUM_THREADS": "1"}
# The other flags of a search, so that it makes few plans.
TYPED = ["--shard", "full", "--prefetch", "1", "--max-gathers-in-flight", "2", "--order", "overlap", "--reshard-after-forward", "true", "--offload", "none",
         "--bucket-size", "0"]
MEMORY = r"^memory: \d+\.\d\d MiB planned per rank, \d+\.\d\d MiB used at most; \d+\.\d\d MiB of the plan are upper bounds of fixed parts"


def need(text, *patterns):
    """Every pattern is found once."""
    for pattern in patterns:
        if (count := len(re.findall(pattern, text, re.M))) != 1:
            raise Deviates(f"'{pattern}' is {count} times in:\n{text}")


def refused(work, command, *patterns):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, env=QUIET, cwd=work)
    if done.returncode != 65:
        raise Deviates(f"{command} ended with {done.returncode}: {done.stderr[-600:]}")
    need(done.stderr, "error: ", *patterns)


def check_images(work):
    data = MODELS / "vit" / "batches.safetensors"
    said = run(["./vit", "--nproc", 2, "--data", data, "--steps", 2, "--out", "images"], "vit", QUIET, work).stdout
    need(said, r"^data: .*batches\.safetensors: 20 micro-batches of 4 rows; one pass is 20 steps, the run has 2$", MEMORY,
         r"^step 2/2 .* \d+\.\d samples/s \| \d+\.\d\d MiB$")
    need(run(["./vit", "--describe"], "vit", QUIET, work).stdout, "^samples per step: 4;")
    page = (work / "images" / "report.html").read_text()
    need(page, "samples a second", "<td>samples per step</td><td>4</td>")
    if "tokens" in said + page:
        raise Deviates("a program of images speaks of tokens")
    refused(work, ["./vit", "--nproc", 2, "--data", data, "--steps", 50],
            r"'.*batches\.safetensors' has 20 micro-batches, .* pass --epochs in place of --steps, which reads the data again: 3 epochs are 60 steps$")


def check_tokens(work):
    said = run(["./gpt", "--nproc", 2, "--data", "small/data.bin", "--steps", 2, "--out", "tokens"], "gpt", QUIET, work).stdout
    need(said, r"^data: small/data\.bin: 65536 tokens \(U16\), 2047 rows of 32; one pass is 255\.9 steps, the run has 2$", MEMORY,
         r"^step 2/2 .* \d+ tokens/s \| \d+\.\d\d MiB$")
    if metrics(work / "images")[0].keys() != metrics(work / "tokens")[0].keys():
        raise Deviates("the fields of metrics.jsonl differ")
    need(run(["./gpt", "--describe"], "gpt", QUIET, work).stdout, "^tokens per step: 256;")
    refused(work, ["./gpt", "--nproc", 2, "--data", "small/data.bin", "--resume", "images", "--out", "other"], "checkpoint '.*' is of another model")


def check_formats(work):
    tokens = np.arange(4096, dtype=np.uint16) % 512
    with zipfile.ZipFile(work / "model.pt", "w") as file:  # the layout of torch.save
        file.writestr("model/data.pkl", pickle.dumps({}, protocol=2))
        file.writestr("model/data/0", tokens.tobytes())
    with zipfile.ZipFile(work / "data.zip", "w") as file:
        file.writestr("data.txt", "one two three")
    np.savez(work / "data.npz", tokens)
    (work / "data.bin").write_bytes(gzip.compress(tokens.tobytes()))
    for protocol in (2, 3, 4, 5):
        (work / f"data{protocol}.pkl").write_bytes(pickle.dumps({"tokens": tokens.tolist()}, protocol=protocol))
    formats = {"model.pt": "a PyTorch checkpoint", "data.zip": "a zip file", "data.npz": "an .npz file", "data.bin": "a gzip file",
               **{f"data{protocol}.pkl": "a pickle" for protocol in (2, 3, 4, 5)}}
    for name, kind in formats.items():
        refused(work, ["./gpt", "--nproc", 2, "--data", name], f"'{name}' is {kind}, not a file of tokens: ")
        refused(work, ["./gpt", "--nproc", 2, "--data", "small/data.bin", "--init", name], f"'{name}' is {kind}, not a safetensors file: ")
    refused(work, ["./gpt", "--nproc", 2, "--data", MODELS / "vit" / "model.onnx"], "model.onnx' is an ONNX model, not a file of tokens: ")
    refused(work, ["./gpt", "--nproc", 2, "--data", "tokens/model.safetensors"], "it holds weights, which --init takes$")


def check_words(work):
    page = (ROOT / "docs/guide/from-fsdp.md").read_text()
    rows = re.findall(r"^\| `\./train (.*?)` \| `(.*)` \|$", page, re.M)
    for words, answer in rows:
        done = subprocess.run(["./gpt", "--data", "small/data.bin", *words.split()], capture_output=True, text=True, timeout=120, env=QUIET, cwd=work)
        if done.returncode != 64 or answer.replace("\\|", "|") not in done.stderr:
            raise Deviates(f"{words} ended with {done.returncode}: {done.stderr[-600:]}")
    if len(rows) < 8:
        raise Deviates(f"{len(rows)} answers of programs are on the page")
    table = (ROOT / "runtime/program/flags/ForeignWords.def").read_text()
    known = set(re.sub(r'["\s]', "", re.search(r"^TRAIN_FLAGS\((.*?)\)", table, re.S | re.M)[1]).split(","))
    own = set(re.findall(r"^  --([\w-]+)", run(["./gpt", "--help"], "gpt", QUIET, work).stdout, re.M))
    if lost := own - known - {"help", "describe", "beta1", "beta2", "eps", "weight-decay"}:
        raise Deviates(f"ForeignWords.def lacks {sorted(lost)}")


def check_limit(a, work):
    """The refusal of a limit lists the flags that lower the peak, with bytes that the plan with that flag confirms."""
    command = [f"{a.build}/bin/shalec", "small/model.onnx", "--loss", "next-token:logits", "--dim", "batch=32", "--mesh", "fsdp=2", "--threads", "2",
               *TYPED, "--plan-only"]
    done = subprocess.run([*command, "--memory-limit", "10MiB"], capture_output=True, text=True, timeout=120, cwd=work)
    if done.returncode != 78:
        raise Deviates(f"shalec ended with {done.returncode}: {done.stderr[-600:]}")
    least, listed = done.stderr.split("what would lower it:\n")
    saved = re.findall(r"^  (--[\w-]+) (\S+) +device (-\d+) bytes", listed, re.M)
    if not {"--optimizer-dtype", "--loss-chunk", "--unit", "--threads"} <= {flag for flag, _, _ in saved}:
        raise Deviates(f"flags are missing:\n{listed}")
    need(listed, "^  a smaller --dim, with --accumulate K", "^  more ranks in --mesh, with --shard full$", "^  flags whose names end in -dtype round more")
    chosen = re.search(r"--memory-limit \d+(?: \((.*)\))?$", least, re.M).group(1) or ""
    base = int(re.search(r"the smallest takes (\d+) bytes", least).group(1))
    for flag, value, change in saved:
        typed = dict(zip(*[iter([*command[2:-1], *chosen.split()])] * 2))
        typed[flag] = value
        said = run([*command[:2], *(word for pair in typed.items() for word in pair), "--plan-only", "--no-advice"], "shalec", folder=work).stdout
        if int(re.search(r"peak (\d+) bytes", said).group(1)) != base + int(change):
            raise Deviates(f"{flag} {value} promises {change} bytes, which its plan does not have")


def check_deep_limit(a, work):
    """For a model of many kernels, flags whose plans take long are named without numbers."""
    write_model(work / "deep", layers=64, width=16, vocabulary=64, length=8)
    done = subprocess.run([f"{a.build}/bin/shalec", "deep/model.onnx", "--loss", "next-token:logits", "--dim", "batch=2", "--threads", "2", "--offload", "none",
                           "--recompute", "none", "--memory-limit", "1MiB", "--plan-only"], capture_output=True, text=True, timeout=300, cwd=work)
    if done.returncode != 78:
        raise Deviates(f"shalec ended with {done.returncode}: {done.stderr[-600:]}")
    need(done.stderr, r"^  --threads 1 +device -\d+ bytes",
         "^  not planned, because a plan of this model takes seconds: --param-dtype bf16 --optimizer-dtype bf16 --master-dtype none$")


def check(a, work):
    write_model(work / "small", **SMALL)
    shalec = [f"{a.build}/bin/shalec"]
    run([*shalec, MODELS / "vit" / "model.onnx", "--dim", "batch=4", "--mesh", "fsdp=2", "-o", "vit"], "shalec", folder=work)
    run([*shalec, "small/model.onnx", "--loss", "next-token:logits", "--dim", "batch=8", "--mesh", "fsdp=2", "-o", "gpt"], "shalec", folder=work)
    check_images(work)
    check_tokens(work)
    check_formats(work)
    check_words(work)
    check_limit(a, work)
    check_deep_limit(a, work)
    return "as documented"


if __name__ == "__main__":
    main(check, success="said:")
