#!/usr/bin/env python3
"""Trains a fixture in 16-bit floats and compares the loss with PyTorch's f32 run.

usage: e2e precision --build DIR --case test/models/gpt2 [--model model.onnx] [--trajectory trajectory.json]
                    --flags "--param-dtype bf16" [--bar 0.02]
                    [--shard none,optimizer,grad,full] [--ranks 1,2] [--bytes] [--twice] [--skips N]

Runs each strategy on each number of ranks. The loss of every step must be within the bar. The gradient norm is printed, not checked.

--bytes (bf16 with f32 masters) compares bytes per rank with the design. E is the number of padded elements, N the number of ranks. When the
  update begins, a rank holds only scalars and these bytes of parameters, gradients and optimizer state, by plan and by the running
  program's table: none 18 E, optimizer (6 + 12/N) E, grad (2 + 16/N) E, full 16 E/N. (This is for reduction in f32; in bf16 a
  gradient has half the bytes.) With W = 2 E bytes in the wire type and R = 4 E in the reduce type it sends, times (N-1)/N: none 2R,
  optimizer and grad W + R, full at most 2W + R; and scalars.
--twice runs the last program again, which must give the same bits.
--combine runs 16-bit floats with several micro-batches per step, frozen parameters, offload and replicas at once (COMBINED). Each loss
  must be within the bar of the f32 run with the same flags on one rank, no step is skipped, and offload changes no bit.
--skips N: at least N steps must be skipped, because the first loss scale is too large. The other steps are compared with the
  trajectory from its first step on.
"""
import json
import re

from runner import Case, Deviates, largest, main, metrics, run, same_bits

KEPT = ("parameters", "gradients", "optimizer")
SCALARS = 4096


def totals(rows):
    return {kept: sum(size for category, size in rows if category == kept) for kept in KEPT} | {"rest": sum(size for category, size in rows if category not in KEPT)}


