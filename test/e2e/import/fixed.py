"""A model with a batch size that is fixed in the file, and with constants of batch size that exporters fold, runs on several ranks.

Compares losses and gradient norms of SGD steps with numpy in f64, on one, two and four ranks, for every strategy.
"""

import numpy as np

import onnx_writer as onnx
from runner import Deviates, largest, main, metrics, run, save_safetensors

ROWS, LENGTH, WORDS, WIDTH, STEPS, RATE = 4, 6, 16, 8, 4, 0.5


def weights():
    rng = np.random.default_rng(7)
    return rng.normal(size=(WORDS, WIDTH)).astype(np.float32), rng.normal(size=(WIDTH, WORDS)).astype(np.float32)


def model(table, head):
    """scores = (lower(ones) / LENGTH) (table[ids] + 0.1 row) head; each row ignores labels beyond its own length."""
    def const(name, values, dims=None):
        return onnx.node("Constant", [], [name], "const_" + name, value=onnx.ints("", dims or [len(values)], values))

    nodes = [
        const("first", [0], []), const("last", [ROWS], []), const("step", [1], []), const("rows", [ROWS, 1, 1]), const("wide", [ROWS, LENGTH, LENGTH]),
        const("grid", [ROWS, LENGTH]), const("classes", [-1, WORDS]), const("all", [-1]), const("places", list(range(LENGTH))), const("ignored", [-100]), const("column", [ROWS, 1]),
        onnx.node("Range", ["first", "last", "step"], ["number"], "range"), onnx.node("Cast", ["number"], ["numberf"], "cast", to=onnx.FLOAT),
        onnx.node("Reshape", ["numberf", "rows"], ["number3"], "reshape"), onnx.node("Mul", ["number3", "tenth"], ["offset"], "tenths"),
        onnx.node("Expand", ["sixth", "wide"], ["full"], "expand"), onnx.node("Trilu", ["full"], ["mask"], "trilu", upper=0),
        onnx.node("Gather", ["table", "ids"], ["h"], "embed"), onnx.node("Add", ["h", "offset"], ["shifted"], "add"),
        onnx.node("MatMul", ["mask", "shifted"], ["mixed"], "mix"), onnx.node("MatMul", ["mixed", "head"], ["scores"], "head"),
        # In row number `row` the first LENGTH - row labels count.
        onnx.node("Add", ["number", "places0"], ["less"], "count"), onnx.node("Reshape", ["less", "column"], ["less2"], "reshape_count"),
        onnx.node("Add", ["less2", "places"], ["sum"], "position"), onnx.node("Less", ["sum", "length"], ["keep"], "less"),
        onnx.node("Where", ["keep", "targets", "ignored"], ["kept"], "where"),
        onnx.node("Reshape", ["scores", "classes"], ["logits"], "rows"), onnx.node("Reshape", ["kept", "all"], ["labels"], "labels"),
        onnx.node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "cross", ignore_index=-100)]
    inputs = [onnx.value(name, [ROWS, LENGTH], onnx.INT64) for name in ("ids", "targets")]
    constants = [onnx.floats("tenth", [1], [0.1]), onnx.floats("sixth", [1], [1 / LENGTH]), onnx.ints("places0", [1], [0]), onnx.ints("length", [1], [LENGTH])]
    states = [onnx.floats("table", [WORDS, WIDTH], table.ravel()), onnx.floats("head", [WIDTH, WORDS], head.ravel())]
    return onnx.model(onnx.graph(nodes, inputs, [onnx.value("loss", [])], states + constants))


def follow(table, head, ids, targets):
    """Losses and norms of plain SGD."""
    table, head = table.astype(np.float64), head.astype(np.float64)
    mask = np.tril(np.ones((LENGTH, LENGTH))) / LENGTH
    keep = (np.arange(ROWS)[:, None] + np.arange(LENGTH)) < LENGTH
    result = []
    for words, wanted in zip(ids, targets):
        h = table[words] + 0.1 * np.arange(ROWS)[:, None, None]
        mixed = mask @ h
        scores = mixed @ head
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        picked = np.take_along_axis(p, wanted[..., None], -1)[..., 0]
        d = p.copy()
        np.put_along_axis(d, wanted[..., None], picked[..., None] - 1, -1)
        d *= keep[..., None] / keep.sum()
        d_head = np.einsum("bti,btj->ij", mixed, d)
        d_table = np.zeros_like(table)
        np.add.at(d_table, words, mask.T @ (d @ head.T))
        result.append((-(np.log(picked) * keep).sum() / keep.sum(), np.sqrt((d_head**2).sum() + (d_table**2).sum())))
        table -= RATE * d_table
        head -= RATE * d_head
    return result


def check(a, folder):
    table, head = weights()
    (folder / "model.onnx").write_bytes(model(table, head))
    rng = np.random.default_rng(3)
    ids, targets = rng.integers(0, WORDS, (2, STEPS, ROWS, LENGTH))
    save_safetensors(folder / "data.safetensors", {"ids": ids, "targets": targets})
    expected = follow(table, head, ids, targets)
    worst = 0.0
    for ranks, strategies in ((1, ["none"]), (2, ["none", "optimizer", "grad", "full"]), (4, ["full"])):
        for strategy in strategies:
            name, program = f"{strategy} on {ranks}", folder / f"{strategy}-{ranks}"
            made = run([f"{a.build}/bin/shalec", folder / "model.onnx", "-o", program, "--mesh", f"fsdp={ranks}", "--shard", strategy, "--optimizer", "sgd"], name)
            if "the first, of 4, is used as the batch" not in made.stderr:
                raise Deviates(f"{name}: no note on the batch: {made.stderr}")
            rows = run([program, "--describe"], name).stdout
            if f"ids I64 [{ROWS // ranks}, {LENGTH}] per rank" not in rows:
                raise Deviates(f"{name}: the batch is not shared out: {rows}")
            out = folder / (program.name + "-out")
            run([program, "--data", folder / "data.safetensors", "--steps", STEPS, "--lr", RATE, "--momentum", 0, "--weight-decay", 0, "--schedule", "constant",
                 "--warmup", 0, "--clip-grad-norm", 0, "--out", out, "--nproc", ranks], name)
            for line, (loss, norm) in zip(metrics(out), expected, strict=True):
                worst = largest([worst, abs(line["loss"] - loss), abs(line["grad_norm"] / norm - 1)])
                if not abs(line["loss"] - loss) <= 2e-5 or not abs(line["grad_norm"] / norm - 1) <= 1e-4:
                    raise Deviates(f"{name}, step {line['step']}: loss {line['loss']}, norm {line['grad_norm']}; numpy has {loss}, {norm}")
    return f"six programs follow numpy, deviating by {worst:.2g} at most"


main(check)
