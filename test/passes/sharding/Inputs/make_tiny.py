"""Writes a small transformer in nn for tests: tied table, odd sizes, two blocks.

usage: make_tiny.py BATCH [mse|frozen|tp|keys|dropout|padded|picks|contrast|untied|columns|shared|pairs]...

  dropout  dropout of attention probabilities
  keys     no key bias, since its true gradient is zero
  padded   an input masks keys, and each head has a bias
  picks    the loss selects probabilities by index
  untied   the head has a table of its own, and a bias
  columns  the same, stored [width, classes]
  shared   all heads have one key head
  pairs    the MLP is gated: even columns of its first matmul are gates of the odd ones
  contrast the loss compares the first position of every example with the last position of all examples, both ways
"""
import sys

batch = int(sys.argv[1])
flags = set(sys.argv[2:])
T, C, H, V, L = 6, 8, 2, 19, 2
if "tp" in flags:
    V = 18
N = batch * T
lines, args, states = [], [], []
counter = [0]


def new():
    counter[0] += 1
    return f"%v{counter[0]}"


def ty(*dims, element="f32"):
    return "tensor<" + "".join(f"{d}x" for d in dims) + element + ">"


def emit(text, scope=None):
    value = new()
    lines.append(f"  {value} = " + (text.replace("{}", f'{{nn.scope = "{scope}"}}', 1) if scope else text.replace(" {}", "", 1)))
    return value


def param(name, *dims, trained=True, split=None):
    value = "%p" + str(len(states))
    attrs = "" if trained else " {trained = false}"
    states.append(f'nn.state @"{name}" role = param type = {ty(*dims)}{attrs}')
    layout = ""
    if split is not None and "tp" in flags:
        axes = ", ".join('{"tp"}' if d == split else "{}" for d in range(len(dims)))
        layout = f", dist.sharding = #dist.sharding<[{axes}]>"
    args.append(f'{value}: {ty(*dims)} {{nn.state = @"{name}"{layout}}}')
    return value


def linear(x, name, k, n, scope, trained=True, split=None):
    w = param(name + ".weight", k, n, trained=trained, split=split)
    biased = not ("keys" in flags and name.endswith(".k"))
    b = param(name + ".bias", n, trained=trained, split=0 if split == 1 else None) if biased else None
    y = emit(f"nn.matmul {x}, {w} {{}} : ({ty(N, k)}, {ty(k, n)}) -> {ty(N, n)}", scope)
    if not biased:
        return y
    r = emit(f"nn.broadcast {b} dims = [1] {{}} : {ty(n)} -> {ty(N, n)}", scope)
    return emit(f"nn.add {y}, {r} {{}} : {ty(N, n)}", scope)


def norm(x, name, scope, trained=True):
    w = param(name + ".weight", C, trained=trained)
    b = param(name + ".bias", C, trained=trained)
    y = new()
    lines.append(f'  {y}, {y}m, {y}r = nn.layer_norm {x}, {w}, {b} epsilon = 1.000000e-05 {{nn.scope = "{scope}"}} : {ty(N, C)}, {ty(C)} -> {ty(N)}')
    return y


ids = f'%ids: {ty(batch, T, element="i64")} {{nn.role = #nn.role<input>, nn.name = "ids", nn.batch_dim = 0 : i64}}'
if "mse" in flags:
    labels = f'%labels: {ty(batch, T, V)} {{nn.role = #nn.role<label>, nn.name = "labels", nn.batch_dim = 0 : i64}}'
else:
    labels = f'%labels: {ty(batch, T, element="i64")} {{nn.role = #nn.role<label>, nn.name = "labels", nn.batch_dim = 0 : i64}}'
args += [ids, labels]
if "padded" in flags:
    args.append(f'%mask: {ty(batch, T, element="i64")} {{nn.role = #nn.role<input>, nn.name = "mask", nn.batch_dim = 0 : i64}}')
