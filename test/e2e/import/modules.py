#!/usr/bin/env python3
"""Compiles and trains random transformer modules (test/models/modules) on several meshes, and compares them with PyTorch's first steps.

usage: e2e modules --build DIR [--cases FOLDER] [--only NAME,..] [--meshes 0,1,..] [--jobs 1] [--limit 120] [--keep FOLDER]
       e2e modules --build DIR --count 300 [--seed 0] [--python PYTHON] ..
       e2e modules --build DIR --today --count 300 [--seed 0] [--python PYTHON] ..
       e2e modules --build DIR --today --exported --count 300 [--seed 0] [--python PYTHON] ..
       e2e modules --build DIR --hf|--torchscript|--traced [--python PYTHON] ..

Each case is compiled as by a user and trained for as many steps as PyTorch. Losses must be within 5e-5 and gradient norms within 2e-3 relative
(or within the bars of the case). Every parameter of PyTorch must exist and have the trained value. The result of a run is one of: it follows,
is WRONG, crashed (a signal), hung, ended with 70, failed (another exit code), or was refused (64 or 65, with a message). The test
passes if all runs follow, except for at most 2 % that are refused.

--count draws so many cases first, with a PYTHON that has torch, onnxscript and onnxruntime. Cases whose file does not compute what PyTorch
computes are set aside and counted. Refused cases are exported again with optimize=False, as the message advises, and must then follow.
--today draws from test/models/today, training modules of many tasks, instead. There at most 10 % may be refused.
--exported: by shale.export, with a batch; programs then get no flags but sizes. At most 5 % may be refused.
--hf draws all models of test/models/hf instead, for --meshes 0,1,5: fsdp=1, full on fsdp=2, and fsdp=2,tp=2. --torchscript: by that exporter.
--traced: by shale.export, with traced and with derived gradients, whose programs are to send the same bytes under --shard full.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from runner import MODELS, Case, metrics, read_safetensors

LOSS, NORM, REFUSED, REFUSED_TODAY, REFUSED_EXPORTED = 5e-5, 2e-3, 0.02, 0.1, 0.05
MESHES = [("fsdp=1", []), ("fsdp=2 full", ["--mesh", "fsdp=2", "--shard", "full"]), ("fsdp=2 none", ["--mesh", "fsdp=2", "--shard", "none"]),
          ("replica=2,fsdp=2", ["--mesh", "replica=2,fsdp=2", "--shard", "full"]), ("tp=2", ["--mesh", "tp=2"]),
          ("fsdp=2,tp=2", ["--mesh", "fsdp=2,tp=2", "--shard", "full"]), ("ep=2", ["--mesh", "ep=2"]),
          ("fsdp=2,ep=2", ["--mesh", "fsdp=2,ep=2"]), ("ep=2,tp=2", ["--mesh", "ep=2,tp=2"])]
FOLLOWS, WRONG, CRASHED, HUNG, INTERNAL, FAILED, REFUSES = "follows", "WRONG", "crashed", "hung", "exit 70", "failed", "refused"
KNOWN = "expected"  # a refusal that the case states: `refused` of its trajectory has a part of the message, by mesh


class Ended(Exception):
    """Classifies a command that did not end with 0. Returns the class and the message."""

    def __init__(self, kind, said):
        super().__init__(said)
        self.kind = kind


def message(text):
    """The first lines of an error message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return re.sub(r"(shalec: )?error: |\S*\.onnx: ", "", " / ".join(lines[start:start + 2]))[:300] or "no message"


def command(words, what, limit):
    try:
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        raise Ended(HUNG, f"{what}: no end after {limit} s") from None
    code, said = result.returncode, f"{what}: {message(result.stderr or result.stdout)}"
    if code < 0 or code >= 128:
        raise Ended(CRASHED, f"{what}: signal {-code if code < 0 else code - 128}; {said}")
    if code:
        raise Ended({70: INTERNAL, 64: REFUSES, 65: REFUSES}.get(code, FAILED), said if code in (64, 65, 70) else f"{code}, {said}")


