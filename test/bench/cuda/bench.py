#!/usr/bin/env python3
"""The GPU benchmark: compile programs on any machine, run them on one with a GPU, print a table.

usage: bench.py compile FOLDER [--build build] [--target cuda:sm_90a] [--small] [--part PART]...
       bench.py run PART FOLDER [--line LINE] [--libraries DIR] [--torch PYTHON] [--steps 20]
       bench.py table FOLDER

Parts: kernels (bits, and compute-sanitizer), fixtures (over Gloo and over NCCL), gpt2-124m, llama-1b, llama-8b (speed, and memory). Each
runs in at most five minutes.

`compile` puts programs, data and facts into FOLDER; weights do not travel, because programs start from --init random. The models'
weights are written meanwhile: 0.5, 5 and 32 GB. --small compiles the gpt2 fixture instead of each model, and one fixture instead of three, to test this script.
`compile` needs the tests' tools in the build. `run` needs the programs' folder, this repository, Python and numpy. --torch is a Python with torch, for PyTorch's side, which
runs in turn with Shale's. --libraries is the programs' --cuda-libraries. `table` prints what ran beside its bar; what did
not run is "not run". --line runs one line of a part: bits, sanitizer, staged, one_rank, two_ranks. `run` ends with 1 if a run fails; the table shows whether bars of speed and memory hold.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "models"
sys.path.insert(0, str(HERE.parents[1] / "e2e"))
from runner import Case, Deviates, largest, metrics, run  # noqa: E402

BF16 = ["--param-dtype", "bf16"]
# Bars: utilisation, and tokens per second relative to PyTorch's. `lookup`: parameters that do not count, since the file of Llama 1B
# has an embedding besides its head, and PyTorch's model has one table for both.
SIZES = {
    "gpt2-124m": dict(scale="gpt2-124m", torch="gpt2-124m", batch=64, length=1024, layers=12, width=768, vocabulary=50257, flags=BF16,
                      bars=(0.40, 1.1)),
    "llama-1b": dict(scale="llama-3.2-1b", torch="llama-1b", batch=8, length=2048, layers=16, width=2048, vocabulary=128256, flags=BF16,
                     lookup=128256 * 2048, bars=(0.50, 1.1)),
    "llama-8b": dict(scale="llama-8b", torch="llama-8b", batch=2, length=4096, layers=32, width=4096, vocabulary=128256,
                     flags=[*BF16, "--master-dtype", "none", "--optimizer-dtype", "bf16", "--recompute", "block"], bars=(0.40, 1.05)),
}
SMALL = dict(batch=4, length=64, layers=2, width=64, vocabulary=256)
PAGE = 2 << 20  # what the driver allocates at least
PEAK = 989e12  # dense 16-bit operations per second of an H100 or H200
PARTS = ["kernels", "fixtures", *SIZES]
CASES = "cases.json"  # in the folder of programs: the fixtures that were compiled


def cases(a):
    if not (a.folder / CASES).exists():
        raise Deviates(f"{a.folder} has no fixtures: compile them with --part fixtures")
    return json.loads((a.folder / CASES).read_text())


def fixtures(a):
    """Fixtures: name, ranks, strategy, flags of the program, 16-bit floats."""
    return [(case, ranks, "none" if ranks == 1 else "full", ["--comm", "staged"] if ranks > 1 else [], dtype)
            for case in cases(a) for ranks in (1, 2, 3 if case == "plain" else 4) for dtype in ("f32", "bf16") if dtype == "f32" or ranks == 1]


def alone(a):
    """Fixtures on one rank whose collectives remain."""
    return [(case, dtype) for case in cases(a) for dtype in ("f32", "bf16")]


def program_name(case, ranks, dtype):
    return f"{case}-{ranks}-{dtype}"


def compile_fixtures(a):
    (a.folder / CASES).write_text(json.dumps(["plain"] if a.small else ["gpt2", "llama", "plain"]))
    for case, ranks, shard, _, dtype in fixtures(a):
        flags = ["--target", a.target, *(BF16 if dtype == "bf16" else [])]
        Case(a.build, MODELS / case).shalec(a.folder / program_name(case, ranks, dtype), shard, ranks, flags)
    for case, dtype in alone(a):
        flags = ["--target", a.target, "--keep-single-rank-collectives=true", *(BF16 + ["--reduce-dtype", "bf16"] if dtype == "bf16" else [])]
        Case(a.build, MODELS / case).shalec(a.folder / program_name(case, "alone", dtype), "full", 1, flags)


def compile_kernels(a):
    """The kernels of each program with what the emulator computes."""
    with tempfile.TemporaryDirectory() as work:
        for case, ranks, shard, _, dtype in fixtures(a):
            name, plan = program_name(case, ranks, dtype), pathlib.Path(work) / "plan.mlir"
            Case(a.build, MODELS / case).shalec(plan, shard, ranks, ["--target", a.target, "--emit", "rt", *(BF16 if dtype == "bf16" else [])])
            run([a.build / "test" / "unit" / "codegen" / "record-kernels", plan, a.folder / f"{name}.kernels"], "record-kernels")


def compile_model(a, part):
    size = {**SIZES[part], **(SMALL if a.small else {})}
    with tempfile.TemporaryDirectory() as work:
        model = MODELS / "gpt2" / "model.onnx"
        if not a.small:
            model = pathlib.Path(work) / "model.onnx"
            run([sys.executable, MODELS / "scale.py", size["scale"], model, "--random-weights"], "scale.py")
        report = pathlib.Path(work) / "memory.json"
        run([a.build / "bin" / "shalec", model, "-o", a.folder / part, "--target", a.target, "--dim", f"batch={size['batch']}",
             "--dim", f"sequence={size['length']}", *size["flags"], "--report", f"memory={report}"], "shalec")
        memory = json.loads(report.read_text())
    workspace = next(line["bytes"] for line in memory["lines"] if line["what"] == "workspace of cuBLASLt")
    facts = dict(size, planned=memory["device_peak_bytes"],
                 blocks={"the arena": memory["arena_bytes"], "state": memory["state_bytes"], "cuBLASLt's workspace": workspace})
    (a.folder / f"{part}.json").write_text(json.dumps(facts))


def compile_all(a):
    a.folder.mkdir(parents=True, exist_ok=True)
    parts = a.parts or PARTS
    if "fixtures" in parts or "kernels" in parts:
        compile_fixtures(a)
    if "kernels" in parts:
        compile_kernels(a)
    for part in parts:
        if part in SIZES:
            compile_model(a, part)


def libraries(a):
    return ["--cuda-libraries", a.libraries] if a.libraries else []


def follow(a, work, name, case, dtype, flags, environment=None):
    """Follows PyTorch's trajectory. Returns the largest difference of the loss: in f32 within 1e-4, since GPUs sum in another order."""
    fixture, out = Case(HERE, MODELS / case), work / name
    shutil.rmtree(out, ignore_errors=True)
    fixture.train(a.folder / name, out, flags=["--schedule", "constant", *flags, *libraries(a)], what=name, environment=environment)
    return fixture.check_metrics(out, 0.02 if dtype == "bf16" else 1e-4)[0]


