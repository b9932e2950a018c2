"""The parts of the GPU benchmark: their programs, sizes and bars."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "models"
sys.path.insert(0, str(HERE.parents[1] / "e2e" / "lib"))

BF16 = ["--param-dtype", "bf16"]
ALL_BF16 = [*BF16, "--reduce-dtype", "bf16"]
# Bars: utilization, and tokens per second relative to PyTorch's. `lookup`: parameters that do not count, since both
# sides of Llama 1B have an embedding besides the head. Both sides of Llama 8B fit into a GPU of 80 GB; PyTorch's recomputes every block.
# `seconds`: the limit of a run of either side; the rounds of both end within ten minutes. Weights of 8B parameters take minutes to make.
SIZES = {
    "gpt2-124m": dict(scale="gpt2-124m", torch="gpt2-124m", batch=64, length=1024, layers=12, width=768, vocabulary=50257, flags=BF16,
                      bars=(0.40, 1.1), rounds=2, seconds=130),
    "llama-1b": dict(scale="llama-3.2-1b", torch="llama-1b", batch=8, length=2048, layers=16, width=2048, vocabulary=128256, flags=BF16,
                     lookup=128256 * 2048, bars=(0.50, 1.1), rounds=2, seconds=140),
    "llama-8b": dict(scale="llama-8b", torch="llama-8b", batch=2, length=4096, layers=32, width=4096, vocabulary=128256,
                     flags=[*BF16, "--master-dtype", "none", "--optimizer-dtype", "bf16", "--recompute", "auto", "--memory-limit", "79GiB"],
                     bars=(0.40, 1.05), rounds=1, seconds=280),
}
# The same with other recomputation, without PyTorch's side: what `auto` is chosen from.
SIZES |= {f"llama-8b-{kind}": dict(SIZES["llama-8b"], torch=None, bars=None, flags=[*SIZES["llama-8b"]["flags"][:-4], "--recompute", kind])
          for kind in ("block", "selective")}
SMALL = dict(batch=4, length=64, layers=2, width=64, vocabulary=256)
PARTS = ["kernels", "fixtures", *SIZES]
LIBRARIES = "libs"  # the folder of shared libraries of all programs
CASES = "cases.json"  # beside the programs: the fixtures that were compiled


def archive(folder, part):
    return folder / f"{part}.tar.xz"


def fixtures(cases):
    """Programs of fixtures: name of the fixture, ranks, strategy, flags of the program, 16-bit floats."""
    return [(case, ranks, "none" if ranks == 1 else "full", ["--comm", "staged"] if ranks > 1 else [], dtype)
            for case in cases for ranks in (1, 2, 3 if case == "plain" else 4) for dtype in ("f32", "bf16") if dtype == "f32" or ranks == 1]


def alone(cases):
    """Fixtures on one rank whose collectives remain."""
    return [(case, dtype) for case in cases for dtype in ("f32", "bf16")]


def shared(cases):
    """Fixtures whose ranks share a GPU over NCCL: name of the fixture, sizes of its mesh, type of parameters and reductions. Reductions of
    16-bit floats are exchanges, and meshes of two axes have two communicators."""
    return [(case, (2,), "f32") for case in cases] + [(cases[0], (2,), "bf16")] + [("gpt2", (2, 2), dtype) for dtype in ("f32", "bf16") if "gpt2" in cases]


# Optimizers with a trajectory of their own in the fixture gpt2, beside AdamW, which all other programs have.
OPTIMIZERS = ("adafactor", "adamw8bit", "lamb", "lion", "muon")


def optimizers(cases):
    """Programs of gpt2 with other optimizers: name of the optimizer, ranks. With few cases only one."""
    return [(name, ranks) for name in OPTIMIZERS for ranks in (1, 2)] if "gpt2" in cases else [("muon", 2)]


def trajectory_of(name):
    return f"trajectory-optimizer-{name}.json"


def offloaded(cases):
    """Programs of one rank whose state and activations are on the host: names of fixtures, and the types of their parameters."""
    return [(case, dtype) for case in cases if case != "llama" for dtype in ("f32", "bf16")]


def tensor(cases):
    """Programs with a tensor axis: name of the fixture, sizes of the axes fsdp and tp, type. With few cases only one."""
    return [(case, (2, 2), dtype) for case in ("gpt2", "llama") for dtype in ("f32", "bf16")] if "gpt2" in cases else [("gpt2", (1, 2), "f32")]


def program_name(case, ranks, dtype):
    """`ranks` is a number, the sizes of a mesh, or a word."""
    return f"{case}-{'x'.join(map(str, ranks)) if isinstance(ranks, tuple) else ranks}-{dtype}"
