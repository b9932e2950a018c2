#!/usr/bin/env python3
"""A vocabulary that the tensor ranks do not divide: GPT-2 with 1003 classes, whose table is embedding and head, and one with 203, whose
head is a matrix of its own with the classes as its columns.

usage: e2e vocabulary --build DIR [--all]

- The weights that a program writes at step 0 have the same bytes on every mesh: the shapes of files are those of the model.
- Runs follow PyTorch's trajectory, also where a checkpoint goes on without a tensor axis, on another number of tensor ranks and on
  shards; a run is the same bits at once and in two parts.
- A rank holds a part of the padded logits, and no value has all classes.
"""
from runner import MODELS, Case, Deviates, main, read_program, stage_files
from tensor_programs import PROGRAMS, check_exports, check_resumes, compile_all

# Folder, classes, typed plan.
CASES = [("vocabulary", 1003, "wte=column"), ("vocabulary/columns", 203, "wte=row,lm_head=column")]


def check_logits(case, work, classes):
    for ranks in (2, 4):
        program = read_program(case.bin, stage_files(case, work / f"ir{ranks}", "dist", "none", 1, ["--mesh", f"tp={ranks}"])["memory"])
        rows, padded = 4 * 32, -(-classes // ranks) * ranks
        if f"tensor<{rows}x{padded // ranks}xf32>" not in {value.type for value in program.values()}:
            raise Deviates(f"tp={ranks}: there are no logits of {padded // ranks} classes")
        whole = [value.type for value in program.values() if value.element == "f32" and {classes, padded} & set(value.shape)]
        if whole:
            raise Deviates(f"tp={ranks}: a rank has a {whole[0]}")


def check(a, work):
    names = ["one", "vocabulary4", "vocabulary2", "both", "shards"]
    for folder, classes, plan in CASES:
        PROGRAMS.update({
            "vocabulary4": ("none", "tp=4", None),
            "vocabulary2": ("grad", "tp=2,fsdp=2", plan),
            "both": ("full", "fsdp=2,tp=2", None),
        })
        case, own = Case(a.build, MODELS / folder), work / str(classes)
        own.mkdir()
        compile_all(case, own, names)
        check_exports(case, own, names)
        chains = [("vocabulary4", "one"), ("both", "vocabulary4", "shards", "vocabulary2")]
        check_resumes(case, own, [*chains, ("shards", "vocabulary2", "both", "one", "vocabulary4")] if a.all else chains)
        check_logits(case, own, classes)
    return f"{len(CASES)} models on {len(names)} meshes export and resume alike"


if __name__ == "__main__":
    main(check, ("--all", {"action": "store_true"}), success="vocabulary:")
