#!/usr/bin/env python3
"""Steps that f16's loss scaling skips do not count as AdamW steps. The run starts with a loss scale that overflows.

usage: e2e skipped --build DIR --case test/models/gpt2

While steps are skipped, weights and moments keep their bits. Later updates must equal AdamW, computed here in f64 from the moments in the
checkpoint, with bias corrections that count applied updates: m / (1 - beta1^t) and v / (1 - beta2^t), t = 1, 2, 3. (With t counting
all steps the difference would be a factor.) A run that is stopped after the skips and after an update, and resumed, has the bits of an
uninterrupted run. A mutant that applies the updates of skipped steps is noticed.
"""
import numpy as np

from runner import Case, Deviates, compile_changed, expect_deviation, largest, main, metrics, read_safetensors, same_bits, save_safetensors

SCHEDULE = ["--schedule", "constant"]
TYPES = ["--param-dtype", "f16"]


def state_of(out, step):
    """The content of a full checkpoint: {role/name: array}."""
    folder = out / "checkpoints" / f"step-{step:08d}"
    state = read_safetensors(folder / "optimizer.safetensors")
    weights = read_safetensors(folder / "model.safetensors")
    return {**state, **{"param/" + name: weights[name] for name in {key.split("/", 1)[1] for key in state} if name in weights}}


def split(state):
    roles = {}
    for key, value in state.items():
        role, name = key.split("/", 1)
        roles.setdefault(role, {})[name] = value.astype(np.float64)
    return roles


def check_update(t, old, new, optimizer):
    """The largest difference from AdamW's t-th update, relative to the learning rate."""
    lr, (b1, b2) = optimizer["lr"], optimizer["betas"]
    worst = 0.0
    for name, weight in new["param"].items():
        m, v = new["moment1"][name], new["moment2"][name]
        before = old["param"][name]
        # Weight decay applies to a whole parameter or not at all.
        step = lr * (m / (1 - b1 ** t)) / (np.sqrt(v / (1 - b2 ** t)) + optimizer["eps"])
        gaps = [np.abs(weight - (before * (1 - lr * decay) - step)).max() for decay in (optimizer["weight_decay"], 0.0)]
        worst = largest([worst, min(gaps) / lr])
    return worst


def train(case, program, out):
    """Trains and checks which steps are skipped, and that these change nothing. Returns their number and the state after each step."""
    case.train(program, out, flags=[*SCHEDULE, "--checkpoint", "full", "--save-every", "1", "--keep", "100"])
    skipped = [line["step"] for line in metrics(out) if line.get("skipped")]
    if not skipped or skipped != list(range(len(skipped))) or len(skipped) > case.steps - 4:
        raise Deviates(f"skipped {skipped}")
    first = len(skipped)
    states = [split(state_of(out, step)) for step in range(1, first + 4)]  # after `step` steps
    for number in range(1, first):
        for role in ("param", "moment1", "moment2"):
            for name, value in states[0][role].items():
                if not np.array_equal(value, states[number][role][name]):
                    raise Deviates(f"{role} of {name} changes in a step that is skipped")
    if any(value.any() for value in states[first - 1]["moment1"].values()):
        raise Deviates("moments are not zero after skipped steps")
    return first, states


def always_updates(program):
    """The text of a planned program with a constant in place of `loss and norm are finite`."""
    return program.with_lines({op: f"{op.results[0].name} = nn.constant dense<true> : tensor<i1>"
                               for op in program.ops("nn.and") if op.results[0].type == "tensor<i1>"})


def check_mutant(case, work):
    compile_changed(case, work / "ir", work / "mutant", "none", 1, TYPES, always_updates)
    expect_deviation(lambda: train(case, work / "mutant", work / "updated"), "that skipped steps update", "skipped")


def check(a, work):
    case = Case(a.build, a.case)
    # One row of two tokens: a mean over few labels has large gradients.
    batches = read_safetensors(case.batches)
    save_safetensors(work / "batches.safetensors", {name: value[:, :1, :2] for name, value in batches.items()})
    case.batches = work / "batches.safetensors"
    program, out = work / "train", work / "whole"
    case.shalec(program, "none", 1, TYPES)
    first, states = train(case, program, out)
    found = []
    for t in (1, 2, 3):
        old, new = states[first + t - 2], states[first + t - 1]
        gap = check_update(t, old, new, case.trajectory["optimizer"])
        wrong = check_update(t + first, old, new, case.trajectory["optimizer"])
        found.append(f"{gap:.1e} (by steps {wrong:.1e})")
        if not gap <= 1e-3 or not wrong > 10 * gap:
            raise Deviates(f"update {t} is off by {gap:.2e} of the learning rate, {wrong:.2e} where t counts steps")
    for stop in (first, first + 2):
        parts = work / f"parts{stop}"
        case.train(program, parts, flags=[*SCHEDULE, "--stop-after", stop])
        case.train(program, parts, flags=[*SCHEDULE, "--resume", "must"])
        same_bits(out, parts, f"a run at once and one resumed after step {stop}")
    check_mutant(case, work)
    return f"{first} skipped steps; updates 1, 2, 3 off by {', '.join(found)} of the learning rate; resumed to the bit"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="skips:")
