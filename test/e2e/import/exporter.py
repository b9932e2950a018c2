#!/usr/bin/env python3
"""Tests the parts of tools/export that work without PyTorch.

usage: e2e exporter --build DIR --case test/models/gpt2

Errors in the arguments are reported before any long work begins. Byte tokens are written, and a program trains on them. An output file
is either complete or absent. test/models/exported/export.py, which tools/scripts/check-all runs, tests the parts that need PyTorch.
"""
import os
import py_compile
import resource
import subprocess
import sys

import numpy as np

from runner import MODELS, ROOT, Case, Deviates, main, metrics

TOOLS = ROOT / "tools" / "export"
TEXT = MODELS / "data" / "tinyshakespeare.txt"

EXPORT = [  # exit code, words of the message, arguments
    (64, ["--output"], "gpt2"),
    (64, ["one model"], "-o out.onnx"),
    (64, ["one model"], "gpt2 --config model_type=gpt2 -o out.onnx"),
    (64, ["which class", "mine.py:NAME"], "mine.py -o out.onnx"),
    (64, ["FILE.py:NAME"], "mine.py: -o out.onnx"),
    (64, ["--input", "your own module"], "gpt2 --input tokens=int64[batch] -o out.onnx"),
    (64, ["NAME=TYPE[DIM,..]", "tokens=int64[batch,sequence]"], "mine.py:M --input tokens -o out.onnx"),
    (64, ["uint16", "int64"], "mine.py:M --input tokens=uint16[batch] -o out.onnx"),
    (64, ["'0'"], "mine.py:M --input tokens=int64[batch,0] -o out.onnx"),
    (64, ["missing"], "mine.py:M --input tokens=int64[batch,,3] -o out.onnx"),
    (64, ["--size", "batch=1"], "gpt2 --size batch=1 -o out.onnx"),
    (64, ["--attention-mask", "transformers"], "mine.py:M --attention-mask -o out.onnx"),
    (64, ["--vocabulary"], "mine.py:M --vocabulary 0 -o out.onnx"),
    (64, ["--optimize", "--shapes-only"], "gpt2 --optimize --shapes-only -o out.onnx"),
    (64, ["--external-data", "--shapes-only"], "gpt2 --external-data --shapes-only -o out.onnx"),
    (64, ["--batch", "--shapes-only"], "mine.py:M --batch mine.py:batch --shapes-only -o out.onnx"),
    (64, ["--batch expects", "FILE.safetensors", "'batch.bin'"], "mine.py:M --batch batch.bin -o out.onnx"),
    (64, ["--batch expects", "'mine.py:'"], "mine.py:M --batch mine.py: -o out.onnx"),
    (64, ["invalid choice: 'f8'"], "gpt2 --dtype f8 -o out.onnx"),
    (64, ["name=value", "'n_layer'"], "--config model_type=gpt2 n_layer -o out.onnx"),
    (64, ["no folder", "nowhere"], "gpt2 -o nowhere/out.onnx"),
    (64, ["is a folder"], "gpt2 -o ."),
    (69, ["requirements.txt", "pip install", "torch"], "gpt2 -o out.onnx"),
]
TOKENS = [
    (64, ["--tokenizer"], "text.txt -o out.bin"),
    (64, [".bin"], "text.txt -o out.txt --tokenizer bytes"),
    (64, ["not both"], "text.txt -o out.bin --tokenizer bytes --model text.txt --vocabulary 3"),
    (64, ["no end-of-text"], "text.txt -o out.bin --tokenizer bytes --end-of-text"),
    (64, ["70000", "uint32"], "text.txt -o out.bin --tokenizer bytes --vocabulary 70000 --dtype uint16"),
    (66, ["'none.txt' does not exist"], "none.txt -o out.bin --tokenizer bytes"),
    (66, ["'.' is a folder"], ". -o out.bin --tokenizer bytes"),
    (66, ["--shalec 'nothing'"], "text.txt -o out.bin --tokenizer bytes --model text.txt --shalec nothing"),
    (65, ["token 122", "below 122", "tokenizer"], "text.txt -o out.bin --tokenizer bytes --vocabulary 122"),
    (65, ["no text"], "empty.txt -o out.bin --tokenizer bytes"),
    (69, ["requirements.txt", "transformers"], "text.txt -o out.bin --tokenizer folder"),
]


