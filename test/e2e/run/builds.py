#!/usr/bin/env python3
"""Compares the bits of programs of two builds: a change of structure must not change what programs compute.

usage: e2e builds --build DIR --before DIR [--steps 3]

The second DIR is the build folder of another commit, in its own clone. Compiles the fixtures with each strategy and number of ranks of gpu_matrix.py, for the
CPU, with both compilers: with no other flag, with --recompute block and with --offload all. Losses, gradient norms and weights must have the
same bits.
"""
from gpu_matrix import CASES, groups
from runner import MODELS, Case, main, same_bits

VARIANTS = ([], ["--recompute", "block"], ["--offload", "all"])


def check(a, work):
    count = 0
    for name in CASES:
        builds = {"before": Case(a.before, MODELS / name), "after": Case(a.build, MODELS / name)}
        builds["before"].quiet = []  # an older build may not have the flag
        for shard, ranks, mesh in groups(name):
            for variant in VARIANTS:
                folder = work / str(count)
                folder.mkdir()
                for which, case in builds.items():
                    case.shalec(folder / which, shard, ranks, [*mesh.split(), *variant])
                    case.train(folder / which, folder / f"{which}-run", a.steps)
                same_bits(folder / "before-run", folder / "after-run", f"{name}, {shard} on {ranks} ranks {' '.join(variant)}, before and after,")
                count += 1
    return f"{count} programs of {', '.join(CASES)}, {a.steps} steps"


if __name__ == "__main__":
    main(check, ("--before", {"required": True}), ("--steps", {"type": int, "default": 3}), success="same bits:")
