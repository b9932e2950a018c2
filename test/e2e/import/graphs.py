#!/usr/bin/env python3
"""Draws ONNX graphs of 5 to 30 operators from a seed and compares their outputs with ONNX Runtime's, interpreted and compiled.

usage: e2e graphs --build DIR [--count 2000] [--seed 0] [--jobs 2] [--together 8] [--done FILE] [--only N,..] [--keep FOLDER] [--verbose]

Needs a Python with onnx and onnxruntime. Each node is evaluated when it is drawn. It is dropped if its values are large, or change much
when its operands change a little: two right implementations would differ. The graph must be valid by ONNX's checker. It is right if all
its outputs are within 1e-4 (relative to values above 1) of ONNX Runtime's; it is refused if the compiler or the program ends with 64 or 65
and one message. Refusals are counted by operator and reason. The test fails if a graph is wrong, crashes, hangs or ends with another
code, or if more than 5 % are refused or left out. Left out are graphs that ONNX Runtime does not load.

Up to --together graphs of one operator set are compiled as one program; if that is not right, each of them on its own. --done keeps the
results of an interrupted run: graphs in the file do not run again.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from onnxruntime.capi import onnxruntime_pybind11_state as errors

from drawing import drawn, joined, open_session
from probe import REFUSED, RIGHT, Probe

BAR = 1e-4
LEFT = "left out"  # ONNX Runtime computes each node, but does not load the graph: it infers other shapes than it computes


def run(draws, args, folder):
    model, inputs, ends = joined(draws)
    expected = dict(zip(ends, open_session(model).run(ends, inputs)))
    return Probe(args.build, folder).run(model, inputs, expected, BAR, BAR)


def check(seeds, args, folder):
    """Results by seed: kind, message, operators."""
    draws = {seed: drawn(seed, f"g{seed}_") for seed in seeds}
    ops = {seed: [(f"{node.domain}." if node.domain else "") + node.op_type for node in d.nodes] for seed, d in draws.items()}
    results, together = {}, collections.defaultdict(list)
    for seed, d in draws.items():
        try:
            open_session(joined([d])[0])
            together[d.opset].append(seed)
        except (errors.Fail, errors.InvalidGraph) as error:
            results[seed] = (LEFT, str(error).splitlines()[0], ops[seed])
    for group in together.values():
        if len(group) > 1 and run([draws[seed] for seed in group], args, folder / f"{group[0]}-{group[-1]}")[0] == RIGHT:
            results.update((seed, (RIGHT, "", ops[seed])) for seed in group)
        else:
            results.update((seed, (*run([draws[seed]], args, folder / str(seed)), ops[seed])) for seed in group)
    return results


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--together", type=int, default=8)
    p.add_argument("--done")
    p.add_argument("--only", default="")
    p.add_argument("--keep")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    seeds = [int(seed) for seed in args.only.split(",")] if args.only else range(args.seed, args.seed + args.count)
    results, lock = {}, threading.Lock()
    if args.done and pathlib.Path(args.done).exists():
        for line in pathlib.Path(args.done).read_text().splitlines():
            seed, *rest = json.loads(line)
            results[seed] = tuple(rest)
    todo = [seed for seed in seeds if seed not in results]
    # Graphs of a few operator sets: enough of them so that each set has some.
    size = max(1, 4 * args.together if args.together > 1 else 1)

    def one(some):
        found = check(some, args, folder)
        with lock:
            results.update(found)
            if args.done:
                with open(args.done, "a") as file:
                    file.writelines(json.dumps([seed, *result]) + "\n" for seed, result in found.items())

    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.jobs) as pool:
        folder = pathlib.Path(args.keep or temporary)
        list(pool.map(one, [todo[at:at + size] for at in range(0, len(todo), size)]))
    kinds, refusals, used = collections.Counter(), collections.Counter(), collections.Counter()
    for seed in seeds:
        kind, said, ops = results[seed]
        kinds[kind] += 1
        used.update(ops)
        if kind == REFUSED:
            refusals[re.sub(r"tensor<[^>]*>|-?\b\d[\d.]*\b|'[^']*'", "..", re.sub(r"^.*?node '[^']*' \((\w+)\): ", r"\1: ", said))] += 1
        if kind not in (RIGHT, REFUSED, LEFT) or args.verbose:
            print(f"seed {seed}: {kind}: {said}")
    print("operators: " + ", ".join(f"{name} {count}" for name, count in sorted(used.items())))
    print("refused:")
    for text, count in refusals.most_common():
        print(f"  {count:4} {text}")
    print(f"{len(seeds)} graphs of {sum(used.values())} operators of {len(used)} kinds: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    bad = sum(count for kind, count in kinds.items() if kind not in (RIGHT, REFUSED, LEFT))
    sys.exit(1 if bad or kinds[REFUSED] + kinds[LEFT] > 0.05 * len(seeds) else 0)


main()
