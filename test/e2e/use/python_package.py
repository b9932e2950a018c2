#!/usr/bin/env python3
"""The Python package of tools/python, with the tools of the build tree: keywords become flags, steps arrive while the program runs, errors are exceptions
with the exit code, and a run that was stopped goes on with the same bits.

usage: e2e python_package --build DIR
"""
import os
import pathlib
import sys

from runner import MODELS, ROOT, Deviates, main, metrics, same_bits

sys.path.insert(0, str(ROOT / "tools/python"))
import shale  # noqa: E402
from shale.flags import flags_of  # noqa: E402

TEXT = MODELS / "data/tinyshakespeare.txt"
MODEL = MODELS / "demo/model.onnx"
SIZES = {"dim": {"batch": 4, "sequence": 32}}
FLAGS = [
    ({"param_dtype": "bf16"}, ["--param-dtype=bf16"]),
    ({"dim": {"batch": 8, "sequence": 128}}, ["--dim=batch=8", "--dim=sequence=128"]),
    ({"freeze": ["wte", "wpe"]}, ["--freeze=wte", "--freeze=wpe"]),
    ({"steps": 3, "lr": 3e-4, "out": pathlib.Path("a b")}, ["--steps=3", "--lr=0.0003", "--out=a b"]),
    ({"switch": True, "other": True}, ["--switch", "--other=true"]),
    ({"switch": False, "other": False, "none": None}, ["--other=false"]),
    ({"trace": ("steps:0-2", "file.json")}, ["--trace", "steps:0-2", "file.json"]),
]


def expect(kind, code, part, what):
    """`what` must raise an error of exactly this class and code, whose text has `part`."""
    try:
        what()
    except shale.Error as error:
        if type(error) is not kind or error.code != code or part not in str(error):
            raise Deviates(f"expected {kind.__name__} {code} with {part!r}, got {type(error).__name__} {error.code}: {error}") from error
        return
    raise Deviates(f"no {kind.__name__} with {part!r}")


def check_flags():
    for keywords, words in FLAGS:
        if flags_of(keywords, {"--switch"}) != words:
            raise Deviates(f"{keywords} becomes {flags_of(keywords, {'--switch'})}, not {words}")
    expect(shale.UsageError, 64, "type set", lambda: flags_of({"dim": {1}}))


def check_errors(work, program):
    expect(shale.MissingInput, 66, "none.onnx", lambda: shale.compile(work / "none.onnx", work / "no"))
    expect(shale.UsageError, 64, "--dim batch=SIZE", lambda: shale.compile(MODEL, work / "no"))
    expect(shale.UsageError, 64, "--meshes", lambda: shale.compile(MODEL, work / "no", meshes="fsdp=2", **SIZES))
    expect(shale.NoFit, 78, "no plan fits", lambda: shale.compile(MODEL, work / "no", memory_limit="1MiB", **SIZES))
    (work / "bad.onnx").write_bytes(b"no model")
    expect(shale.DataError, 65, "bad.onnx", lambda: shale.compile(work / "bad.onnx", work / "no"))
    expect(shale.MissingInput, 66, "no program", lambda: shale.train(work / "no", data=TEXT))
    expect(shale.MissingInput, 66, "none.bin", lambda: shale.train(program, data=work / "none.bin", steps=2, out=work / "e1").wait())
    expect(shale.UsageError, 64, "--stepz", lambda: shale.train(program, data=TEXT, stepz=2, out=work / "e2").wait())
    expect(shale.NonFinite, 93, "not finite", lambda: shale.train(program, data=TEXT, steps=50, lr=1e6, out=work / "e3").wait())
    if (work / "no").exists():
        raise Deviates("a compilation that failed left a file")


def check_steps(work, program):
    """All steps arrive in order, the first while the program runs."""
    run = shale.train(program, data=TEXT, steps=12, lr=1e-3, out=work / "whole")
    steps, early = [], False
    for step in run:
        early |= run.process.poll() is None
        steps.append(step)
    if steps != metrics(work / "whole") or [step["step"] for step in steps] != list(range(12)):
        raise Deviates(f"the steps are {[step['step'] for step in steps]}")
    if not early:
        raise Deviates("no step arrived before the end")
    if not run.weights.is_file():
        raise Deviates("no weights")
    return steps


def check_resume(work, program, whole):
    """A run that is stopped after its first steps goes on to the same weights, and yields every step once."""
    out = work / "half"
    with shale.train(program, data=TEXT, steps=12, stop_after=5, lr=1e-3, out=out) as run:
        if run.wait()["step"] != 4:
            raise Deviates("stop_after=5 did not end after five steps")
    steps = list(shale.train(program, data=[TEXT], steps=12, lr=1e-3, resume="must", out=out))
    if [(one["step"], one["loss"]) for one in steps] != [(one["step"], one["loss"]) for one in whole]:
        raise Deviates(f"the resumed run yields the steps {[one['step'] for one in steps]}, or other losses")
    same_bits(work / "whole", out, "the resumed run")


def check_stop(work, program):
    """The end of a with block stops the program, which saves its state."""
    out = work / "stopped"
    with shale.train(program, data=TEXT, steps=1_000_000, lr=1e-3, out=out) as run:
        next(run)
    if run.process.returncode not in (75, 130) or not any((out / "checkpoints").iterdir()):
        raise Deviates(f"the stopped program ended with {run.process.returncode}, or without a checkpoint")


def check(a, work):
    os.environ["PATH"] = f"{pathlib.Path(a.build).resolve()}/bin:{os.environ['PATH']}"
    check_flags()
    program = shale.compile(MODEL, work / "train", mesh="fsdp=2", shard="full", **SIZES)
    check_errors(work, program)
    check_resume(work, program, check_steps(work, program))
    check_stop(work, program)
    return "flags, steps, errors, resume and stop"


if __name__ == "__main__":
    main(check)
