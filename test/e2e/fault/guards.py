#!/usr/bin/env python3
"""What guards a long run, with a compiled program of a fixture on two ranks.

usage: e2e guards --build DIR --case test/models/gpt2

- The bytes of the copy of the state that shalec states are those that the program takes.
- A run with --check-replicas, --skip-spikes and saves in the background has the bits of one without.
- A parameter that is not finite is named by the message of exit code 93, with the node that reads it. So is the node that makes Inf of
  finite values.
- --skip-spikes 4 leaves out exactly the steps whose norm is above four times the running mean, which is computed here again.
"""
import re
import subprocess

import numpy as np

from runner import Case, Deviates, main, metrics, read_safetensors, run, same_bits, save_safetensors


def fails(case, program, weights, out, expected):
    """Trains from `weights`. The run must end with 93 and a message that matches. Returns what it says of the cause."""
    save_safetensors(out.with_suffix(".safetensors"), weights)
    result = subprocess.run([str(word) for word in (program, "--data", case.batches, "--steps", 4, *case.hyper_flags(), "--out", out, "--init",
                             out.with_suffix(".safetensors"))], capture_output=True, text=True, timeout=300)
    found = re.search(r"The first value that is not finite: (.*)", result.stderr)
    if result.returncode != 93 or not found or not re.search(expected, found.group(1)):
        raise Deviates(f"expected 93 and '{expected}', got {result.returncode}: {result.stderr[-800:]}")
    return found.group(1)


def check_spikes(case, program, out):
    """Returns the number of steps that were left out."""
    said = run([program, "--data", case.batches, "--epochs", 2, *case.hyper_flags(), "--skip-spikes", 4, "--out", out], "the program").stdout
    mean, count, skipped = 0.0, 0, []
    for line in metrics(out):
        limit = np.float32(4 * mean) if count >= 20 else np.float32(np.inf)
        norm = np.float32(line["grad_norm"])
        if (norm > limit) != line["skipped"]:
            raise Deviates(f"step {line['step']} of norm {norm} has the limit {limit}: {line}")
        skipped += [line["step"]] * line["skipped"]
        count += 1
        mean += (float(min(norm, limit)) - mean) / min(count, 50)
    if not 0 < len(skipped) < 20 or f"spikes: {len(skipped)} of {count} updates were left out" not in said:
        raise Deviates(f"steps {skipped} were left out: {said[-300:]}")
    return len(skipped)


def check(a, work):
    case = Case(a.build, a.case)
    program = work / "train"
    stated = re.search(r"^saves +\+ (\d+) bytes", case.shalec(program, "optimizer", 2), re.M).group(1)
    plain, guarded = work / "plain", work / "guarded"
    case.train(program, plain)
    said = case.train(program, guarded, flags=["--check-replicas", 3, "--skip-spikes", 1000, "--save-every", 4, "--async-save", "true"]).stdout
    same_bits(plain, guarded, "a run with and without guards")
    if f"the copy of the state takes {stated} bytes" not in said:
        raise Deviates(f"shalec states a copy of {stated} bytes, the program: {said}")
    weights = {name: np.array(value) for name, value in read_safetensors(plain / "model.safetensors").items()}
    name = next(name for name in weights if re.search(r"1\.mlp\.c_fc\.weight$", name))
    norm = next(name for name in weights if re.search(r"1\.ln_2\.weight$", name))
    poisoned = dict(weights, **{name: weights[name].copy()})
    poisoned[name].reshape(-1)[7] = np.nan
    causes = [fails(case, program, poisoned, work / "poisoned", rf"^on rank \d, node '.+' \(.+\) gave NaN, and parameter '{re.escape(name)}'")]
    large = dict(weights, **{norm: np.full_like(weights[norm], 3e38)})
    causes.append(fails(case, program, large, work / "large", r"^on rank \d, node '.+' \(.+\) gave -?(Inf|NaN), and all that it read was finite"))
    return f"a copy of {stated} bytes; {check_spikes(case, program, work / 'spikes')} of 40 updates left out; " + "; ".join(causes)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
