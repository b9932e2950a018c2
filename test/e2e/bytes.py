#!/usr/bin/env python3
"""Holds the plan's bytes against design and against the running program, for every strategy.

usage: bytes.py --build DIR --case test/models/gpt2

With P the padded bytes of all parameters (f32) and N ranks, a rank
- keeps, when the update begins, parameters + gradients + optimizer state of: none 4P, optimizer 2P + 2P/N,
  grad P + 3P/N, full 4P/N (docs/architecture.md);
- sends a step: none 2P, optimizer and grad 2P, full P for the reduction and at most 2P for the gathers, each times
  (N-1)/N, and listed scalars; which is what the communicator counts.
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile

import follow


def planned_collectives(text):
    """{kind: (count, bytes)} of a step, as shalec prints them."""
    return {kind: (int(count), int(size)) for count, kind, size in
            re.findall(r"^ +(\d+) (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)$", text, re.M)}


def check_wire(strategy, ranks, whole, plan):
    share = whole * (ranks - 1) // ranks
    scalars = 256 * ranks
    gathered = plan.get("all-gather", (0, 0))[1]
    scattered = plan.get("reduce-scatter", (0, 0))[1]
    reduced = plan.get("all-reduce", (0, 0))[1]
    # An all-reduce rounds each slice up to an element a group.
    holds = {"none": gathered == scattered == 0 and 2 * share <= reduced <= 2 * share + scalars,
             "optimizer": gathered == scattered == share and reduced <= scalars,
             "grad": gathered == scattered == share and reduced <= scalars,
             "full": scattered == share and share <= gathered <= 2 * share and reduced <= scalars}[strategy]
    if not holds:
        raise follow.Deviates(f"{strategy} on {ranks} ranks plans {plan}; parameters have {whole} bytes")


def check_rest(strategy, ranks, whole, table):
    got = {category: sum(size for name, size in rows) for category, rows in table.items()}
    want = {"none": (whole, whole, 2 * whole), "optimizer": (whole, whole, 2 * whole // ranks),
            "grad": (whole, whole // ranks, 2 * whole // ranks), "full": (whole // ranks, whole // ranks, 2 * whole // ranks)}[strategy]
    have = tuple(got.get(category, 0) for category in ("parameters", "gradients", "optimizer"))
    if have != want:
        raise follow.Deviates(f"{strategy} on {ranks} ranks holds parameters, gradients, optimizer state of {have}; {want} expected")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--case", required=True)
    a = p.parse_args()
    case = pathlib.Path(a.case)
    trajectory = json.loads((case / "trajectory.json").read_text())
    batches = case / "batches.safetensors"
    a.flags = ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            for a.shard, a.ranks in [(s, n) for s in ("none", "optimizer", "grad", "full") for n in (2, 4)]:
                program = f"{folder}/train-{a.shard}-{a.ranks}"
                said = follow.run([f"{a.build}/bin/shalec", str(case / "model.onnx"), "-o", program,
                                   *follow.compile_flags(case, trajectory, follow.read_safetensors(batches), a)], "shalec").stdout
                plan = planned_collectives(said)
                described = follow.run([program, "--describe"], "--describe").stdout
                table = {}
                for size, category, name in re.findall(r"^ +(?:state|arena) +\d+ +(\d+) +\d+ +(\w+) +(.*)$", described, re.M):
                    table.setdefault(category, []).append((name, int(size)))
                at_rest = sum(int(size) for size in re.findall(r"^ +state +\d+ +(\d+) +\d+ +parameters ", described, re.M))
                whole = at_rest * (a.ranks if a.shard == "full" else 1)
                check_wire(a.shard, a.ranks, whole, plan)
                check_rest(a.shard, a.ranks, whole, table)
                out = pathlib.Path(folder) / f"run-{a.shard}-{a.ranks}"
                follow.run([program, *follow.run_flags(trajectory, batches, 3, out, a.ranks)], "the program")
                counted = {json.loads(line)["comm_bytes"] for line in (out / "metrics.jsonl").open()}
                total = sum(size for _, size in plan.values())
                if counted != {total}:
                    raise follow.Deviates(f"{a.shard} on {a.ranks} ranks sent {counted} bytes a step; the plan says {total}")
        print("bytes: at rest and on the wire as designed, and as counted")
        return 0
    except follow.Deviates as error:
        print("deviates:", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
