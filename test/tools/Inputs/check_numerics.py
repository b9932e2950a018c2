"""Reads a numerics report in JSON: every trained parameter must have matmuls or sums before its accumulator.

    check_numerics.py NUMERICS.json
"""
import json
import sys

parameters = json.load(open(sys.argv[1]))
assert len(parameters) == 28, len(parameters)
for p in parameters:
    assert p["kept"] == "f32" and p["used"] and p["gradient"], p["name"]
    assert all(s["accumulated"] == "f32" and s["operands"] and s["times"] > 0 for s in p["gradient"]), p["name"]
    assert "nn.accumulate" not in {s["op"] for s in p["gradient"]}, p["name"]
    sums = [step for step in p["then"] if step["op"] == "accumulate"]
    assert sums == [{"op": "accumulate", "type": "f32", "added": "f32", "kept": "f32", "times": 1}], p["then"]
    assert "reduce" not in {step["op"] for step in p["then"]} and p["update"] == {"computed": "f32", "state": ["f32", "f32"]}, p["name"]
names = {p["name"] for p in parameters}
assert "transformer.h.1.mlp.c_fc.weight" in names