class Tools:
    def __init__(self, work):
        self.work = work
        stubs = work / "stubs"  # stand for a Python without the libraries, even if this one has them
        stubs.mkdir()
        for name in ("torch", "transformers"):
            (stubs / f"{name}.py").write_text(f"raise ImportError(\"No module named '{name}'\")\n")
        self.environment = {**os.environ, "PYTHONPATH": str(stubs), "PYTHONDONTWRITEBYTECODE": "1"}

    def __call__(self, tool, *words, limit=None):
        restrict = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
        return subprocess.run([sys.executable, TOOLS / tool, *map(str, words)], capture_output=True, text=True, timeout=120, cwd=self.work,
                              env=self.environment, preexec_fn=restrict)

    def expect(self, code, words, tool, *arguments, **settings):
        before = {path: path.read_bytes() for path in self.work.iterdir() if path.is_file()}
        done = self(tool, *arguments, **settings)
        missing = [word for word in words if word not in done.stderr]
        if done.returncode != code or missing or "Traceback" in done.stderr:
            raise Deviates(f"{tool} {' '.join(map(str, arguments))}: exit {done.returncode}, not {code}; without {missing}\n{done.stderr[-600:]}")
        after = {path: path.read_bytes() for path in self.work.iterdir() if path.is_file()}
        if code and before != after or any(path.is_dir() and path.name.startswith(".") for path in self.work.iterdir()):
            raise Deviates(f"{tool} {' '.join(map(str, arguments))} left {sorted(set(after) - set(before))} behind, or changed a file")
        return done.stdout


def check_bytes(tools, work):
    """Byte tokens must equal the bytes of the text."""
    text = (work / "text.txt").read_bytes()
    second = bytes(range(256)) * 3
    (work / "second.bin").write_bytes(second)
    for dtype, flags in (("<u2", ()), ("<u4", ("--dtype", "uint32")), ("<u4", ("--vocabulary", 70000))):
        said = tools.expect(0, [], "tokens.py", "text.txt", "second.bin", "-o", "out.bin", "--tokenizer", "bytes", *flags)
        got = np.frombuffer((work / "out.bin").read_bytes(), dtype)
        if not np.array_equal(got, np.frombuffer(text + second, np.uint8)):
            raise Deviates(f"tokens.py {flags}: the file is not the bytes")
        if ("--token-dtype uint32" in said) != (dtype == "<u4") or f"{len(got):,} tokens" not in said:
            raise Deviates(f"tokens.py {flags} says {said}")
    # The output is written to a temporary file and renamed when it is complete.
    tools.expect(74, ["File too large"], "tokens.py", "text.txt", "-o", "out.bin", "--tokenizer", "bytes", limit=40000)


def check(a, work):
    case = Case(a.build, a.case)
    here = work / "here"
    here.mkdir()
    tools = Tools(here)
    for path in [*TOOLS.glob("*.py"), *TOOLS.glob("*/*.py")]:
        py_compile.compile(str(path), cfile=str(work / "compiled"), doraise=True)
    for tool, example in (("export.py", "model.py:GPT -o gpt.onnx"), ("tokens.py", "--tokenizer bytes")):
        done = tools(tool, "--help")
        if done.returncode or example not in done.stdout or "exit codes" not in done.stdout:
            raise Deviates(f"{tool} --help: exit {done.returncode}, {done.stdout[-300:]} {done.stderr[-300:]}")
    (here / "text.txt").write_bytes(TEXT.read_bytes()[:60000])
    (here / "empty.txt").write_bytes(b"")
    for tool, cases in (("export.py", EXPORT), ("tokens.py", TOKENS)):
        for code, words, arguments in cases:
            tools.expect(code, words, tool, *arguments.split())
    check_bytes(tools, here)
    model = ["--model", case.folder.resolve() / case.model, "--shalec", case.bin.resolve() / "shalec"]
    tools.expect(0, [], "tokens.py", "text.txt", "-o", "out.bin", "--tokenizer", "bytes", *model)
    (here / "broken.onnx").write_bytes(b"no model")
    tools.expect(65, ["shalec refuses 'broken.onnx'"], "tokens.py", "text.txt", "-o", "out.bin", "--tokenizer", "bytes", "--model", "broken.onnx", *model[2:])
    case.shalec(work / "train")
    case.batches = here.resolve() / "out.bin"
    case.train(work / "train", work / "run", steps=2)
    if len(metrics(work / "run")) != 2:
        raise Deviates("the program does not train on what tokens.py wrote")
    return f"{len(EXPORT) + len(TOKENS)} errors before PyTorch is needed, tokens of bytes"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
