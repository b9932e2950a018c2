#!/usr/bin/env python3
"""Parameters of bf16 without f32 masters, rounded stochastically (--param-rounding stochastic).

usage: e2e rounding --build DIR --case test/models/plain

The batches have two equal rows, so that gradients have the same bits on one rank and on two.

- After a step of an optimizer of each kind, each parameter has the bits that an oracle in numpy gives it: what a run with f32 masters has after that
  step, rounded by the words of Philox-4x32-10 that docs/dialects/nn.md (nn.adamw) describes. Without the flag it is rounded to nearest.
- All strategies on one rank and two, other units and offload give the same bits, and so does a run that is stopped and resumed. Another
  seed gives other bits, and so does the next step.
"""
import numpy as np

from bits import bf16, widened
from runner import Case, Deviates, main, read_program, read_safetensors, run, same_bits, save_safetensors

NONE, STOCHASTIC = ["--param-dtype", "bf16", "--master-dtype", "none"], ["--param-rounding", "stochastic"]
SEED = 7


def philox(counter, key):
    """Philox-4x32-10 of Salmon and others, SC 2011. Words are arrays of uint64 below 2^32."""
    low = np.uint64(0xFFFFFFFF)
    x, key = [np.asarray(word, np.uint64) for word in counter], [int(word) for word in key]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> np.uint64(32)) ^ x[1] ^ np.uint64(key[0]), b & low, (a >> np.uint64(32)) ^ x[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return x


def check_philox():
    """The published vector (Random123, kat_vectors)."""
    words = philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0])
    if [int(word) for word in words] != [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]:
        raise Deviates("the oracle's Philox is wrong")


def rounded(values, first, step):
    """The bits of bf16 that f32 values are rounded to. `first`: the number of the first one."""
    numbers = np.arange(values.size, dtype=np.uint64) + np.uint64(first)
    blocks = numbers // np.uint64(4)
    words = philox([blocks, np.full_like(blocks, 65535 << 16), np.full_like(blocks, step), np.zeros_like(blocks)], [SEED, 0])
    word = np.choose((numbers % np.uint64(4)).astype(int), words)
    flat = values.reshape(-1).astype(np.float64)
    near = values.reshape(-1).view(np.uint32) >> 16  # towards 0
    below, above = (widened(bits.astype(np.uint16)).astype(np.float64) for bits in (near, near + 1))
    share = (flat - below) / (above - below)
    return np.where((word >> np.uint64(16)) + share * 65536 >= 65536, near + 1, near).astype(np.uint16).reshape(values.shape)


