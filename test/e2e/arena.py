#!/usr/bin/env python3
"""The arena is at most 1.05 times the largest sum of bytes that are live at once: every fixture, each strategy, with and
without recomputation.

usage: arena.py --build DIR
"""
import re

from runner import MODELS, Case, Deviates, main

BAR = 1.05
PLACES = "at the arena's peak"


def check(a, work):
    worst, compiled = (1, ""), 0
    for name, most in (("gpt2", 4), ("llama", 4), ("plain", 3)):
        case = Case(a.build, MODELS / name)
        for shard, ranks in (("none", 1), ("optimizer", 2), ("grad", 2), ("full", 2), ("full", most)):
            for recompute in ("none", "selective", "block"):
                said = case.shalec(work / "step.o", shard, ranks, ["--emit", "object", "--recompute", recompute])
                live = sum(int(size) for size, what in re.findall(r"^  \w+ +(\d+)  (.*)$", said, re.M) if PLACES in what)
                gaps = sum(int(size) for size, what in re.findall(r"^  \w+ +(\d+)  (.*)$", said, re.M) if what == "gaps of the arena")
                if not live:
                    raise Deviates("the summary has no line of the arena")
                worst = max(worst, ((live + gaps) / live, f"{name} {shard} {ranks} ranks, recompute {recompute}"))
                compiled += 1
    if worst[0] > BAR:
        raise Deviates(f"the arena of {worst[1]} is {worst[0]:.3f} times what is live")
    return f"{compiled} programs; at most {worst[0]:.4f} times what is live ({worst[1]})"


if __name__ == "__main__":
    main(check, success="arena:")