def run_staged(a, work):
    """One rank, and several over Gloo."""
    worst = {"f32": 0.0, "bf16": 0.0}
    for case, ranks, _, flags, dtype in fixtures(a):
        worst[dtype] = largest([worst[dtype], follow(a, work, program_name(case, ranks, dtype), case, dtype, flags)])
    return {"programs": len(fixtures(a)), "loss_f32": worst["f32"], "loss_bf16": worst["bf16"]}


def run_one_rank(a, work):
    """One rank over NCCL, whose log must have the collectives: those of the first step and of the captured one."""
    worst, collectives = {"f32": 0.0, "bf16": 0.0}, 0
    for case, dtype in alone(a):
        name = program_name(case, "alone", dtype)
        log = work / f"{name}.log"
        environment = {**os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": str(log)}
        worst[dtype] = largest([worst[dtype], follow(a, work, name, case, dtype, [], environment)])
        # As NCCL 2.28 to 2.30 write it: "HOST:PID:THREAD [GPU] NCCL INFO AllGather: opCount 0 sendbuff ..", once for each call.
        kinds = re.findall(r"NCCL INFO (AllGather|ReduceScatter|AllReduce|Send|Recv): opCount", log.read_text() if log.exists() else "")
        # A reduction of 16-bit floats is an exchange.
        missing = {"AllGather", "ReduceScatter" if dtype == "f32" else "Send"} - set(kinds)
        if missing:
            raise Deviates(f"{name} made no call of {' and '.join(sorted(missing))} of NCCL")
        collectives += len(kinds)
    return {"programs": len(alone(a)), "loss_f32": worst["f32"], "loss_bf16": worst["bf16"], "collectives": collectives}


def run_two_ranks(a, work):
    """Two ranks on this GPU over NCCL, which allows it from 2.30 on. Replayed sends between two processes hung (docs/benchmarks.md)."""
    environment, losses = {**os.environ, "CUDA_VISIBLE_DEVICES": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}, []
    for case in cases(a):
        try:
            losses.append(follow(a, work, program_name(case, 2, "f32"), case, "f32", ["--no-graph"], environment))
        except Deviates as deviation:
            if "ranks 0 and 1 use one GPU" in str(deviation):
                return {"left_out": "NCCL 2.30 allows two ranks on one GPU, this one does not"}
            raise
    return {"programs": len(losses), "loss": max(losses)}


def run_bits(a, _):
    prefixes = [a.folder / f"{program_name(case, ranks, dtype)}.kernels" for case, ranks, _, _, dtype in fixtures(a)]
    more = ["--libraries", a.libraries] if a.libraries else []
    return json.loads(run([sys.executable, HERE / "kernels.py", *prefixes, *more], "kernels.py").stdout)


def run_sanitizer(a, work):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        return {"left_out": "no compute-sanitizer"}
    for check in ("memcheck", "racecheck"):
        for case in cases(a):
            fixture, name = Case(HERE, MODELS / case), program_name(case, 1, "f32")
            run([tool, "--tool", check, "--error-exitcode", 9, a.folder / name, "--data", fixture.batches, "--steps", 3,
                 "--out", work / f"{check}-{case}", *libraries(a)], f"{check} of {name}")
    return {"programs": 2 * len(cases(a))}


def our_side(a, part, facts, work):
    """Returns the parameters of the model, and the seconds of each step after warm-up."""
    out = work / "ours"
    shutil.rmtree(out, ignore_errors=True)
    tokens, kind = work / "tokens.bin", "uint16" if facts["vocabulary"] <= 65536 else "uint32"
    if not tokens.exists():
        np.random.default_rng(0).integers(0, facts["vocabulary"], 64 * (facts["batch"] * facts["length"] + 1)).astype(kind).tofile(tokens)
    text = run([a.folder / part, "--describe"], part).stdout
    parameters = int(text.split("parameters: ")[1].split(" with ")[1].split()[0])
    run([a.folder / part, "--data", tokens, "--token-dtype", kind, "--init", "random:1", "--steps", a.steps + 6, "--out", out, "--save-every", 0,
         "--report-device", work / "device.json", *libraries(a)], part)
    return parameters, [line["tokens"] / line["tokens_per_s"] for line in metrics(out)][6:]


def used_by_others():
    """Bytes of the GPU that are in use before the program starts; 0 without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return 0
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    return max([0, *(int(line) << 20 for line in text.split() if line.isdigit())])


def device_memory(facts, report, others):
    """Compares the program's blocks with the plan and with the driver's count, which grows by pages of 2 MiB. Raises Deviates."""
    for what, planned in facts["blocks"].items():
        block = next((one for one in report["blocks"] if one["what"] == what), {"bytes": 0, "counted": 0})
        if block["bytes"] != planned or not 0 <= block["counted"] - planned < PAGE:
            raise Deviates(f"{what} has {planned} bytes by plan, {block['bytes']} in the program, {block['counted']} by the driver")
    return {"planned": facts["planned"], "used": report["used"] - others, "exact": len(facts["blocks"])}


def run_model(a, work):
    part = a.part
    facts = json.loads((a.folder / f"{part}.json").read_text())
    ours, theirs, others = [], [], used_by_others()
    for _ in range(2):
        parameters, seconds = our_side(a, part, facts, work)
        ours += seconds
        if a.torch:
            line = run([a.torch, HERE / "torch_side.py", "--model", facts["torch"], "--steps", a.steps], "torch_side.py").stdout
            theirs.append(json.loads(line.splitlines()[-1])["tokens_per_s"])
    memory = device_memory(facts, json.loads((work / "device.json").read_text())[0], others)
    tokens = facts["batch"] * facts["length"] / statistics.median(ours)
    operations = 6 * (parameters - facts.get("lookup", 0)) + 12 * facts["layers"] * facts["width"] * facts["length"]
    return {"milliseconds": statistics.median(ours) * 1e3, "tokens_per_s": tokens, "utilisation": tokens * operations / PEAK,
            "to_torch": tokens / max(theirs) if theirs else None, **memory}


# What a part shows: its lines of the table.
LINES = {"kernels": {"bits": run_bits, "sanitizer": run_sanitizer}, "fixtures": {"staged": run_staged, "one_rank": run_one_rank, "two_ranks": run_two_ranks}}


def run_part(a):
    results = a.folder / "results"
    results.mkdir(exist_ok=True)
    lines = LINES.get(a.part, {a.part: run_model})
    if a.line and a.line not in lines:
        raise Deviates(f"there is no line {a.line}, but {', '.join(lines)}")
    path = results / f"{a.part}.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    for line in [a.line] if a.line else lines:
        result.pop(line, None)  # what fails is not run
        path.write_text(json.dumps(result))
        with tempfile.TemporaryDirectory() as work:
            result[line] = lines[line](a, pathlib.Path(work))
        path.write_text(json.dumps(result))
    print(json.dumps(result))


def speed(part, r):
    use, ratio = SIZES[part]["bars"]
    beside = "torch not run" if not r["to_torch"] else f"{r['to_torch']:.2f} × torch, {'holds' if r['to_torch'] >= ratio else 'does not hold'}"
    return (f"{r['utilisation']:.1%}, {'holds' if r['utilisation'] >= use else 'does not hold'}; {beside}; {r['milliseconds']:.1f} ms, "
            f"{r['tokens_per_s']:.0f} tokens/s")


def memory(r):
    off = abs(r["used"] - r["planned"])
    holds = off <= max(r["planned"] * 0.02, 512 << 20)
    return f"{r['exact']} blocks exact; {r['planned']} bytes planned, {r['used']} used, {off / r['planned']:.1%} off, {'holds' if holds else 'does not hold'}"


# Part, line, what it is, bar, and how to say the result.
ROWS = [("kernels", "bits", "kernels, same bits as emulated", "equal", lambda r: f"{r['kernels']} kernels, {r['bytes']} bytes equal"),
        ("kernels", "sanitizer", "memcheck and racecheck", "clean", lambda r: f"{r['programs']} runs clean"),
        ("fixtures", "staged", "fixtures, one rank and staged", "loss 1e-4, bf16 0.02",
         lambda r: f"{r['programs']} programs, loss {r['loss_f32']:.1e}, bf16 {r['loss_bf16']:.1e}"),
        ("fixtures", "one_rank", "fixtures, NCCL with one rank", "loss 1e-4, bf16 0.02",
         lambda r: f"{r['programs']} programs, {r['collectives']} calls of NCCL, loss {r['loss_f32']:.1e}, bf16 {r['loss_bf16']:.1e}"),
        ("fixtures", "two_ranks", "fixtures, two ranks of NCCL on one GPU", "loss 1e-4",
         lambda r: f"{r['programs']} programs, loss {r['loss']:.1e}"),
        *((part, part, part, "{:.0%}, {} × torch".format(*size["bars"]), lambda r, part=part: speed(part, r)) for part, size in SIZES.items()),
        *((part, part, f"{part}, memory", "blocks exact, total within 2 % or 512 MiB", memory) for part in SIZES)]


def table(a):
    print("| what | bar | result |\n|---|---|---|")
    for part, line, what, bar, say in ROWS:
        path = a.folder / "results" / f"{part}.json"
        result = json.loads(path.read_text()).get(line) if path.exists() else None
        left_out = result and result.get("left_out")
        print(f"| {what} | {bar} | {say(result) if result and not left_out else 'not run' + (': ' + left_out if left_out else '')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("compile")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--part", action="append", choices=PARTS, dest="parts", help="default: all")
    one.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    one.add_argument("--target", default="cuda:sm_90a")
    one.add_argument("--small", action="store_true")
    one.set_defaults(do=compile_all)
    one = commands.add_parser("run")
    one.add_argument("part", choices=PARTS)
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--line")
    one.add_argument("--libraries")
    one.add_argument("--torch")
    one.add_argument("--steps", type=int, default=20)
    one.set_defaults(do=run_part)
    one = commands.add_parser("table")
    one.add_argument("folder", type=pathlib.Path)
    one.set_defaults(do=table)
    a = parser.parse_args()
    if a.do is not compile_all and not a.folder.is_dir():
        parser.error(f"there is no folder {a.folder}: make it with compile")
    try:
        a.do(a)
    except Deviates as deviation:
        sys.exit(f"{getattr(a, 'part', 'compile')}: {deviation}")


if __name__ == "__main__":
    main()