class Rounding:
    def __init__(self, a, work):
        self.case, self.work = Case(a.build, a.case), work
        batches = read_safetensors(self.case.batches)
        self.case.batches = work / "batches.safetensors"
        save_safetensors(self.case.batches, {name: np.tile(np.repeat(value[:, :1], 2, axis=1), (3,) + (1,) * (value.ndim - 1))
                                             for name, value in batches.items()})
        self.case.hyper_flags = lambda: ["--lr", self.rate, "--clip-grad-norm", 0, "--seed", self.seed, *self.more]
        self.rate, self.more, self.seed = 1e-2, [], SEED
        self.init = work / "init.safetensors"
        self.program("start", "none", 1, ["--optimizer", "sgd"])
        self.train("start", 0)
        start = read_safetensors(work / "run-start/model.safetensors")
        self.start = {name: widened(bf16(value)) for name, value in start.items()}
        save_safetensors(self.init, self.start)
        self.more = ["--init", self.init]

    def program(self, name, shard, ranks, flags):
        self.case.shalec(self.work / name, shard, ranks, flags, {"batch": 2})

    def train(self, name, steps, out=None, flags=()):
        out = self.work / (out or f"run-{name}")
        self.case.train(self.work / name, out, steps, ["--schedule", "constant", *flags])
        return out

    def weights(self, name):
        return read_safetensors(self.work / f"run-{name}/model.safetensors")

    def first_numbers(self, alignment):
        """The number of each parameter's first element: in the order of the states, at multiples of the alignment."""
        case, path = self.case, self.work / "step.mlir"
        run([case.bin / "shalec", case.folder / case.model, *case.quiet, *case.model_flags({"batch": 2}), "--emit", "nn", "-o", path], "shalec")
        numbers, end = {}, 0
        for name, state in read_program(case.bin, path).symbols("nn.state").items():
            if state.word("role") == "param":
                end = -(-end // alignment) * alignment
                numbers[name] = end
                end += int(np.prod(state.attributes["type"]["shape"], dtype=np.int64))
        return numbers

    def oracle(self, optimizer, shard, ranks):
        """Compares a step with that of f32 masters and the oracle. Returns how many elements are rounded otherwise than to nearest."""
        names = {"masters": [], "nearest": NONE, "none": [*NONE, *STOCHASTIC]} if optimizer == "sgd" else {"masters": [], "none": [*NONE, *STOCHASTIC]}
        for name, flags in names.items():
            self.program(f"{optimizer}-{name}", shard, ranks, ["--optimizer", optimizer, "--param-dtype", "bf16", *flags[2:]])
            self.train(f"{optimizer}-{name}", 1)
        numbers = self.first_numbers(256 if optimizer == "adamw8bit" else 32)  # that has state in blocks of 256
        exact, got = self.weights(f"{optimizer}-masters"), self.weights(f"{optimizer}-none")
        if set(numbers) != set(got):
            raise Deviates(f"parameters {sorted(set(numbers) ^ set(got))} are in the IR or the file only")
        moved = 0
        for name, value in got.items():
            want, near = widened(rounded(exact[name], numbers[name], 0)), widened(bf16(exact[name]))
            if not np.array_equal(value, want):
                raise Deviates(f"{optimizer}, {name}: {np.count_nonzero(value != want)} of {value.size} elements are not the oracle's")
            if "nearest" in names and not np.array_equal(self.weights(f"{optimizer}-nearest")[name], near):
                raise Deviates(f"{name}: not rounded to nearest without --param-rounding")
            moved += np.count_nonzero(value != near)
        if moved == 0:
            raise Deviates(f"{optimizer}: no element is rounded otherwise than to nearest")
        return moved

    def oracles(self):
        ways = [("sgd", "none", 1), ("lion", "full", 2), ("lamb", "full", 2), ("adafactor", "grad", 2), ("muon", "full", 2), ("adamw8bit", "optimizer", 2)]
        return ", ".join(f"{way[0]} {self.oracle(*way)}" for way in ways) + " elements are rounded otherwise than to nearest"

    def meshes(self):
        sgd = ["--optimizer", "sgd", *NONE, *STOCHASTIC]
        self.train("sgd-none", 3)
        ways = [("none", 2, []), ("optimizer", 2, []), ("grad", 2, []), ("full", 2, []), ("full", 2, ["--unit", "size:1"]),
                ("full", 2, ["--offload", "optimizer"]), ("none", 1, ["--unit", "size:1000000"])]
        for number, (shard, ranks, flags) in enumerate(ways):
            self.program(f"way-{number}", shard, ranks, [*sgd, *flags])
            self.train(f"way-{number}", 3)
            got, want = self.weights(f"way-{number}"), self.weights("sgd-none")
            for name, value in want.items():
                if not np.array_equal(got[name], value):
                    raise Deviates(f"{shard} on {ranks} {flags}: {name} has {np.count_nonzero(got[name] != value)} other elements than one rank")
        self.seed = SEED + 1
        self.train("sgd-none", 3, "other-seed")
        self.seed = SEED
        other = read_safetensors(self.work / "other-seed/model.safetensors")
        if all(np.array_equal(value, other[name]) for name, value in self.weights("sgd-none").items()):
            raise Deviates("another seed gives the same bits")
        return f"{len(ways)} ways have the bits of one rank"

    def resume(self):
        self.more, init = [], self.more
        self.train("way-3", 6, "straight", init)
        self.train("way-3", 6, "parts", [*init, "--stop-after", 3])
        self.train("way-3", 6, "parts", ["--resume", "must"])
        same_bits(self.work / "straight", self.work / "parts", "a run at once and one that is resumed")
        self.more = init


def check(a, work):
    check_philox()
    rounding = Rounding(a, work)
    found = [rounding.oracles(), rounding.meshes()]
    rounding.resume()
    return "; ".join(found)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