def compare(lines, steps, loss_bar=LOSS, norm_bar=NORM):
    """Compares the steps `lines` with PyTorch's. Returns the class of the run and its error."""
    if [line["step"] for line in lines] != list(range(len(steps))):
        return WRONG, f"metrics.jsonl has steps {[line['step'] for line in lines]}"
    pairs = list(zip(lines, steps))
    loss = [abs(got["loss"] - want["loss"]) for got, want in pairs]
    norm = [abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"] for got, want in pairs]
    good = all(off <= loss_bar for off in loss) and (norm_bar is None or all(off <= norm_bar for off in norm))
    said = f"loss {max(loss):.1e}, norm {max(norm):.1e}"
    return (FOLLOWS, said) if good else (WRONG, f"{said}; first step: loss {loss[0]:.1e}, norm {norm[0]:.1e}")


def check_parameters(out, wanted):
    """Returns the first deviation in the trained parameters, or None."""
    got = read_safetensors(out / "model.safetensors")
    for one in wanted:
        name = next((name for name in one["names"] if name in got), None)
        if name is None:
            return f"no parameter {one['names'][0]}"
        if got[name].size < one["size"]:
            continue  # the file has only the rows of this table that the model uses
        product = float(got[name].astype(np.float64).ravel() @ np.cos(np.arange(got[name].size)))
        if one["tolerance"] is not None and not abs(product - one["product"]) <= one["tolerance"]:
            return f"{name} is trained otherwise: {product:.6f} for {one['product']:.6f} (tolerance {one['tolerance']:.1e})"
    return ""


def follow(case, work, mesh, limit):
    """Runs a case on one mesh. Returns (class, message, error)."""
    program, out = work / "train", work / "run"
    trajectory = case.trajectory
    if "export" in trajectory:  # the message of shale.export, which wrote no file
        return REFUSES, f"export: {message(trajectory['export'])}"
    if "crashed" in trajectory:
        return CRASHED, f"export: {message(trajectory['crashed'])}"
    try:
        command([case.bin / "shalec", case.folder / case.model, "-o", program, *trajectory["flags"], *mesh], "shalec", limit)
        command([program, "--data", case.batches, "--steps", case.steps, *case.hyper_flags(), "--schedule", "constant", "--out", out], "program", limit)
        kind, said = compare(metrics(out), trajectory["steps"], *(trajectory.get(bar, usual) for bar, usual in (("loss_bar", LOSS), ("norm_bar", NORM))))
        other = check_parameters(out, trajectory.get("parameters", []))
        return (WRONG, f"{said}; {other}") if other else (kind, said)
    except Ended as ended:
        return ended.kind, str(ended)
    except (OSError, ValueError, KeyError) as error:
        return FAILED, f"{type(error).__name__}: {error}"


def follow_all(a, folder, work, meshes):
    """Runs one case on all meshes and prints each result."""
    case = Case(a.build, folder)
    found = []
    for index in meshes:
        name, flags = MESHES[index]
        here = work / f"{folder.name}-{index}"
        here.mkdir()
        kind, said = follow(case, here, flags, a.limit)
        if expected := case.trajectory.get("refused", {}).get(name):
            kind = KNOWN if kind == REFUSES and expected in said else WRONG
        print(f"{folder.name:10} {name:17} {kind:8} {said}", flush=True)
        found.append((kind, name, said, folder.name))
    return found


def draw(a, work):
    """Draws the cases in two processes. Returns the number of cases set aside."""
    half = a.count // 2
    parts = [["--seed", a.seed, "--count", half], ["--seed", a.seed + half, "--count", a.count - half]]
    if a.hf:
        parts = [["--only", ",".join(a.only)]] if a.only else [["--part", part] + ["--torchscript"] * a.torchscript + ["--traced"] * a.traced for part in ("0/2", "1/2")]
    if a.exported or a.traced:
        parts = [part + ["--shalec", a.build / "bin" / "shalec"] for part in parts]
    script = MODELS / ("hf" if a.hf else a.drawn) / "export.py"
    running = [subprocess.Popen([a.python, str(script), str(work), *map(str, part)], stdout=subprocess.PIPE, text=True) for part in parts]
    said = [one.communicate()[0] for one in running]
    if any(one.returncode for one in running):
        sys.exit("modules.py: export.py failed")
    print("".join(said), end="")
    return sum(1 for _ in work.glob("*/aside.txt"))


def follow_remedy(a, found, work):
    """Whether the refused cases follow when they are exported with optimize=False."""
    names = list(dict.fromkeys(case for kind, _, _, case in found if kind == REFUSES))
    if not names:
        return True
    print(f"\nexported with optimize=False: {len(names)} cases")
    script, cases, runs = MODELS / a.drawn / "export.py", work / "unfolded", work / "unfolded-runs"
    runs.mkdir()
    subprocess.run([a.python, str(script), str(cases), "--no-optimize", "--seeds", ",".join(str(int(name)) for name in names)], check=True)
    again = sum((follow_all(a, cases / name, runs, a.meshes) for name in names if (cases / name / "trajectory.json").exists()), [])
    return all(kind == FOLLOWS for kind, _, _, _ in again)


def sent_by(a, folder, report):
    """The bytes that a rank sends per step on fsdp=2, fully sharded, by kind of collective."""
    case = Case(a.build, folder)
    command([case.bin / "shalec", case.folder / case.model, "--plan-only", "--report", f"comm={report}", *case.trajectory["flags"], *MESHES[1][1]],
            "shalec", a.limit)
    sent = collections.Counter()
    for one in json.loads(report.read_text()):
        sent[one["kind"]] += one["sent_bytes"]
    return dict(sent)


def send_alike(a, cases):
    """Whether no model sends more than 5 % more bytes with traced gradients than with derived ones."""
    alike, more = True, 1.05
    for folder in cases:
        other = folder.with_name(folder.name.removesuffix("-traced") + "-derived")
        if folder.name.endswith("-traced") and (other / "trajectory.json").exists():
            try:
                traced, derived = (sent_by(a, one, a.cases / "comm.json") for one in (folder, other))
            except Ended as ended:
                print(f"{folder.name}: {ended}")
                alike = False
                continue
            alike &= sum(traced.values()) <= more * sum(derived.values())
            print(f"{folder.name}: sends {traced}" + ("" if traced == derived else f", with derived gradients {derived}"), flush=True)
    return alike


def summary(found, aside, most):
    """Prints a table by mesh, and the messages by frequency. Returns whether the test passes."""
    kinds = [FOLLOWS, KNOWN, WRONG, CRASHED, HUNG, INTERNAL, FAILED, REFUSES]
    print(f"\n{'':17}" + "".join(f"{kind:>9}" for kind in kinds))
    for mesh in dict.fromkeys(name for _, name, _, _ in found):
        print(f"{mesh:17}" + "".join(f"{sum(k == kind and name == mesh for k, name, _, _ in found):9}" for kind in kinds))
    reasons = collections.defaultdict(list)
    for kind, _, said, case in found:
        if kind not in (FOLLOWS, WRONG):
            reasons[f"{kind}: {said}"].append(case)
    for reason, cases in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases):4} x {reason} ({', '.join(list(dict.fromkeys(cases))[:6])})")
    wrong = list(dict.fromkeys(case for kind, _, _, case in found if kind == WRONG))
    if wrong:
        print(f"WRONG: {', '.join(wrong)}")
    count = collections.Counter(kind for kind, _, _, _ in found)
    refused = count[REFUSES] / max(1, len(found))
    print(f"{count[FOLLOWS]} of {len(found)} runs follow, {count[REFUSES]} refused ({100 * refused:.1f} %)" + (f"; {aside} cases set aside" if aside else ""))
    return bool(found) and count[FOLLOWS] + count[KNOWN] + count[REFUSES] == len(found) and refused <= most


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--cases", type=pathlib.Path, default=MODELS / "modules" / "cases")
    p.add_argument("--only", type=lambda text: text.split(","))
    p.add_argument("--meshes", type=lambda text: [int(word) for word in text.split(",")], help="numbers of MESHES; default: the first five, or 0,1,5 with --hf")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--limit", type=float, default=120, help="seconds of a compilation or a run")
    p.add_argument("--count", type=int, default=0)
    p.add_argument("--hf", action="store_true")
    p.add_argument("--torchscript", action="store_true")
    p.add_argument("--traced", action="store_true")
    p.add_argument("--today", action="store_true")
    p.add_argument("--exported", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--keep", type=pathlib.Path, help="where drawn cases and programs stay")
    a = p.parse_args()
    a.hf |= a.torchscript or a.traced
    a.drawn = "today" if a.today else "modules"
    a.meshes = a.meshes or ([0, 1, 5] if a.hf else list(range(5)))
    with tempfile.TemporaryDirectory() as folder:
        work = a.keep or pathlib.Path(folder)
        (work / "runs").mkdir(parents=True)
        aside = 0
        if a.count or a.hf:
            a.cases = work / "cases"
            aside = draw(a, a.cases)
        cases = sorted(path.parent for path in a.cases.glob("*/trajectory.json") if not a.only or path.parent.name in a.only)
        with ThreadPoolExecutor(a.jobs) as pool:
            found = sum(pool.map(lambda case: follow_all(a, case, work / "runs", a.meshes), cases), [])
        follows = summary(found, aside, REFUSED_EXPORTED if a.exported else REFUSED_TODAY if a.today else REFUSED)
        if a.traced:
            follows &= send_alike(a, cases)
        if a.count and not a.exported:
            follows &= follow_remedy(a, found, work)
    sys.exit(0 if follows else 1)


if __name__ == "__main__":
    main()
