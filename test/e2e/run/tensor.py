#!/usr/bin/env python3
"""Tensor parallelism: what ranks store, send and resume.

usage: e2e tensor --build DIR [--all]

Llama on meshes with a tensor axis, by plans that are typed and by the plan that is found:

- The weights that a program writes at step 0 have the same bytes on every mesh: those of the file, those of --init FOLDER and those of
  --init random:SEED.
- A run is the same bits at once and in two parts. A checkpoint of fsdp=2,tp=2 goes on along PyTorch's trajectory without a tensor axis, on
  another number of tensor ranks and on more shards, and the other way round; a checkpoint in the full form, too.
- Without sequence parallelism a rank sends, per block, two all-reduces of its activations in the forward pass and two in the backward
  pass, none of a vector. With it, a block has two reduce-scatters and two all-gathers in the forward pass, and two and four in the
  backward pass; the gradients of parameters that no tensor axis splits are summed once per unit. The expected bytes follow from the
  shapes of PyTorch's final weights.
- After the deletion of any collective the interpreter computes other results.
- The plan that is found for a block of Llama, GPT-2, ViT and plain is that of brute force over all parameters, and the same after all names
  are changed. A block of GPT-2 or ViT needs as many sums as one of Llama, although one matmul computes queries, keys and values of GPT-2.
"""
import json
import re
import shutil
from collections import Counter

import numpy as np

from deletions import mutate
from runner import MODELS, Case, Deviates, main, read_program, read_safetensors, stage_files
from tensor_programs import COLUMNS, PLAN, PROGRAMS, ROWS, SPLIT, VOCABULARY, check_exports, check_resumes, compile_all, has_layouts, splits


def check_sent(case, work, sequence):
    """Bytes per step of fsdp=2,tp=2 with a whole vocabulary, by kind and axis."""
    case.shalec(work / "sent", "full", 1, ["--mesh", "fsdp=2,tp=2", "--tensor", f"{PLAN},{SPLIT}", "--sequence-parallel", sequence])
    case.train(work / "sent", work / f"run-sent-{sequence}", steps=2, flags=["--save-every", 0, "--report-buffers", work / "report.json"])
    shapes = {name: value.shape for name, value in read_safetensors(case.folder / case.final).items()}
    rows = int(np.prod(read_safetensors(case.batches)["input_ids"].shape[1:])) // 2 # a half for each shard
    width = next(shape[1] for name, shape in shapes.items() if "embed" in name)
    blocks = len({name.split("layers.")[1].split(".")[0] for name in shapes if "layers." in name})
    half = rows * width // 2 * 4  # bytes of the rows of activations that a tensor rank sends
    want = Counter({("all-reduce", "tp"): 4 * blocks * 2 * half} if sequence == "false" else
                   {("reduce-scatter", "tp"): 4 * blocks * half, ("all-gather", "tp"): 6 * blocks * half})
    # Gathers and reductions over fsdp: the parts of a block that a tensor rank holds, and the vectors; 64 bytes are 16 elements.
    units = Counter()
    for name, shape in shapes.items():
        unit = name.split("layers.")[1].split(".")[0] if "layers." in name else "root" if "norm" in name else name
        split = any(part in name for part in (*COLUMNS, *ROWS))
        units[unit, split] += int(np.prod(shape)) // (2 if split else 1)
    for (unit, split), elements in units.items():
        if sequence != "false" and not split:
            want["all-reduce", "tp"] += 2 * (2 - 1) * elements // 2 * 4
        if elements % 16:
            raise Deviates(f"the shapes of {unit} need padding")
        want["all-gather", "fsdp"] += (2 if unit.isdigit() else 1) * elements // 2 * 4
        want["reduce-scatter", "fsdp"] += elements // 2 * 4
    scalars = {("all-reduce", axis, 8) for axis in ("fsdp", "tp")}
    for rank in json.loads((work / "report.json").read_text()):
        found = Counter()
        for site in rank["sent"]:
            if (site["kind"], site["axis"], site["bytes"]) not in scalars:
                found[site["kind"], site["axis"]] += site["bytes"]
        if found != want:
            raise Deviates(f"rank {rank['rank']} sends {dict(found)}, not {dict(want)}")
    return sum(want.values())


