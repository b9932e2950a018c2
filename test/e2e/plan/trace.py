#!/usr/bin/env python3
"""Traces two steps and compares the trace with the plan.

usage: e2e trace --build DIR --case test/models/gpt2

- Every rank has its kernels, collectives and copies between memories, as many of the latter two as planned, named by nodes of the model,
  units and state. Tracing changes no bit of the run.
- Collectives run beside kernels: at least one is in flight when a kernel begins. A mutant must fail: a planned program that waits for
  every collective where it starts.
- Copies run beside kernels, too: with copies that are delayed (test/shim/Copies.cpp), kernels begin while a copy is in flight. A mutant that
  waits for every copy where it starts must fail.
- All also hold with everything offloaded, where updates run on the host, and with two micro-batches per step.
- A run that is resumed within the traced steps traces the remaining ones.
- A wrong --trace is an error before the first step.
"""
import json
import os
import re
import subprocess
from collections import Counter

from runner import Case, Deviates, compile_changed, main, run, same_bits

STEPS, RANKS = 2, 2


def need(condition, message):
    if not condition:
        raise Deviates(message)


def spans_of(case, work, program, steps=STEPS, environment=None):
    """The spans of a traced run, which must have the bits of the run without a trace."""
    case.train(program, work / "plain", steps=4, what="a run without trace")
    case.train(program, work / "traced", steps=4, flags=["--trace", f"steps:1-{steps}", work / "trace.json"], environment=environment, what="a traced run")
    same_bits(work / "plain", work / "traced", "runs with and without a trace")
    return [e for e in json.loads((work / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]


def runs_beside(own, stream="communication"):
    """Whether a kernel begins while a collective is in flight. A collective that runs at its start would end before the next kernel. The same for
    other streams."""
    kernels = [e["ts"] for e in own if e["cat"] == "compute" and e["args"]["what"] != "wait"]
    return any(e["ts"] < kernel < e["ts"] + e["dur"] for e in own if e["cat"] == stream for kernel in kernels)


def check_rank(what, own, planned, nodes):
    moved = [e for e in own if e["cat"] == "communication"]
    need(len(moved) == STEPS * planned, f"{what}: {len(moved)} collectives of {STEPS} steps, {planned} planned a step")
    need({"transformer.h.0", "transformer.h.1"} <= {e["name"] for e in moved}, f"{what}: units are not named")
    computed = [e for e in own if e["cat"] == "compute" and e["args"]["what"] != "wait"]
    named = sum(e["name"].encode() in nodes for e in computed)
    need(named >= len(computed) // 2, f"{what}: {named} of {len(computed)} ops are named by nodes of the model")
    need(all(e["dur"] >= 0 and e["ts"] >= 0 for e in own), f"{what}: a span ends before it begins")
    for stream in ("compute", "communication", "copies"):
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in own if e["cat"] == stream)
        need(all(x[1] <= y[0] + 0.002 for x, y in zip(spans, spans[1:])), f"{what}: spans of {stream} overlap")


def check_copies(what, own, table, nodes):
    """Each planned copy of a step must run, by name and bytes. Updates must run on the host, named by their state."""
    copies = [e for e in own if e["cat"] == "copies"]
    have = Counter((e["args"]["what"].split()[-1], e["args"]["bytes"], e["args"]["tensor"], e["name"]) for e in copies)
    want = Counter({key: STEPS * times for key, times in table.items() if times})
    need(have == want, f"{what}: copies are {have - want} beyond the plan, {want - have} are missing")
    need(any(e["name"].encode() in nodes for e in copies), f"{what}: no activation's copy is named by its node")
    updates = [e for e in own if e["args"]["what"].startswith("adamw")]
    need(updates and all(e["args"].get("space") == "host" for e in updates), f"{what}: updates do not run on the host")
    need({e["name"] for e in updates} == {"root.f32.moment1", "transformer.h.0.f32.moment1", "transformer.h.1.f32.moment1"} or
         {e["name"] for e in updates} == {"root.f32", "transformer.h.0.f32", "transformer.h.1.f32"}, f"{what}: updates are named {[e['name'] for e in updates]}")
    return len(copies) // STEPS


def check_program(case, work, flags):
    program = work / "train"
    said = case.shalec(program, "full", RANKS, ["--bucket-size", "0", *flags])  # so that each unit is a span of its own
    planned = sum(int(count) for count in re.findall(r"^ +(\d+) (?:all-gather|reduce-scatter|all-reduce) over", said, re.M))
    events = spans_of(case, work, program)
    nodes = set(re.findall(rb"node_[A-Za-z_0-9]+", (case.folder / case.model).read_bytes()))
    described = run([program, "--describe"], "--describe").stdout
    section = re.search(r"^copies between.*\n((?:  .*\n)*)", described, re.M)
    table = Counter()
    for to, size, times, name, node in re.findall(r"^  (host|device) +(\d+) +(\d+)  (.*?)(?:, node (.*))?$", section.group(1) if section else "", re.M):
        table[to, int(size), name, node or name] += int(times)
    need(any(runs_beside([e for e in events if e["pid"] == rank]) for rank in range(RANKS)), f"{flags}: collectives run beside no kernel")
    copies = 0
    for rank in range(RANKS):
        own = [e for e in events if e["pid"] == rank]
        check_rank(f"{flags}, rank {rank}", own, planned, nodes)
        if table:
            copies = check_copies(f"{flags}, rank {rank}", own, table, nodes)
        else:
            need(not any(e["cat"] == "copies" for e in own), f"{flags}: copies were not planned")
    return program, f"{len(events)} spans, {planned} collectives and {copies} copies a step"


def waited_for_at_once(program, name="rt.collective"):
    """The text of a planned program in which the wait for each op of this name follows its start."""
    changes = {}
    for start in program.ops(name):
        [token] = start.results
        [wait] = token.users
        changes |= {start: f"{program.line(start)}\n{program.line(wait)}", wait: ""}
    return program.with_lines(changes)


def check_mutant(case, work):
    work.mkdir()
    compile_changed(case, work / "ir", work / "train", "full", RANKS, ["--bucket-size", "0"], waited_for_at_once)
    events = spans_of(case, work, work / "train")
    need(not any(runs_beside([e for e in events if e["pid"] == rank]) for rank in range(RANKS)),
         "collectives that are waited for where they start run beside kernels")


def check_copies_beside_kernels(case, work, slow):
    """Copies are slow here, so that a kernel which does not wait for one begins before it ends. Without overlap, the kernels of both steps wait."""
    environment = {**os.environ, "LD_PRELOAD": str(slow)}
    flags = ["--bucket-size", "0", "--offload", "all"]
    for name in ("whole", "mutant"):
        (work / name).mkdir(parents=True)
        if name == "whole":
            case.shalec(work / name / "train", "full", RANKS, flags)
        else:
            compile_changed(case, work / "ir", work / name / "train", "full", RANKS, flags, lambda planned: waited_for_at_once(planned, "rt.transfer"))
        events = spans_of(case, work / name, work / name / "train", environment=environment)
        beside = [runs_beside([e for e in events if e["pid"] == rank], "copies") for rank in range(RANKS)]
        shortest = min(e["dur"] for e in events if e["cat"] == "copies")
        need(shortest >= 2900, f"{name}: a copy took {shortest} us; it should be delayed by 3 ms")
        need(beside == [name == "whole"] * RANKS, f"{name}: copies run beside kernels: {beside}")


def check_resumed(case, program, work):
    """With steps 1 to 3, a run that resumes at step 2 traces two steps. One that resumes at step 4 traces none and says so."""
    case.train(program, work / "parts", steps=2)
    for steps in (4, 6):
        trace = work / f"trace-{steps}.json"
        resumed = subprocess.run([program, "--data", case.batches, "--steps", str(steps), "--out", work / "parts", "--trace", "steps:1-3", trace],
                                 capture_output=True, text=True)
        if steps == 4:
            spans = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["pid"] == 0 and e["cat"] == "copies"]
            once = Counter((e["name"], e["args"]["what"]) for e in spans)
            need(once and all(times % 2 == 0 for times in once.values()), f"resumed: copies of two steps are {once}")
        else:
            need(resumed.returncode == 64 and "step 3 is already done, and the run continues with step 4: trace later steps" in resumed.stderr, f"resumed: {resumed.returncode}, {resumed.stderr}")


def check(a, work):
    case = Case(a.build, a.case)
    programs = [(case, []), (case, ["--offload", "all"]), (Case(a.build, a.case, "trajectory-accumulate.json"), ["--offload", "all"])]
    found = []
    for number, (of, flags) in enumerate(programs):
        (work / str(number)).mkdir()
        program, what = check_program(of, work / str(number), flags)
        found.append(what)
    check_mutant(case, work / "mutant")
    found.append("a mutant whose collectives run beside no kernel was noticed")
    check_copies_beside_kernels(case, work / "copies", f"{a.build}/lib/libshale_slow_copies.so")
    found.append("so was one whose copies run beside none")
    check_resumed(programs[-1][0], program, work)
    file = work / "trace.json"
    for code, flags, word in ((64, ["10-12", file], "steps:"), (64, ["steps:90-91", file], "ends before"), (74, ["steps:1-2", work], "cannot write the trace")):
        run_ = subprocess.run([program, "--data", case.batches, "--steps", "4", "--out", work / "bad", "--trace", *flags], capture_output=True, text=True)
        need(run_.returncode == code and word in run_.stderr, f"{flags}: exit code {run_.returncode}, {run_.stderr}")
        need("step 1" not in run_.stdout and not (work / "bad" / "metrics.jsonl").exists(), f"{flags}: trains first")
    return f"{RANKS} ranks: " + "; ".join(found)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="traces:")
