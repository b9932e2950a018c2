"""Programs of test/models/llama on meshes with and without tensor axes, and the layouts that shale-opt plans."""
from runner import Deviates, read_program, run, same_bits

COLUMNS, ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ("o_proj", "down_proj")
PLAN = "|".join(COLUMNS) + "=column," + "|".join(ROWS) + "=row"
VOCABULARY = ",embed=row,lm_head=column"
CONSTANT = ["--schedule", "constant"]
# Name: strategy, mesh, plan. On four tensor ranks the two key-value heads are repeated.
PROGRAMS = {
    "one": ("none", "fsdp=1", None),
    "tp2": ("none", "tp=2", PLAN + VOCABULARY),
    "tp4": ("none", "tp=4", PLAN.replace("|k_proj|v_proj", "")),
    "both": ("full", "fsdp=2,tp=2", PLAN + VOCABULARY),
    "grad": ("grad", "tp=2,fsdp=2", PLAN),
    "replicas": ("none", "replica=2,tp=2", PLAN + ",embed=column"),
    "shards": ("full", "fsdp=4", None),
    "found": ("full", "fsdp=2,tp=2", None),
}
SPLIT = "embed_tokens|lm_head=whole"


def compile_all(case, work, names):
    for name in names:
        shard, mesh, plan = PROGRAMS[name]
        case.shalec(work / name, shard, 1, ["--mesh", mesh, *(["--tensor", plan] if plan else [])])


def check_exports(case, work, names):
    """The weights at step 0, by the source of the initial values."""
    first = {}
    for name in names:
        for source in ("file", "folder", "random:7"):
            out = work / f"start-{name}-{source[:6]}"
            init = {"file": [], "folder": ["--init", work / f"start-{names[0]}-file"]}.get(source, ["--init", source])
            case.train(work / name, out, steps=0, flags=[*CONSTANT, *init])
            text = (out / "model.safetensors").read_bytes()
            if first.setdefault(source[:6], text) != text:
                raise Deviates(f"{name}: the weights at step 0 from {source} differ from those of {names[0]}")
    if first["file"] != first["folder"] or first["file"] == first["random"]:
        raise Deviates("--init made no difference, or the wrong one")


def check_resumes(case, work, chains):
    for chain in chains:
        out, steps = work / ("-".join(chain)), case.steps // len(chain)
        for place, name in enumerate(chain):
            flags = [*CONSTANT, *(["--resume", "must"] if place else []), *(["--stop-after", steps * (place + 1)] if place + 1 < len(chain) else [])]
            form = ["--checkpoint", "full"] if place % 2 and len(chain) > 2 else []
            case.train(work / name, out, flags=[*flags, *form], what=f"{name} of {'-'.join(chain)}")
        case.check_metrics(out)
        case.check_weights(out)
    whole, parts = work / "whole", work / "parts"
    case.train(work / "both", whole, flags=CONSTANT)
    case.train(work / "both", parts, flags=[*CONSTANT, "--stop-after", 9])
    case.train(work / "both", parts, flags=[*CONSTANT, "--resume", "must"])
    same_bits(whole, parts, "a run at once and a resumed one")


def splits(case, ir, options=""):
    """The layouts over tensor axes that the pass gives to arguments and results of functions: for each function pairs of the layout, None if
    the value is whole, and the name of the state, None of another value. Also returns the program with the layouts."""
    split = ir.with_suffix(".split.mlir")
    run([case.bin / "shale-opt", ir, f"--shale-plan-sharding{options}", "-o", split], "shale-opt")
    program = read_program(case.bin, split)
    return [[(value.get("dist.sharding"), value.get("nn.state"))
             for value in (*function.attributes.get("arg_attrs", []), *function.attributes.get("res_attrs", []))]
            for function in program.ops("func.func")], program


def has_layouts(found):
    """Whether a value has a layout in what splits() found."""
    return any(layout for function in found for layout, _ in function)
