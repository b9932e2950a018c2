#!/usr/bin/env python3
"""Compares the losses and gradient norms of two runs.

usage: close.py FIRST SECOND LOSS NORM

FIRST and SECOND are metrics.jsonl of runs of the same steps. LOSS and NORM are the largest relative differences.
"""
import json
import sys


def main():
    first, second = ([json.loads(line) for line in open(name) if '"loss"' in line] for name in sys.argv[1:3])
    steps = [[(line["step"], line["loss"], line["grad_norm"]) for line in lines] for lines in (first, second)]
    assert steps[0] and [s[0] for s in steps[0]] == [s[0] for s in steps[1]], "the runs have other steps"
    for (step, loss, norm), (_, other, again) in zip(*steps):
        assert abs(loss - other) <= float(sys.argv[3]) * abs(loss), f"step {step}: losses {loss} and {other}"
        assert abs(norm - again) <= float(sys.argv[4]) * abs(norm), f"step {step}: gradient norms {norm} and {again}"
    print(len(steps[0]), "steps")


main()