def check_mutants(case, work):
    files = stage_files(case, work / "ir", "rt", "full", 1, ["--mesh", "fsdp=2,tp=2", "--tensor", PLAN + VOCABULARY])
    return mutate(case, files["partition"])[0] + mutate(case, files["plan"])[0]


def renamed(program):
    """The text of a program with other names of modules and parameters; indices and dots stay."""
    words, text = {}, program.text

    def other(found):
        return ".".join(part if part.isdigit() or not part else words.setdefault(part, f"n{len(words)}") for part in found[0].split("."))
    names = {name for name, state in program.symbols("nn.state").items() if state.word("role") in ("param", "divided")}
    scopes = {op.attributes["nn.scope"] for op in program.walk() if "nn.scope" in op.attributes}
    for name in sorted(names | scopes, key=len, reverse=True):
        text = re.sub(rf'(?<![\w.]){re.escape(name)}(?![\w.])', lambda found: re.sub(r"[\w.]+", other, found[0]), text)
    return text


def check_found(a, work):
    """Compares the found plan with brute force, and with that of other names."""
    for name in ("llama", "gpt2", "vit", "plain"):
        case = Case(a.build, MODELS / name)
        folder = work / f"ir-{name}"
        ir = stage_files(case, folder, "dist", "none", 1, ["--mesh", "tp=2"])["precision"]
        found, _ = splits(case, ir)
        if not has_layouts(found):
            raise Deviates(f"{name}: nothing is split")
        if found != splits(case, ir, "=exhaustive")[0]:
            raise Deviates(f"{name}: brute force finds another plan")
        (folder / "renamed.mlir").write_text(renamed(read_program(case.bin, ir)))
        layouts = [[layout for layout, _ in function] for function in found]
        again, program = splits(case, folder / "renamed.mlir")
        parameters = [name for name, state in program.symbols("nn.state").items() if state.word("role") == "param"]
        if re.search("weight|bias|mlp", " ".join(parameters)) or [[layout for layout, _ in function] for function in again] != layouts:
            raise Deviates(f"{name}: with other names another plan is found")
    for name, tables in (("llama", "embed|lm_head"), ("gpt2", "wte"), ("vit", "embeddings|classifier")):
        case = Case(a.build, MODELS / name)
        said = case.shalec(work / "planned", "none", 1, ["--mesh", "tp=2", "--tensor", f"{tables}=whole", "--plan-only", "--sequence-parallel=false"])
        sums = re.search(r"(\d+) all-reduce over tp", said)
        if not sums or int(sums[1]) != 2 * 4 + 1:  # two blocks, and the squared norm
            raise Deviates(f"{name}: {sums and sums[1]} sums of two blocks")
    return "plans are those of brute force"


def check(a, work):
    case = Case(a.build, MODELS / "llama")
    names = list(PROGRAMS) if a.all else ["one", "tp2", "tp4", "both", "shards", "found"]
    compile_all(case, work, names)
    check_exports(case, work, names)
    chains = [("both", "one"), ("both", "tp4", "shards", "tp2")]
    check_resumes(case, work, [*chains, ("shards", "grad", "replicas", "both", "one")] if a.all else chains)
    sent = [check_sent(case, work, sequence) for sequence in ("true", "false")]
    shutil.rmtree(work / "ir", ignore_errors=True)
    found = check_found(a, work)
    return f"{found}; {len(names)} meshes export and resume alike; {sent[0]} and {sent[1]} bytes are sent per step; {check_mutants(case, work)} deleted collectives were noticed"


if __name__ == "__main__":
    main(check, ("--all", {"action": "store_true"}), success="tensor:")
