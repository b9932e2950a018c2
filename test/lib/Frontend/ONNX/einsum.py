"""Imports each equation below as a graph with one Einsum, runs it and compares it with numpy's einsum: einsum.py FOLDER.

The loss is a weighted sum of the result, so every element counts. All numbers are small integers, so sums are exact in any order.
Gradients are compared with central differences.
"""
import pathlib
import sys

import numpy as np

from definition import expect_refusal, run
from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

CASES = [  # equation, shapes of operands
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk->ki", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("ji,jk->ik", (4, 3), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("kj , ja", (3, 4), (4, 5)),  # the result is "ak"
    ("btd,df->btf", (2, 3, 4), (4, 5)),
    ("btd,dhk->bhtk", (2, 3, 4), (4, 2, 5)),
    ("bhtk,hkd->btd", (2, 2, 3, 5), (2, 5, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)),
    ("abc,cbd->dab", (2, 3, 4), (4, 3, 5)),
    ("abc,dcb->ad", (2, 3, 4), (5, 4, 3)),
    ("i,j->ij", (3,), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("bi,bi->b", (2, 3), (2, 3)),
    ("bti,i->bti", (2, 3, 4), (4,)),
    ("bi,bij->bj", (2, 3), (2, 3, 4)),
    ("ab,cd->bd", (2, 3), (4, 5)),
    (",ij->ji", (), (3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 6)),
    ("...i,i...", (2, 3, 4), (4, 3)),
    ("i...,...j->ij...", (3, 2, 5), (2, 5, 4)),
    ("b...d,d->b...", (2, 3, 5, 4), (4,)),
    ("ij,ij->ij", (1, 4), (3, 1)),
    ("aij,ajk->aik", (1, 3, 4), (2, 4, 1)),
    ("ii,ij->j", (3, 3), (3, 4)),
    ("iji,jj->ij", (3, 4, 3), (4, 4)),
    ("aabb,bc->ac", (2, 2, 3, 3), (3, 4)),
    ("ijk->kj", (2, 3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("a...i->i", (2, 3, 4, 5)),
    ("...ii->...i", (2, 3, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)),
    ("ij,k,jl->li", (2, 3), (4,), (3, 5)),
]

BAD = [  # equation, shapes of operands, part of the error
    ("ij,jk->ik", ((3, 4), (5, 6)), "dimension 'j' has sizes 4 and 5"),
    ("ij,jk->ik", ((3, 4), (4, 5, 6)), "operand 1 has 3 dimensions, the equation names 2"),
    ("...ijk->i", ((3, 4),), "operand 0 has 2 dimensions, the equation names 3"),
    ("...i,...i->...", ((2, 3), (4, 3)), "dimensions of the ellipsis have sizes 2 and 4"),
    ("ij,jk", ((3, 4),), "the equation has 2 terms, the node has 1 operands"),
    ("ij", ((3, 4), (4, 5)), "the equation has 1 terms, the node has 2 operands"),
    ("ij->k", ((3, 4),), "the result's dimension 'k' is in no operand"),
    ("ij->ii", ((3, 4),), "the result names dimension 'i' twice"),
    ("ii->i", ((3, 4),), "dimension 'i' has sizes 3 and 4"),
    ("ii->i", ((1, 4),), "the diagonal of 'i' has sizes 1 and 4"),
    ("i1->i", ((3, 4),), "the equation has '1', which is neither a letter nor '...'"),
    ("i.j->i", ((3, 4),), "the equation has '.', which is neither a letter nor '...'"),
    ("ij->i->j", ((3, 4),), "the equation has '-', which is neither a letter nor '...'"),
    ("......->", ((3, 4),), "the equation has two ellipses in one term"),
    ("i,j,k,l->ijkl", ((1 << 20,),) * 4, "the result's size overflows 64 bits"),
    (None, ((3, 4),), "has no equation"),
    (7, ((3, 4),), "attribute 'equation' must be a string"),
]
# Without an ellipsis in the result its dimensions are summed, as in PyTorch. numpy needs letters for this.
LETTERS = {"a...i->i": "abci->i"}


def check(folder, equation, shapes):
    random = np.random.default_rng(len(equation) * 31 + len(shapes[0]))
    arrays = {f"x{i}": random.integers(-9, 10, shape).astype(np.float32) for i, shape in enumerate(shapes)}
    expected = np.einsum(LETTERS.get(equation, equation.replace(" ", "")), *arrays.values())
    arrays["weight"] = random.integers(-9, 10, expected.shape).astype(np.float32)
    body = [node("Einsum", [f"x{i}" for i in range(len(shapes))], ["y"], "einsum", equation=equation),
            node("Mul", ["y", "weight"], ["z"]), node("ReduceSum", ["z"], ["loss"], keepdims=0)]
    weights = [floats(name, list(array.shape), array.flatten()) for name, array in arrays.items() if name != "weight"]
    inputs = [value("weight", list(expected.shape))]
    (folder / "model.onnx").write_bytes(model(graph(body, inputs, [value("loss", [])], weights)))
    save_safetensors(folder / "inputs.safetensors", arrays)
    text = run("shale-translate", "--import-onnx", folder / "model.onnx")
    (folder / "model.mlir").write_text(text)
    run("shale-run", "--check-gradient", f"--inputs={folder}/inputs.safetensors", f"--out={folder}/out.safetensors", folder / "model.mlir")
    loss = read_safetensors(folder / "out.safetensors")["loss"]
    wanted = (expected * arrays["weight"]).sum()
    if loss != wanted:
        sys.exit(f"{equation} {shapes}: {loss}, numpy says {wanted}")
    ops = [line.split("nn.")[1].split()[0] for line in text.splitlines() if " = nn." in line]
    print(f"{equation}: as numpy, by {' '.join(op for op in ops[:-3] if op != 'constant')}")


def refuse(folder, equation, shapes, message):
    attributes = {} if equation is None else {"equation": equation}
    names = [f"x{i}" for i in range(len(shapes))]
    body = [node("Einsum", names, ["y"], "einsum", **attributes), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    inputs = [value(name, list(shape)) for name, shape in zip(names, shapes)]
    (folder / "model.onnx").write_bytes(model(graph(body, inputs, [value("loss", [])])))
    expect_refusal(folder / "model.onnx", f"node 'einsum' (Einsum): {message}", f"{equation}")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for equation, *shapes in CASES:
    check(folder, equation, shapes)
for case in BAD:
    refuse(folder, *case)
print(f"{len(CASES)} equations as numpy, {len(BAD)} refused")
