#!/usr/bin/env python3
"""The output folder of a run holds the model's state_dict.

usage: e2e statedict --build DIR

It holds parameters and buffers, including buffers that the program has as constants or not at all, but none that the state_dict leaves
out. It is one file or several with an index, and the next run can start from either.
"""
import json

import numpy as np

from onnx_writer import floats, graph, model, node, value
from runner import Deviates, main, read_safetensors, run, save_safetensors

SIGNATURE = """
# inputs
p_m_l_weight: PARAMETER target='m.l.weight'
p_m_o_weight: PARAMETER target='m.o.weight'
b_m_n_scale: BUFFER target='m.n.scale' persistent=True
b_m_n_shift: BUFFER target='m.n.shift' persistent=False
b_m_n_count: BUFFER target='m.n.count' persistent=True
x: USER_INPUT

# outputs
y: USER_OUTPUT
"""
WIDTH = 48


def arguments(name, *names):
    return {"pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target=torch.ops.aten.op.default](args = (%s), kwargs = {})"
            % (name, ", ".join("%" + name for name in names))}


def write(folder):
    """y = tanh(x L) O * scale + shift."""
    rng = np.random.default_rng(3)
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("l.weight", (WIDTH, WIDTH)), ("o.weight", (WIDTH, WIDTH)), ("n.scale", WIDTH), ("n.shift", WIDTH))}
    nodes = [node("MatMul", ["x", "m.l.weight"], ["p"], "p", meta=arguments("p", "x", "p_m_l_weight")), node("Tanh", ["p"], ["t"], "t"),
             node("MatMul", ["t", "m.o.weight"], ["q"], "q", meta=arguments("q", "t", "p_m_o_weight")),
             node("Mul", ["q", "m.n.scale"], ["s"], "s", meta=arguments("s", "q", "b_m_n_scale")),
             node("Add", ["s", "m.n.shift"], ["y"], "y", meta=arguments("y", "s", "b_m_n_shift"))]
    tensors = [floats("m." + name, list(array.shape), array.ravel().tolist()) for name, array in values.items()]
    shape = ["batch", WIDTH]
    (folder / "model.onnx").write_bytes(model(graph(nodes, [value("x", shape)], [value("y", shape)], tensors, meta={
        "pkg.torch.export.ExportedProgram.graph_signature": SIGNATURE})))
    save_safetensors(folder / "data.safetensors", {name: rng.standard_normal((4, 4, WIDTH)).astype(np.float32) for name in ("x", "target")})
    return values


def expect(got, want, what):
    if sorted(got) != sorted(want):
        raise Deviates(f"{what}: names are {sorted(got)}, wanted {sorted(want)}")
    for name, array in want.items():
        if array is not None and not np.array_equal(got[name], array):
            raise Deviates(f"{what}: {name} has other values")


def check(a, work):
    values = write(work)
    program = work / "train"
    run([f"{a.build}/bin/shalec", work / "model.onnx", "-o", program, "--dim", "batch=4", "--loss", "mse:y,target", "--mesh", "fsdp=2",
         "--shard", "full"], "shalec")

    def train(name, steps, *flags):
        return run([program, "--data", work / "data.safetensors", "--steps", steps, "--out", work / name, *flags], name).stdout

    said = train("first", 0)
    weight, scale = values["l.weight"], values["n.scale"]
    other = values["o.weight"]
    names = {"l.weight": weight, "o.weight": other, "n.scale": scale}
    expect(read_safetensors(work / "first" / "model.safetensors"), names, "from the model's file")
    if "(n.count)" not in said:
        raise Deviates(f"the missing buffer is not named: {said}")
    # Other tensors of --init are kept, also when the run is resumed without --init.
    given = {"l.weight": weight + 1, "o.weight": other + 1, "n.scale": scale * 2, "n.count": np.array(7, np.int64)}
    save_safetensors(work / "given.safetensors", given)
    said = train("second", 1, "--init", work / "given.safetensors", "--stop-after", 1)
    if "strict" in said:
        raise Deviates(f"nothing is missing: {said}")
    train("second", 2)
    trained = read_safetensors(work / "second" / "model.safetensors")
    expect(trained, {**given, "l.weight": None, "o.weight": None}, "from given weights")
    if np.array_equal(trained["l.weight"], given["l.weight"]) or np.array_equal(trained["o.weight"], given["o.weight"]):
        raise Deviates("a weight was not trained")
    # Files of at most 10 kB: each weight has its own, and the index names it.
    large = weight.nbytes + 200
    train("third", 2, "--init", work / "given.safetensors", "--file-size", large, "--checkpoint", "full")
    for folder in (work / "third", work / "third" / "checkpoints" / "step-00000002"):
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        if len(files) < 2 or files[0] != f"model-00001-of-{len(files):05d}.safetensors" or (folder / "model.safetensors").exists():
            raise Deviates(f"{folder.name}: files are {files}")
        joined = {}
        for file in files:
            tensors = read_safetensors(folder / file)
            if any(index["weight_map"][name] != file for name in tensors) or sum(t.nbytes for t in tensors.values()) > large:
                raise Deviates(f"{file} does not hold what the index says, or too much")
            joined.update(tensors)
        if index["metadata"]["total_size"] != sum(t.nbytes for t in joined.values()) or sorted(joined) != sorted(index["weight_map"]):
            raise Deviates(f"{folder.name}: the index is not of its files")
        # A checkpoint also holds the state for resuming, but not the kept tensors.
        expect({name: array for name, array in joined.items() if name != "n.shift"},
               trained if folder.name == "third" else {name: trained[name] for name in ("l.weight", "o.weight")}, folder.name)
    # One file again: a run that starts from the shards has the same weights.
    train("fourth", 0, "--init", work / "third")
    expect(read_safetensors(work / "fourth" / "model.safetensors"), trained, "from shards")
    train("third", 2, "--file-size", "1GB")
    if list((work / "third").glob("model-*")) or (work / "third" / "model.safetensors.index.json").exists():
        raise Deviates("shards of the run before are still there")
    expect(read_safetensors(work / "third" / "model.safetensors"), trained, "in one file again")
    return "names and values of the state_dict in one file and in several, from the model's file and from given weights"


if __name__ == "__main__":
    main(check)
