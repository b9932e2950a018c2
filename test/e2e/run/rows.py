#!/usr/bin/env python3
"""A run on token files has the bits of a run on the same rows from a .safetensors file.

usage: e2e rows --build DIR [--models gpt2,plain] [--ranks 1,2,4]

numpy computes the rows here, from the order that runtime/data/Order.h describes. Covers uint8, uint16, uint32, llm.c's and .npy files;
labels bound to tokens (gpt2) and to tokens+1 (plain); shuffled and in order; 1, 2 and 4 ranks; several passes over the data. On one rank also
the other integer types, several files, bytes of a text, and several micro-batches. Loss and gradient norm of each step must have the same bits.
"""
import os

import numpy as np

from runner import MODELS, Case, Deviates, main, metrics, save_safetensors, series

BATCH, STEPS, SEED = 4, 4, 11
QUIET = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # steps are so small that threads mostly wait
EVERYWHERE = ("uint8.bin", "uint16.bin", "uint32.bin", "llmc16.bin", "u2.npy")
WORD = (1 << 64) - 1
# model: (sequence, offset of labels, names of tokens and labels, flags)
MODELS_OF = {"gpt2": (8, 0, ("input_ids", "labels"), ["--dim", "sequence=8"]), "plain": (48, 1, ("tokens", "targets"), ["--loss", "cross-entropy:scores,targets"])}


def mix(x):
    x = (x + 0x9e3779b97f4a7c15) & WORD
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & WORD
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & WORD
    return x ^ x >> 31


def permutation(seed, epoch, size):
    """The window of each position of an epoch."""
    bits = 1
    while 4 ** bits < size:
        bits += 1
    key, half = mix(mix(seed) ^ epoch), 1 << bits

    def once(value):
        left, right = divmod(value, half)
        for turn in range(4):
            left, right = right, left ^ mix(key ^ turn << 56 ^ right) % half
        return left * half + right

    found = []
    for position in range(size):
        value = once(position)
        while value >= size:
            value = once(value)
        found.append(value)
    return found


def rows_of(files, length, shift, count, shuffled):
    """Tokens and labels of the first `count` rows: windows of `length` tokens, file by file, none of which crosses the end of a file."""
    windows = [(file, at) for file in files for at in range(0, len(file) - length - shift + 1, length)]
    order = []
    for epoch in range(count // len(windows) + 1):
        places = permutation(SEED, epoch, len(windows)) if shuffled else list(range(len(windows)))
        if sorted(places) != list(range(len(windows))):
            raise Deviates(f"the order of {len(windows)} windows is not a permutation")
        order += places
    picked = [windows[place] for place in order[:count]]
    return [np.stack([file[at + more:at + more + length] for file, at in picked]).astype(np.int64) for more in (0, shift)]


def header(magic, version, count):
    words = np.zeros(256, "<i4")
    words[:3] = magic, version, count
    return words.tobytes()


def write_files(work, tokens):
    """Each kind of file: (name, value of --data, flags, tokens of the files)."""
    kinds = []

    def add(name, data, *flags):
        path = work / name
        path.write_bytes(data)
        kinds.append((name, path, flags, [tokens]))

    for kind in ("uint8", "uint16", "uint32", "int32", "int64"):
        add(f"{kind}.bin", tokens.astype(kind).tobytes(), *(["--token-dtype", kind] if kind != "uint16" else []))
    add("llmc16.bin", header(20240520, 1, len(tokens)) + tokens.astype("<u2").tobytes())
    add("llmc32.bin", header(20240801, 7, len(tokens)) + tokens.astype("<u4").tobytes())
    for kind in ("u1", "<u2", "<u4", "<i8"):
        path = work / f"{kind[-2:]}.npy"
        np.save(path, tokens.astype(kind))
        kinds.append((path.name, path, (), [tokens]))
    cut = len(tokens) // 3 + 1
    parts = [tokens[:cut], tokens[:5], tokens[cut:]]  # the second file is shorter than a window
    for index, part in enumerate(parts):
        (work / f"part{index}.bin").write_bytes(part.astype("<u2").tobytes())
    kinds.append(("three files", ",".join(str(work / f"part{index}.bin") for index in range(3)), (), parts))
    add("text", tokens.astype(np.uint8).tobytes(), "--token-dtype", "uint8")
    return kinds


class Runs:
    def __init__(self, build, name, work):
        self.case = Case(build, MODELS / name)
        self.length, self.shift, self.names, self.flags = MODELS_OF[name]
        self.name, self.work, self.count = name, work / name, 0
        self.work.mkdir()

    def compile(self, ranks, accumulate=1):
        program = self.work / f"{self.name}-{ranks}-{accumulate}"
        self.case.model_flags = lambda sizes=None: ["--dim", f"batch={BATCH}", *self.flags]
        self.case.policy_flags = lambda: ["--optimizer", "adamw", "--accumulate", accumulate]
        self.case.shalec(program, "full" if ranks > 1 else "none", ranks)
        return program

    def train(self, program, data, flags):
        self.count += 1
        out = self.work / f"out{self.count}"
        self.case.batches = data
        self.case.train(program, out, STEPS, ["--schedule", "constant", "--save-every", 0, *flags], QUIET)
        if len(metrics(out)) != STEPS:
            raise Deviates(f"{data}: {len(metrics(out))} steps")
        return series(out)

    def wanted(self, program, files, shuffled, accumulate=1):
        count = STEPS * accumulate * BATCH
        values = rows_of(files, self.length, self.shift, count, shuffled)
        path = self.work / "rows.safetensors"
        save_safetensors(path, {name: value.reshape(STEPS * accumulate, BATCH, self.length) for name, value in zip(self.names, values)})
        return self.train(program, path, [])


def check_runs(runs, program, kinds, what, accumulate=1):
    held, seen = 0, []
    for shuffled in (False, True):
        wanted = {}
        for name, path, flags, files in kinds:
            key = len(files)
            if key not in wanted:
                wanted[key] = runs.wanted(program, files, shuffled, accumulate)
            order = ["--seed", SEED] if shuffled else ["--no-shuffle"]
            got = runs.train(program, path, [*flags, *order])
            if got != wanted[key]:
                at = next(i for i in range(STEPS) if got[i] != wanted[key][i])
                raise Deviates(f"{what}, {name}, {'shuffled' if shuffled else 'in order'}: step {at} has loss and norm {got[at][1:]}, "
                               f"the rows as .safetensors {wanted[key][at][1:]}")
            held += 1
        seen += wanted.values()
    if len({str(one) for one in seen}) != len(seen):
        raise Deviates(f"{what}: different orders give the same result")
    return held


def check(a, work):
    held = 0
    for name in a.models.split(","):
        runs = Runs(a.build, name, work)
        # Nine windows, of which the last one just fits, so one step has rows of two passes over the data.
        tokens = np.random.default_rng(5).integers(0, 256, 9 * runs.length + runs.shift)
        kinds = write_files(runs.work, tokens)
        for ranks in map(int, a.ranks.split(",")):
            some = [kind for kind in kinds if (ranks == 1 and name == "gpt2") or kind[0] in EVERYWHERE]
            held += check_runs(runs, runs.compile(ranks), some, f"{name} on {ranks}")
        held += check_runs(runs, runs.compile(1, 3), kinds[1:2], f"{name} in 3 micro-batches", 3)
    return f"{held} runs on files of tokens have the bits of the same rows"


if __name__ == "__main__":
    main(check, ("--models", {"default": "gpt2,plain"}), ("--ranks", {"default": "1,2,4"}))
