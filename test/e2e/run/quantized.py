#!/usr/bin/env python3
"""Parameters that are gathered in another type (--wire-dtype gather=int8|bf16|f16) against what numpy rounds.

usage: e2e quantized --build DIR --case test/models/gpt2 [--stubs DIR]

For each strategy that gathers, on two ranks:

- The program's loss and gradient norm of a step are those of a program without the flag, on one rank, that begins the step with parameters
  which numpy has rounded, to blocks of 8-bit integers or to the 16-bit float, within 2e-6 and 2e-5: of the first step, and of one in the middle, from the parameters that the program wrote before it.
- Parameters at rest are not rounded: with a learning rate of 0 the run ends with the bits that it began with.
- In bf16 and f16 the losses of the fixture's steps are PyTorch's in f32 within NEAR.
- A run that is resumed has the bits of one that is not.
- A parameter that is not finite ends the run with 93.

A mutant must fail, too: parameters that numpy rounds with another scale, or to fewer bits.
"""
import subprocess

import numpy as np

from runner import Case, Deviates, expect_deviation, largest, main, metrics, read_safetensors, same_bits, save_safetensors

BLOCK, LEVELS, LOSS, NORM, MIDDLE = 256, 127, 2e-6, 2e-5, 10
NEAR = {"bf16": 4e-3, "f16": 1e-3}
BITS = {"bf16": 8, "f16": 11}


def quantized(value, levels=LEVELS):
    """Blocks of 256 elements as integers times a scale, in f32."""
    flat = np.zeros(-(-value.size // BLOCK) * BLOCK, np.float32)
    flat[:value.size] = value.ravel()
    blocks = flat.reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(levels)
    scale[scale < np.finfo(np.float32).tiny] = 0
    factor = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    return (np.floor(blocks * factor + np.float32(0.5)) * scale).ravel()[:value.size].reshape(value.shape)


def to_bits(value, bits):
    """Rounds to numbers of so many bits, half to even. """
    significand, exponent = np.frexp(value.astype(np.float64))
    return np.ldexp(np.round(np.ldexp(significand, bits)), exponent - bits).astype(np.float32)


def rounded(value, kind, mutant=False):
    if kind == "int8":
        return quantized(value, LEVELS - mutant)
    if kind == "f16" and not mutant:
        return value.astype(np.float16).astype(np.float32)
    return to_bits(value, BITS[kind] - 3 * mutant)


def check_step(case, plain, work, weights, step, got, kind, mutant=False):
    """Compares a step's line of metrics with a step from rounded weights. Returns the difference of the losses."""
    save_safetensors(work / "rounded.safetensors", {name: rounded(value, kind, mutant) for name, value in weights.items()})
    batches = {name: value[step:step + 1] for name, value in read_safetensors(case.batches).items()}
    save_safetensors(work / "batch.safetensors", batches)
    out = work / f"plain-{step}-{mutant}"
    subprocess.run([plain, "--data", work / "batch.safetensors", "--steps", "1", *map(str, case.hyper_flags()), "--save-every", "0", "--out", out,
                    "--init", work / "rounded.safetensors"], check=True, capture_output=True, timeout=300)
    want = metrics(out)[0]
    loss, norm = abs(got["loss"] - want["loss"]), abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"]
    if not loss <= LOSS or not norm <= NORM:
        raise Deviates(f"step {step}: loss is off by {loss:.1e} (bar {LOSS}), gradient norm by {norm:.1e} (bar {NORM})")
    return loss


def check_strategy(case, plain, work, kind, strategy, more):
    work.mkdir(parents=True)
    program = work / "train"
    case.shalec(program, strategy, 2, ["--wire-dtype", f"gather={kind}", *more])
    libraries = [] if not case.stubs else ["--cuda-libraries", case.stubs]
    case.train(program, work / "still", steps=1, flags=["--lr", 0, "--weight-decay", 0, *libraries])
    case.train(program, work / "run", flags=libraries)
    still, lines = read_safetensors(work / "still" / "model.safetensors"), metrics(work / "run")
    given = {name.removeprefix("m."): value for name, value in case.initial.items()}
    if any(given[name].tobytes() != value.tobytes() for name, value in still.items()):
        raise Deviates(f"{strategy}: parameters at rest have other bits after a step with a learning rate of 0")
    if kind in NEAR:
        off, _ = case.check_metrics(work / "run", NEAR[kind])
    worst = check_step(case, plain, work, still, 0, lines[0], kind)
    case.train(program, work / "half", flags=["--stop-after", MIDDLE, *libraries])
    worst = largest([worst, check_step(case, plain, work, read_safetensors(work / "half" / "model.safetensors"), MIDDLE, lines[MIDDLE], kind)])
    case.train(program, work / "half", flags=libraries)
    same_bits(work / "run", work / "half", f"{strategy}: a run that is resumed")
    expect_deviation(lambda: check_step(case, plain, work, still, 0, lines[0], kind, mutant=True), "another rounding", "step 0")
    name = next(name for name, value in still.items() if value.ndim == 1 and "norm" in name or ".ln_" in name)
    bad = {key: np.array(value) for key, value in still.items()}
    bad[name].flat[-1] = np.inf
    save_safetensors(work / "bad.safetensors", bad)
    done = subprocess.run([str(word) for word in (program, "--data", case.batches, "--steps", 2, *case.hyper_flags(), "--out", work / "bad", "--init",
                           work / "bad.safetensors", *libraries)], capture_output=True, text=True, timeout=300)
    if done.returncode != 93:
        raise Deviates(f"{strategy}: a run from Inf ends with {done.returncode}, not 93: {done.stderr[-500:]}")
    near = f", and within {off:.1e} of PyTorch's" if kind in NEAR else ""
    return f"{kind}, {strategy}: losses within {worst:.1e} of those from weights that numpy rounds{near}"


def check(a, work):
    case = Case(a.build, a.case)
    case.stubs = a.stubs
    device = ["--target", "cuda:emulated"] if a.stubs else []
    case.shalec(work / "plain", "none", 1)
    subprocess.run([work / "plain", "--data", case.batches, "--steps", "1", "--lr", "0", "--weight-decay", "0", "--out", work / "initial"], check=True,
                   capture_output=True, timeout=300)
    case.initial = read_safetensors(work / "initial" / "model.safetensors")
    settings = [("int8", "full"), ("bf16", "full"), ("int8", "grad"), ("f16", "grad"), ("int8", "optimizer"), ("bf16", "optimizer")]
    return "\n  ".join(["rounded parameters"] + [check_strategy(case, work / "plain", work / f"{kind}-{strategy}", kind, strategy, device)
                                                  for kind, strategy in settings[:2 if a.stubs else None]])


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--stubs", {}), success="holds:")