wte = param("wte.weight", V, C, split=0)
wpe = param("wpe.weight", T, C)
x = emit(f"nn.embedding {wte}, %ids {{}} : ({ty(V, C)}, {ty(batch, T, element='i64')}) -> {ty(batch, T, C)}", "wte")
# Positions in the form of exporters: an iota of batch size.
pos = emit(f"nn.iota dim = 1 : {ty(batch, T, element='i64')}")
p = emit(f"nn.embedding {wpe}, {pos} {{}} : ({ty(T, C)}, {ty(batch, T, element='i64')}) -> {ty(batch, T, C)}", "wpe")
x = emit(f"nn.add {x}, {p} : {ty(batch, T, C)}")
x = emit(f"nn.reshape {x} : {ty(batch, T, C)} -> {ty(N, C)}")
masks = ""
if "padded" in flags:
    seen, bias = ty(batch, 1, 1, T, element="i1"), ty(1, H, 1, T)
    whole = ty(batch, T, element="i64")
    three = emit(f"nn.constant dense<3> : {whole}")
    third = emit(f"nn.rem %mask, {three} : {whole}")
    truth = emit(f"nn.cast {third} : {ty(batch, T, element='i64')} -> {ty(batch, T, element='i1')}")
    truth = emit(f"nn.reshape {truth} : {ty(batch, T, element='i1')} -> {seen}")
    slopes = emit(f"nn.constant dense<{[[[[-0.1 * (h + 1) * t for t in range(T)]] for h in range(H)]]}> : {bias}")
    masks = f"mask {slopes} : {bias} seen {truth} : {seen} guard "
