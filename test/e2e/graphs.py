#!/usr/bin/env python3
"""Draws ONNX graphs of 5 to 30 operators from a seed and compares their outputs with ONNX Runtime's, interpreted and compiled.

usage: graphs.py --build DIR [--count 2000] [--seed 0] [--jobs 2] [--only N,..] [--keep FOLDER] [--verbose]

Needs a Python with onnx and onnxruntime. Each node is evaluated when it is drawn. It is dropped if its values are large, or change much
when its operands change a little: two right implementations would differ. The graph must be valid by ONNX's checker. It is right if all
its outputs are within 1e-4 (relative to values above 1) of ONNX Runtime's; it is refused if the compiler or the program ends with 64 or 65
and one message. Refusals are counted by operator and reason. The test fails if a graph is wrong, crashes, hangs or ends with another
code, or if more than 5 % are refused.
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from drawing import drawn, open_session
from probe import REFUSED, RIGHT, Probe

BAR = 1e-4


def check(seed, args, folder):
    d = drawn(seed)
    model, inputs, ends = d.model()
    expected = dict(zip(ends, open_session(model).run(ends, inputs)))
    kind, said = Probe(args.build, folder / str(seed)).run(model, inputs, expected, BAR, BAR)
    ops = [(f"{node.domain}." if node.domain else "") + node.op_type for node in d.nodes]
    return kind, said, ops


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--only", default="")
    p.add_argument("--keep")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    seeds = [int(seed) for seed in args.only.split(",")] if args.only else range(args.seed, args.seed + args.count)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.jobs) as pool:
        folder = pathlib.Path(args.keep or temporary)
        results = list(pool.map(lambda seed: check(seed, args, folder), seeds))
    kinds, refusals, used = collections.Counter(), collections.Counter(), collections.Counter()
    for seed, (kind, said, ops) in zip(seeds, results):
        kinds[kind] += 1
        used.update(ops)
        if kind == REFUSED:
            refusals[re.sub(r"tensor<[^>]*>|-?\b\d[\d.]*\b|'[^']*'", "..", re.sub(r"^.*?node '[^']*' \((\w+)\): ", r"\1: ", said))] += 1
        if kind not in (RIGHT, REFUSED) or args.verbose:
            print(f"seed {seed}: {kind}: {said}")
    print("operators: " + ", ".join(f"{name} {count}" for name, count in sorted(used.items())))
    print("refused:")
    for text, count in refusals.most_common():
        print(f"  {count:4} {text}")
    print(f"{len(results)} graphs of {sum(used.values())} operators of {len(used)} kinds: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    bad = sum(count for kind, count in kinds.items() if kind not in (RIGHT, REFUSED))
    sys.exit(1 if bad or kinds[REFUSED] > 0.05 * len(results) else 0)


main()
