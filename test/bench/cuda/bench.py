#!/usr/bin/env python3
"""The GPU benchmark: compile programs on any machine, run them on one with a GPU, print a table.

usage: bench.py compile FOLDER [--build build] [--target cuda:sm_90a] [--small] [--part PART]...
       bench.py run PART FOLDER [--libraries DIR] [--torch PYTHON] [--steps 20]
       bench.py table FOLDER

Parts: fixtures, sanitizer, gpt2-124m, llama-1b, llama-8b. Each runs in at most five minutes.

`compile` puts programs, data and facts into FOLDER; weights do not travel, because programs start from --init random. The models'
weights are written meanwhile: 0.5, 5 and 32 GB. --small compiles the gpt2 fixture instead of each model, to test this script.
`run` needs the programs' folder, this repository, Python and numpy. --torch is a Python with torch, for PyTorch's side, which
runs in turn with Shale's. --libraries is the programs' --cuda-libraries. `table` prints what ran beside its bar; a part that did
not run is "not run". `run` ends with 1 if a run fails; the table shows whether bars hold.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "models"
sys.path.insert(0, str(HERE.parents[1] / "e2e"))
from runner import Case, Deviates, metrics, run  # noqa: E402

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
PEAK = 989e12  # dense 16-bit operations per second of an H100 or H200
PARTS = ["fixtures", "sanitizer", *SIZES]
# Fixtures: name, ranks, strategy, flags of the program, 16-bit floats.
FIXTURES = [(case, ranks, "none" if ranks == 1 else "full", ["--comm", "staged"] if ranks > 1 else [], dtype)
            for case in ("gpt2", "llama", "plain") for ranks in (1, 2, 3 if case == "plain" else 4) for dtype in ("f32", "bf16")
            if dtype == "f32" or ranks == 1]


def program_name(case, ranks, dtype):
    return f"{case}-{ranks}-{dtype}"


def compile_fixtures(a):
    for case, ranks, shard, _, dtype in FIXTURES:
        flags = ["--target", a.target, *(BF16 if dtype == "bf16" else [])]
        Case(a.build, MODELS / case).shalec(a.folder / program_name(case, ranks, dtype), shard, ranks, flags)


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
    facts = dict(size, planned=memory["device_peak_bytes"])
    (a.folder / f"{part}.json").write_text(json.dumps(facts))


def compile_all(a):
    a.folder.mkdir(parents=True, exist_ok=True)
    parts = a.parts or PARTS
    if "fixtures" in parts or "sanitizer" in parts:
        compile_fixtures(a)
    for part in parts:
        if part in SIZES:
            compile_model(a, part)


def libraries(a):
    return ["--cuda-libraries", a.libraries] if a.libraries else []


def run_fixtures(a, work):
    """Follows PyTorch's trajectories: f32 on GPUs within 1e-4, since products are summed in another order."""
    worst = {"f32": 0.0, "bf16": 0.0}
    for case, ranks, _, flags, dtype in FIXTURES:
        fixture, name = Case(HERE, MODELS / case), program_name(case, ranks, dtype)
        out = work / name
        fixture.train(a.folder / name, out, flags=["--schedule", "constant", *flags, *libraries(a)], what=name)
        loss, _ = fixture.check_metrics(out, 0.02 if dtype == "bf16" else 1e-4)
        worst[dtype] = max(worst[dtype], loss)
    return {"programs": len(FIXTURES), "loss_f32": worst["f32"], "loss_bf16": worst["bf16"]}


def run_sanitizer(a, work):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        return {"left_out": "no compute-sanitizer"}
    for check in ("memcheck", "racecheck"):
        for case in ("gpt2", "llama", "plain"):
            fixture, name = Case(HERE, MODELS / case), program_name(case, 1, "f32")
            run([tool, "--tool", check, "--error-exitcode", 9, a.folder / name, "--data", fixture.batches, "--steps", 3,
                 "--out", work / f"{check}-{case}", *libraries(a)], f"{check} of {name}")
    return {"programs": 6}


class DeviceMemory:
    """Polls the most memory that the GPU has in use, in bytes; 0 without nvidia-smi."""

    def __enter__(self):
        self.most, self.done = 0, threading.Event()
        self.thread = threading.Thread(target=self.poll)
        self.thread.start()
        return self

    def poll(self):
        while shutil.which("nvidia-smi") and not self.done.wait(0.2):
            text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
            self.most = max([self.most, *(int(line) << 20 for line in text.split())])

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


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
         *libraries(a)], part)
    return parameters, [line["tokens"] / line["tokens_per_s"] for line in metrics(out)][6:]


def run_model(a, work):
    part = a.part
    facts = json.loads((a.folder / f"{part}.json").read_text())
    ours, theirs = [], []
    with DeviceMemory() as memory:
        for _ in range(2):
            parameters, seconds = our_side(a, part, facts, work)
            ours += seconds
            if a.torch:
                line = run([a.torch, HERE / "torch_side.py", "--model", facts["torch"], "--steps", a.steps], "torch_side.py").stdout
                theirs.append(json.loads(line.splitlines()[-1])["tokens_per_s"])
    tokens = facts["batch"] * facts["length"] / statistics.median(ours)
    operations = 6 * (parameters - facts.get("lookup", 0)) + 12 * facts["layers"] * facts["width"] * facts["length"]
    return {"milliseconds": statistics.median(ours) * 1e3, "tokens_per_s": tokens, "utilisation": tokens * operations / PEAK,
            "to_torch": tokens / max(theirs) if theirs else None, "planned": facts["planned"], "used": memory.most}


def run_part(a):
    results = a.folder / "results"
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        kind = {"fixtures": run_fixtures, "sanitizer": run_sanitizer}.get(a.part, run_model)
        result = kind(a, pathlib.Path(work))
    (results / f"{a.part}.json").write_text(json.dumps(result))
    print(json.dumps(result))


def row(part, result):
    if result is None or "left_out" in result:
        return f"| {part} | | not run{': ' + result['left_out'] if result else ''} |"
    if part == "fixtures":
        return f"| {part} | loss 1e-4, bf16 0.02 | {result['programs']} programs, loss {result['loss_f32']:.1e}, bf16 {result['loss_bf16']:.1e} |"
    if part == "sanitizer":
        return f"| {part} | clean | {result['programs']} runs clean |"
    use, ratio = SIZES[part]["bars"]
    beside = f"{result['to_torch']:.2f} × torch" if result["to_torch"] else "torch not run"
    memory = f"{result['used']} bytes used" if result["used"] else "use not measured"
    return (f"| {part} | {use:.0%}, {ratio} × torch | {result['utilisation']:.1%}, {beside}, {result['milliseconds']:.1f} ms, "
            f"{result['tokens_per_s']:.0f} tokens/s; {result['planned']} bytes planned, {memory} |")


def table(a):
    print("| part | bar | result |\n|---|---|---|")
    for part in PARTS:
        path = a.folder / "results" / f"{part}.json"
        print(row(part, json.loads(path.read_text()) if path.exists() else None))


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