def check_bytes(what, shard, ranks, reduced_width, said, described, report, sent):
    planned = totals([(category, int(size)) for size, category in
                      re.findall(r"^ +(?:state|arena) +\d+ +(\d+) +\d+ +(\w+) ", described, re.M)])
    split = 1 if shard == "none" else ranks
    elements = planned["optimizer"] * split // 8
    part, grad = elements // ranks, reduced_width
    wanted = {"none": (6 * elements, grad * elements, 8 * elements), "optimizer": (2 * elements + 4 * part, grad * elements, 8 * part),
              "grad": (2 * elements + 4 * part, grad * part, 8 * part), "full": (4 * part, grad * part, 8 * part)}[shard]
    tables = [("by plan", planned)] + [(f"running, rank {rank['rank']}", totals([(row["category"], row["bytes"]) for row in rank["when_update_begins"]]))
                                       for rank in report]
    for where, have in tables:
        if tuple(have[kept] for kept in KEPT) != wanted or have["rest"] > SCALARS:
            raise Deviates(f"{what}, {where}: holds {have}; {dict(zip(KEPT, wanted))} expected of {elements} padded elements")
    collectives = {kind: int(size) for kind, size in re.findall(r"^ +\d+ (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)\b", said, re.M)}
    wire, reduced = (size * elements * (ranks - 1) // ranks for size in (2, grad))
    gathered, scattered, summed = (collectives.get(kind, 0) for kind in ("all-gather", "reduce-scatter", "all-reduce"))
    holds = {"none": gathered == scattered == 0 and 2 * reduced <= summed <= 2 * reduced + SCALARS,
             "optimizer": gathered == wire and scattered == reduced and summed <= SCALARS,
             "grad": gathered == wire and scattered == reduced and summed <= SCALARS,
             "full": wire <= gathered <= 2 * wire and scattered == reduced and summed <= SCALARS}[shard]
    if not holds:
        raise Deviates(f"{what}: plans {collectives}; W is {wire}, R {reduced} on the wire")
    if sent != {gathered + scattered + summed}:
        raise Deviates(f"{what}: sent {sent} bytes per step, but the plan has {gathered + scattered + summed}")
    return f", {sum(wanted)} bytes of {elements} elements"


# strategy, ranks, flags, kinds of offloaded state
COMBINED = [
    ("hybrid", 4, "--mesh=replica=2,fsdp=2 --param-dtype bf16 --recompute block", "all"),
    ("full", 2, "--param-dtype f16", "optimizer,grads"),
    ("grad", 2, "--param-dtype f16 --reduce-dtype f16 --sync-every-microbatch=false", "optimizer"),
    ("grad", 4, "--mesh=replica=2,fsdp=2 --param-dtype bf16 --reduce-dtype bf16 --buffer-dtype bf16", "params,optimizer"),
    ("optimizer", 2, "--param-dtype bf16 --reduce-dtype bf16", "grads"),
    ("full", 2, "--param-dtype bf16 --matmul-dtype fp8 --recompute block", "all"),
    ("none", 2, "--param-dtype f16 --master-dtype none --optimizer-dtype bf16", "params"),
]


def check_combined(a, work):
    case = Case(a.build, a.case, "trajectory-accumulate.json")
    frozen = ["--freeze", Case(a.build, a.case, "trajectory-frozen.json").trajectory["frozen"]]

    def losses(name, shard, ranks, *flags):
        case.shalec(work / name, shard, ranks, [*frozen, *flags])
        case.train(work / name, work / f"run-{name}")
        lines = metrics(work / f"run-{name}")
        if len(lines) != case.steps or any(line.get("skipped") for line in lines):
            raise Deviates(f"{shard} {flags}: {len(lines)} steps, skipped {[line['step'] for line in lines if line.get('skipped')]}")
        return [line["loss"] for line in lines]

    wanted, found = losses("f32", "none", 1), []
    for index, (shard, ranks, text, offload) in enumerate(COMBINED):
        what, flags = f"{shard} on {ranks} ranks {text}", text.split()
        loss = largest(abs(got - want) for got, want in zip(losses(f"{index}", shard, ranks, *flags), wanted))
        found.append(f"{what}: loss {loss:.4f}")
        if not loss <= (0.1 if "none" in flags else a.bar):
            raise Deviates(found[-1])
        losses(f"{index}-offload", shard, ranks, *flags, "--offload", offload)
        same_bits(work / f"run-{index}", work / f"run-{index}-offload", f"{what}, with and without --offload {offload},")
    return "\n  ".join([f"16-bit floats, micro-batches, {' '.join(frozen)}, offload"] + found)


def check(a, work):
    if a.combine:
        return check_combined(a, work)
    case = Case(a.build, a.case, a.trajectory, a.model)
    wanted = [step["loss"] for step in case.trajectory["steps"]]
    norms = [step["grad_norm"] for step in case.trajectory["steps"]]
    found = []
    for shard in a.shard.split(","):
        for ranks in map(int, a.ranks.split(",")):
            what = f"{shard} on {ranks} ranks"
            program, out = work / f"train-{shard}-{ranks}", work / f"run-{shard}-{ranks}"
            said = case.shalec(program, shard, ranks, a.flags.split())
            case.train(program, out)
            lines = metrics(out)
            skipped = [line["step"] for line in lines if line.get("skipped")]
            if len(lines) != len(wanted) or len(skipped) < a.skips:
                raise Deviates(f"{what}: {len(lines)} steps, skipped {skipped}")
            # A skipped step changed nothing: the next one sees other rows with the same weights. Only where none was
            # skipped do steps and trajectory stay together.
            if skipped:
                found.append(f"{what}: skipped {skipped}, last loss {lines[-1]['loss']:.4f}")
                if not abs(lines[-1]["loss"] - wanted[-1]) <= a.bar:
                    raise Deviates(found[-1])
                continue
            loss = largest(abs(line["loss"] - want) for line, want in zip(lines, wanted))
            norm = largest(abs(line["grad_norm"] - want) / want for line, want in zip(lines, norms))
            if not loss <= a.bar:
                raise Deviates(f"{what}: loss is off by {loss:.4f} (bar {a.bar})")
            found.append(f"{what}: loss {loss:.4f}, norm {norm:.3f}")
            if a.bytes:
                report = work / "report.json"
                case.train(program, work / f"short-{shard}-{ranks}", steps=2, flags=["--report-buffers", report])
                described = run([program, "--describe"], "--describe").stdout
                found[-1] += check_bytes(what, shard, ranks, 2 if "--reduce-dtype" in a.flags else 4, said, described, json.loads(report.read_text()), {line["comm_bytes"] for line in lines})
    if a.twice:
        case.train(program, work / "again")
        same_bits(out, work / "again", "two runs")
        found.append("twice the same bits")
    return "\n  ".join(["bf16 and f16"] + found)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--model", {"default": "model.onnx"}), ("--trajectory", {"default": "trajectory.json"}),
         ("--flags", {"default": "--param-dtype bf16"}), ("--bar", {"type": float, "default": 0.02}),
         ("--shard", {"default": "none,optimizer,grad,full"}), ("--ranks", {"default": "1,2"}), ("--bytes", {"action": "store_true"}),
         ("--twice", {"action": "store_true"}), ("--combine", {"action": "store_true"}), ("--skips", {"type": int, "default": 0}), success="follows:")
