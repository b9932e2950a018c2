"""Gives the check of the suite's times (tools/scripts/times) measurements that it must accept or refuse: times.py SCRIPT."""
import importlib.machinery
import importlib.util
import random
import sys

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("times", sys.argv[1])
times = importlib.util.module_from_spec(importlib.util.spec_from_loader("times", loader))
loader.exec_module(times)

rng = random.Random(0)
record = {f"test-{i}": rng.expovariate(1 / 7) for i in range(260)} | {times.REFERENCE: 0.5}
sum_of_all = times.total(record)


def noisy(factor, noise):
    """A run on another machine: each time differs by up to `noise`."""
    return {name: factor * time * rng.uniform(1 - noise, 1 + noise) for name, time in record.items() if name != times.REFERENCE} | {
        times.REFERENCE: factor * record[times.REFERENCE]}


large = max(record, key=record.get)
CASES = [  # what, a run, whether it passes
    ("the same times", record, True),
    ("a machine of half the speed", noisy(2, 0), True),
    ("noise of 25 % in each test", noisy(1, 0.25), True),
    ("a reference that is off by 15 %", {**noisy(1.5, 0.1), times.REFERENCE: 0.75 * 0.87}, True),
    ("new tests of 4 %", {**noisy(2, 0), "new": 2 * 0.04 * sum_of_all}, True),
    ("new tests of 6 %", {**noisy(2, 0), "new": 2 * 0.06 * sum_of_all}, False),
    ("one test that grows by 6 % of all", {**noisy(0.5, 0), large: 0.5 * (record[large] + 0.06 * sum_of_all)}, False),
    ("everything slower by a quarter, but for the reference", {**noisy(1.25, 0), times.REFERENCE: 0.5}, False),
    ("a test for one that is gone", {name: time for name, time in record.items() if name != large} | {"new": 0.06 * sum_of_all}, False)]
for what, now, right in CASES:
    if times.passes(record, now) != right:
        sys.exit(f"{what}: growth of {times.growth(record, now)} {'does not pass' if right else 'passes'}")
if times.grown(record, CASES[6][1])[0] != large:
    sys.exit("the test that grew is not the first of those that are measured again")
print(len(CASES), "cases")