for layer in range(L):
    scope = f"h.{layer}"
    trained = not ("frozen" in flags and layer == 0)
    y = norm(x, f"{scope}.ln_1", scope, trained)
    heads = []
    for part in "qkv":
        count = 1 if "shared" in flags and part != "q" else H
        z = linear(y, f"{scope}.attn.{part}", C, count * (C // H), scope, trained, split=1)
        z = emit(f"nn.reshape {z} : {ty(N, count * (C // H))} -> {ty(batch, T, count, C // H)}")
        heads.append(emit(f"nn.transpose {z} perm = [0, 2, 1, 3] : {ty(batch, T, count, C // H)} -> {ty(batch, count, T, C // H)}"))
    h = ty(batch, H, T, C // H)
    g = ty(batch, count, T, C // H)
    o = new()
    drop = ""
    if "dropout" in flags:
        seed, step = emit("nn.constant dense<11> : tensor<i64>"), emit("nn.constant dense<2> : tensor<i64>")
        drop = f"dropout <ratio = 0.3 : f64, id = {4 + layer}> ({seed}, {step}, {step} : tensor<i64>, tensor<i64>, tensor<i64>) "
    lines.append(f"  {o}, {o}l = nn.attention {heads[0]}, {heads[1]}, {heads[2]} {masks}causal scale = 5.000000e-01 {drop}{{nn.scope = \"{scope}\"}} : {h}, {g}, {g} -> {h}, {ty(batch, H, T)}")
    o = emit(f"nn.transpose {o} perm = [0, 2, 1, 3] : {h} -> {ty(batch, T, H, C // H)}")
    o = emit(f"nn.reshape {o} : {ty(batch, T, H, C // H)} -> {ty(N, C)}")
    o = linear(o, f"{scope}.attn.proj", C, C, scope, trained, split=0)
    x = emit(f"nn.add {x}, {o} : {ty(N, C)}")
    y = norm(x, f"{scope}.ln_2", scope, trained)
    if "pairs" in flags:
        y = linear(y, f"{scope}.mlp.fc", C, 20, scope, trained, split=1)
        gate, up = (emit(f"nn.slice {y} starts = [0, {at}] limits = [{N}, 20] strides = [1, 2] {{}} : {ty(N, 20)} -> {ty(N, 10)}", scope) for at in (0, 1))
        gate = emit(f"nn.gelu {gate} {{}} : {ty(N, 10)}", scope)
        y = emit(f"nn.mul {gate}, {up} {{}} : {ty(N, 10)}", scope)
    else:
        y = linear(y, f"{scope}.mlp.fc", C, 10, scope, trained, split=1)
        y = emit(f"nn.gelu {y} {{}} : {ty(N, 10)}", scope)
    y = linear(y, f"{scope}.mlp.proj", 10, C, scope, trained, split=0)
    x = emit(f"nn.add {x}, {y} : {ty(N, C)}")
x = norm(x, "ln_f", "ln_f")
if "columns" in flags:
    head = param("lm_head.weight", C, V)
    logits = emit(f"nn.matmul {x}, {head} {{}} : ({ty(N, C)}, {ty(C, V)}) -> {ty(N, V)}", "lm_head")
else:
    head = param("lm_head.weight", V, C) if "untied" in flags else wte
    logits = emit(f"nn.matmul {x}, {head} transpose_rhs {{}} : ({ty(N, C)}, {ty(V, C)}) -> {ty(N, V)}", "lm_head")
if flags & {"untied", "columns"}:
    bias = param("lm_head.bias", V)
    r = emit(f"nn.broadcast {bias} dims = [1] {{}} : {ty(V)} -> {ty(N, V)}", "lm_head")
    logits = emit(f"nn.add {logits}, {r} {{}} : {ty(N, V)}", "lm_head")
one = emit("nn.constant dense<1.0> : tensor<f32>")
if "mse" in flags:
    flat = emit(f"nn.reshape %labels : {ty(batch, T, V)} -> {ty(N, V)}")
    d = emit(f"nn.sub {logits}, {flat} : {ty(N, V)}")
    d = emit(f"nn.mul {d}, {d} : {ty(N, V)}")
    total = emit(f"nn.reduce sum {d} dims = [0, 1] : {ty(N, V)} -> tensor<f32>")
    count = emit(f"nn.constant dense<{N * V}.0> : tensor<f32>")
elif "picks" in flags:
    p = emit(f"nn.softmax {logits} : {ty(N, V)}")
    at = emit(f"nn.reshape %labels : {ty(batch, T, element='i64')} -> {ty(N, 1, element='i64')}")
    picked = emit(f"nn.gather_nd {p}, {at} batch_dims = 1 : ({ty(N, V)}, {ty(N, 1, element='i64')}) -> {ty(N)}")
    logs = emit(f"nn.log {picked} : {ty(N)}")
    total = emit(f"nn.neg {logs} : {ty(N)}")
    total = emit(f"nn.reduce sum {total} dims = [0] : {ty(N)} -> tensor<f32>")
    count = emit(f"nn.constant dense<{N}.0> : tensor<f32>")
elif "contrast" in flags:
    x = emit(f"nn.reshape {x} : {ty(N, C)} -> {ty(batch, T, C)}")
    ends = []
    for at in (0, T - 1):
        end = emit(f"nn.slice {x} starts = [0, {at}, 0] limits = [{batch}, {at + 1}, {C}] strides = [1, 1, 1] : {ty(batch, T, C)} -> {ty(batch, 1, C)}")
        ends.append(emit(f"nn.reshape {end} : {ty(batch, 1, C)} -> {ty(batch, C)}"))
    square = ty(batch, batch)
    scores = emit(f"nn.matmul {ends[0]}, {ends[1]} transpose_rhs : ({ty(batch, C)}, {ty(batch, C)}) -> {square}")
    other = emit(f"nn.transpose {scores} perm = [1, 0] : {square} -> {square}")
    own = emit(f"nn.iota dim = 0 : {ty(batch, element='i64')}")
    totals = [new(), new()]
    for value, matrix in zip(totals, (scores, other)):
        lines.append(f"  {value}, {value}c, {value}l = nn.cross_entropy {matrix}, {own} ignore_index = -100 : {square}, {ty(batch, element='i64')}")
    total = emit(f"nn.add {totals[0]}, {totals[1]} : tensor<f32>")
    count = emit(f"nn.constant dense<{batch}.0> : tensor<f32>")
else:
    # Labels shifted as in model libraries: the last label of a row is ignored.
    cut = emit(f"nn.slice %labels starts = [0, 1] limits = [{batch}, {T}] strides = [1, 1] : {ty(batch, T, element='i64')} -> {ty(batch, T - 1, element='i64')}")
    pad = emit(f"nn.pad {cut} low = [0, 0] high = [0, 1] interior = [0, 0] value = -1.000000e+02 : {ty(batch, T - 1, element='i64')} -> {ty(batch, T, element='i64')}")
    flat = emit(f"nn.reshape {pad} : {ty(batch, T, element='i64')} -> {ty(N, element='i64')}")
    total = new()
    lines.append(f"  {total}, {total}c, {total}l = nn.cross_entropy {logits}, {flat} ignore_index = -100 : {ty(N, V)}, {ty(N, element='i64')}")
    count = total + "c"
floor = emit(f"nn.max {count}, {one} : tensor<f32>")
loss = emit(f"nn.div {total}, {floor} : tensor<f32>")
print("\n".join(states))
print("func.func @forward(\n    " + ",\n    ".join(args) + ") -> (tensor<f32>, tensor<f32>, tensor<f32>) {")
print("\n".join(lines))
print(f"  return {loss}, {total}, {count} : tensor<f32>, tensor<f32>, tensor<f32>\n}}")
