#!/usr/bin/env python3
"""Checks that the runner rejects wrong runs: it compares made-up metrics with a fixture's trajectory.

usage: e2e held --build DIR

The trajectory itself passes. A loss or norm that is NaN, infinite or off by ten bars in one step is rejected, and so is a step that is
missing or duplicated. No script of test/ takes the largest difference by max(), which can miss a NaN.
"""
import copy
import json
import math
import re

from runner import LOSS, MODELS, NORM, Case, Deviates, largest, main


def passes(case, folder, lines):
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        case.check_metrics(folder)
    except Deviates:
        return False
    return True


def lose_nan():
    """Lines of the scripts of test/ that keep the largest difference by max()."""
    found = re.compile(r"(?<![.\w])max\((?:worst\b[\w\[\]]*, [^(]|abs\()")
    for path in sorted(MODELS.parent.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found.search(line):
                yield f"{path.relative_to(MODELS.parent)}:{number}: use largest() of runner.py: {line.strip()}"


def check(a, work):
    case = Case(a.build, MODELS / "gpt2")
    steps = [{"step": i, "loss": s["loss"], "grad_norm": s["grad_norm"]} for i, s in enumerate(case.trajectory["steps"])]
    if not passes(case, work / "same", steps):
        raise Deviates("the trajectory itself is refused")
    count = 0
    for index in (0, len(steps) // 2, len(steps) - 1):
        wrong = [("loss", value) for value in (math.nan, math.inf, steps[index]["loss"] + 10 * LOSS)]
        wrong += [("grad_norm", value) for value in (math.nan, math.inf, steps[index]["grad_norm"] * (1 + 10 * NORM))]
        for name, value in wrong:
            lines = copy.deepcopy(steps)
            lines[index][name] = value
            if passes(case, work / "wrong", lines):
                raise Deviates(f"nothing noticed {name} {value} in step {index}")
            count += 1
        for lines in (steps[:index] + steps[index + 1:], steps[:index + 1] + steps[index:]):
            if passes(case, work / "wrong", lines):
                raise Deviates(f"nothing noticed that step {index} is missing or there twice")
            count += 1
    if not math.isnan(largest([1.0, math.nan, 2.0])) or largest([1.0, 3.0, 2.0]) != 3.0:
        raise Deviates("largest() overlooks NaN")
    if lost := list(lose_nan()):
        raise Deviates("; ".join(lost))
    return f"{count} wrong runs, all noticed"


main(check)
