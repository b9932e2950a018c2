"""Checks the communication reports of a plan whose axis `fsdp` leaves the node (the first file) and stays within it: the terms of a critical
path are its sum, and the steps differ by what compute waits for.

    check_machine.py NARROW WIDE
"""
import pathlib
import re
import sys


def step(path):
    text = pathlib.Path(path).read_text()
    total, terms = re.search(r"@step\n(?:.*\n)*?  critical path ([\d.]+) ms: (.*)", text).groups()
    terms = {name: float(ms) for name, ms in re.findall(r"(\w+) ([\d.]+)", terms)}
    assert abs(float(total) - sum(terms.values())) < 0.002 * len(terms), (total, terms)
    predicted = float(re.search(r"predicted step ([\d.]+) ms", text)[1])
    assert abs(predicted - float(total)) <= 0.001 * predicted, (predicted, total)
    return float(total), terms


(narrow, far), (wide, near) = map(step, sys.argv[1:])
assert narrow > wide and far["fsdp"] > near["fsdp"] and far["compute"] == near["compute"]
