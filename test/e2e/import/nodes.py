#!/usr/bin/env python3
"""Runs the node tests of the ONNX project (onnx.backend.test) whose operators docs/status.md lists, interpreted and compiled.

usage: e2e nodes --build DIR [--only REGEX] [--jobs 2] [--least N] [--keep FOLDER] [--verbose]

Needs a Python with onnx. A case is right if each output is within the case's own tolerance, both in the interpreter and in a compiled
program; it is refused if the compiler or the program ends with 64 or 65 and one message. Refusals are counted by operator and reason.
The test fails if a case is wrong, crashes, hangs or ends with another code, or if fewer than --least cases are right.
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from onnx import numpy_helper

from probe import REFUSED, RIGHT, Probe
from runner import ROOT

STATUS = ROOT / "docs" / "status.md"
# numpy computes their expected outputs in f32: 1.9e-7 where the transform of the inputs in f64 is 0, and the tolerance is 1e-7.
ROUNDED = re.compile(r"test_dft_inverse(_opset19)?$")
# Their expected outputs come from numpy's random numbers.
RANDOM = re.compile(r"test_training_dropout(?!_zero_ratio)|test_bernoulli")


def supported():
    """(domain, operator) of each row of docs/status.md."""
    rows = re.findall(r"^\| (?:([\w.]+)\.)?(\w+) \| \d+ \|", STATUS.read_text(), re.M)
    return {(domain, name) for domain, name in rows}


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def cases(only):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        known, found, left = supported(), [], collections.Counter()
        for case in collect_testcases(None):
            own = {(f.domain, f.name) for f in case.model.functions}
            missing = [n.op_type for n in nodes_of(case.model.graph) if (n.domain.replace("ai.onnx", ""), n.op_type) not in known | own]
            if not re.search(only, case.name):
                continue
            if missing:
                left[missing[0]] += 1
            elif ROUNDED.search(case.name):
                left["expected outputs that are rounded"] += 1
            elif RANDOM.search(case.name):
                left["random numbers"] += 1
            else:
                found.append(case)
    return found, left


def tensors(infos, values):
    """Arrays by name; None if one is no tensor of numbers (a sequence, an optional, strings)."""
    arrays = {}
    for info, value in zip(infos, values):
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if not isinstance(value, (np.ndarray, np.generic, int, float)):
            return None
        arrays[info.name] = np.asarray(value)
        if arrays[info.name].dtype.kind in "OSUc":
            return None
    return arrays


def run(case, args, folder):
    inputs, outputs = case.data_sets[0]
    arrays = tensors(case.model.graph.input, inputs)
    expected = tensors(case.model.graph.output, outputs)
    if arrays is None or expected is None:
        return REFUSED, "an input or output of the graph is no tensor of numbers"
    try:
        return Probe(args.build, folder / case.name).run(case.model, arrays, expected, case.rtol, case.atol)
    except KeyError as kind:  # a type that the data files of programs do not have
        return REFUSED, f"inputs of type {kind}"


def reason(said):
    """A message without the numbers of the case."""
    return re.sub(r"tensor<[^>]*>|\[[\d, ]*\]|-?\b\d[\d.e+-]*\b|'[^']*'", "..", re.sub(r"^.*?node '[^']*' \((\w+)\): ", r"\1: ", said))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--least", type=int, default=0)
    p.add_argument("--keep")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    found, left = cases(args.only)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.jobs) as pool:
        folder = pathlib.Path(args.keep or temporary)
        results = list(pool.map(lambda case: run(case, args, folder), found))
    kinds, refusals, modes = collections.Counter(), collections.Counter(), collections.Counter()
    for case, (kind, said) in zip(found, results):
        kinds[kind] += 1
        if kind == REFUSED:
            refusals[reason(said)] += 1
        if kind == RIGHT:
            modes[said or "all are inputs"] += 1
        if kind not in (RIGHT, REFUSED) or args.verbose:
            print(f"{case.name}: {kind}: {said}")
    print("refused:")
    for text, count in refusals.most_common():
        print(f"  {count:4} {text}")
    print("left out, by the first operator that is not read: " + ", ".join(f"{name} {count}" for name, count in left.most_common()))
    print(f"{len(found)} cases: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) + "; right: " + ", ".join(f"{count} {mode}" for mode, count in modes.most_common()))
    bad = sum(count for kind, count in kinds.items() if kind not in (RIGHT, REFUSED))
    if kinds[RIGHT] < args.least:
        print(f"fewer than {args.least} cases are right")
    sys.exit(1 if bad or kinds[RIGHT] < args.least else 0)


main()
