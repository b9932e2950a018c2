#!/usr/bin/env python3
"""With sequence parallelism a rank's memory grows in proportion to its examples, whether tensor ranks divide examples or positions.

usage: e2e growth --build DIR

Plans two layers of Llama 70B on 8 tensor ranks with 1, 2, 4 and 8 examples per data rank and recomputed blocks. Exporters join examples and
positions to rows: the ranks divide the positions of each of up to 4 examples, and 8 examples. Each example more adds as many bytes to the
arena, within 25 %, and at most 40 % of what it adds without sequence parallelism. The largest activation that is kept for the backward pass is
1/8 of the residual stream.
"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Deviates, main, run

sys.path.append(str(MODELS / "large"))
from write import WIDTH, write  # noqa: E402

RANKS, POSITIONS, EXAMPLES = 8, 4096, (1, 2, 4, 8)
BAR, WHOLE = 0.25, 0.4


def plan(a, work, case):
    """The bytes of a rank's arena, and of the largest activation that the forward pass makes and the backward pass reads."""
    examples, how = case
    report = work / f"{examples}-{how}.json"
    run([f"{a.build}/bin/shalec", work / "model.onnx", "--dim", f"batch={examples}/rank", "--dim", f"sequence={POSITIONS}", "--mesh", f"fsdp=32,tp={RANKS}",
         "--shard", "full", "--param-dtype", "bf16", "--recompute", "block", "--sequence-parallel", how, "--plan-only", "--no-advice", "--report", f"memory={report}"],
        f"shalec with {examples} examples, {how}")
    whole = json.loads(report.read_text())
    step = whole["functions"][0]
    at = {phase["name"]: phase["begin"] for phase in step["phases"]}
    # The last sum of the forward pass may still be under way when the backward pass begins.
    late = at["backward"] + (at["update"] - at["backward"]) // 8
    kept = [t["bytes"] for t in step["tensors"] if t["category"] == "activations" and t["begin"] < at["backward"] and t["end"] > late]
    return whole["arena_bytes"], max(kept)


def growth(sizes, examples):
    """The bytes per example more, from each size to the next."""
    return [(b - a) / (n - m) for a, b, m, n in zip(sizes, sizes[1:], examples, examples[1:])]


def check(a, work):
    (work / "model.onnx").write_bytes(write(layers=2))
    cases = [(examples, "auto") for examples in EXAMPLES] + [(EXAMPLES[0], "false"), (EXAMPLES[-1], "false")]
    with ThreadPoolExecutor(2) as pool:
        arenas, kept = zip(*pool.map(lambda case: plan(a, work, case), cases))
    steps = growth(arenas[:len(EXAMPLES)], EXAMPLES)
    [whole] = growth(arenas[len(EXAMPLES):], EXAMPLES[::len(EXAMPLES) - 1])
    said = f"arenas of {', '.join(f'{size / 2**20:.0f}' for size in arenas[:len(EXAMPLES)])} MiB with {', '.join(map(str, EXAMPLES))} examples"
    said += f": {', '.join(f'{step / 2**20:.0f}' for step in steps)} MiB per example more, {whole / 2**20:.0f} MiB without sequence parallelism"
    if any(abs(step / steps[-1] - 1) > BAR or step > WHOLE * whole for step in steps):
        raise Deviates(said)
    for examples, size in zip(EXAMPLES, kept):
        if size != examples * POSITIONS * WIDTH * 2 // RANKS:
            raise Deviates(f"{said}: an activation of {size} bytes is kept with {examples} examples")
    return said


if __name__ == "__main__":
    main(check)
