"""Operators of PyTorch that a traced file keeps whole: those whose gradients would otherwise be many operations on large tensors.

Each is a node of a function in the file, of domain `shale.aten`, named after the operator. The body of the function computes it by standard
operators, so that any tool runs the file. shalec knows these functions by name and body (lib/Frontend/ONNX/Ops/Aten.cpp), and imports a body that it does not know.
"""
import functools

import onnx
import torch
from onnxscript import values
from onnxscript.function_libs.torch_lib.tensor_typing import TFloat, TInt, TTensor

from . import groups  # noqa: F401  (torch.ops.shale)
from .cli import DATA, Failure

DOMAIN = "shale.aten"
aten = torch.ops.aten

# The scores of attention. Keys after the query are hidden if is_causal is 1.
SCORES = """
  query32 = Cast <to = 1> (query)
  key32 = Cast <to = 1> (key)
  value32 = Cast <to = 1> (value)
  turned = Transpose <perm = [0, 1, 3, 2]> (key32)
  product = MatMul (query32, turned)
  factor = Constant <value_float: float = @scale> ()
  scaled = Mul (product, factor)
  queries = Shape <start = 2, end = 3> (query)
  keys = Shape <start = 2, end = 3> (key)
  query_count = Squeeze (queries)
  key_count = Squeeze (keys)
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  row = Range (zero, query_count, one)
  column = Range (zero, key_count, one)
  last = Constant <value_ints = [-1]> ()
  rows = Unsqueeze (row, last)
  later = Greater (column, rows)
  flag = Constant <value_int: int = @is_causal> ()
  causal = Cast <to = 9> (flag)
  hidden = And (later, causal)
  none = Constant <value_float = 0.0> ()
  infinite = Log (none)
  scores = Where (hidden, infinite, {scores})
"""
MASKED = """
  mask32 = Cast <to = 1> (mask)
  masked = Add (scaled, mask32)
"""
FORWARD = """
  peak = ReduceMax <keepdims = 1> (scores, last)
  empty = IsInf (peak)
  base = Where (empty, none, peak)
  shifted = Sub (scores, base)
  powers = Exp (shifted)
  sums = ReduceSum <keepdims = 1> (powers, last)
  nothing = Equal (sums, none)
  unit = Constant <value_float = 1.0> ()
  divisor = Where (nothing, unit, sums)
  weights = Div (powers, divisor)
  result32 = MatMul (weights, value32)
  result = CastLike (result32, query)
  logarithm = Log (divisor)
  sum = Add (logarithm, base)
  lse = Squeeze (sum, last)
"""
BACKWARD = """
  sum = Unsqueeze (lse, last)
  shifted = Sub (scores, sum)
  weights = Exp (shifted)
  grad32 = Cast <to = 1> (grad)
  out32 = Cast <to = 1> (out)
  weights_t = Transpose <perm = [0, 1, 3, 2]> (weights)
  dvalue32 = MatMul (weights_t, grad32)
  value_t = Transpose <perm = [0, 1, 3, 2]> (value32)
  dweights = MatMul (grad32, value_t)
  outer = Mul (grad32, out32)
  inner = ReduceSum <keepdims = 1> (outer, last)
  less = Sub (dweights, inner)
  dscores = Mul (weights, less)
  dproduct = Mul (dscores, factor)
  dquery32 = MatMul (dproduct, key32)
  dproduct_t = Transpose <perm = [0, 1, 3, 2]> (dproduct)
  dkey32 = MatMul (dproduct_t, query32)
  dquery = CastLike (dquery32, query)
  dkey = CastLike (dkey32, key)
  dvalue = CastLike (dvalue32, value)
"""
# Labels that are ignored lose nothing. `mean` is 1 for a mean over the other labels, 0 for a sum.
LABELS = """
  ignore = Constant <value_int: int = @ignore_index> ()
  ignored = Equal (target, ignore)
  counts = Not (ignored)
  zero = Constant <value_int = 0> ()
  class = Where (counts, target, zero)
  second = Constant <value_ints = [1]> ()
  column = Unsqueeze (class, second)
  flag = Constant <value_int: int = @mean> ()
  is_mean = Cast <to = 9> (flag)
  none = Constant <value_float = 0.0> ()
  nothing = CastLike (none, logs)
"""
# The rows of x, [S, K], spread over the groups, [S, E K]: zeros but for the own group of a row.
GROUPS = """
  first = Constant <value_ints = [0]> ()
  second = Constant <value_ints = [1]> ()
  third = Constant <value_ints = [2]> ()
  last = Constant <value_ints = [-1]> ()
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  height = Shape <start = 0, end = 1> (x)
  row_count = Squeeze (height)
  row = Range (zero, row_count, one)
  column = Unsqueeze (row, second)
  wide = Cast <to = 7> (ends)
  groups = Shape (wide)
  head = Slice (wide, first, last, first)
  begins = Concat <axis = 0> (first, head)
  after = GreaterOrEqual (column, begins)
  before = Less (column, wide)
  inside = And (after, before)
  inside3 = Unsqueeze (inside, third)
  rows3 = Unsqueeze (x, second)
  none = Constant <value_float = 0.0> ()
  nothing = CastLike (none, x)
  own = Where (inside3, rows3, nothing)
  flat = Constant <value_ints = [0, -1]> ()
  spread = Reshape (own, flat)
"""
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
BODIES = {
    ATTENTION: ("query, key, value", "result, lse", ["is_causal", "scale"], SCORES.format(scores="scaled") + FORWARD),
    ATTENTION + "_masked": ("query, key, value, mask", "result, lse", ["is_causal", "scale"], SCORES.replace("  scores = ", MASKED + "  scores = ").format(scores="masked") + FORWARD),
    ATTENTION + "_backward": ("grad, query, key, value, out, lse", "dquery, dkey, dvalue", ["is_causal", "scale"], SCORES.format(scores="scaled") + BACKWARD),
    ATTENTION + "_backward_masked": ("grad, query, key, value, out, lse, mask", "dquery, dkey, dvalue", ["is_causal", "scale"],
                                     SCORES.replace("  scores = ", MASKED + "  scores = ").format(scores="masked") + BACKWARD),
    "native_layer_norm_backward": ("grad, x, mean, rstd, weight", "dx, dweight, dbias", [], """
  last = Constant <value_ints = [-1]> ()
  first = Constant <value_ints = [0]> ()
  centered = Sub (x, mean)
  normal = Mul (centered, rstd)
  scaled = Mul (grad, weight)
  average = ReduceMean <keepdims = 1> (scaled, last)
  along = Mul (scaled, normal)
  slope = ReduceMean <keepdims = 1> (along, last)
  part = Mul (normal, slope)
  without = Sub (scaled, average)
  inner = Sub (without, part)
  dx = Mul (inner, rstd)
  width = Shape (weight)
  flat = Concat <axis = 0> (last, width)
  products = Mul (grad, normal)
  product_rows = Reshape (products, flat)
  dweight = ReduceSum <keepdims = 0> (product_rows, first)
  grad_rows = Reshape (grad, flat)
  dbias = ReduceSum <keepdims = 0> (grad_rows, first)
"""),
    "grouped_mm": ("x, weight, ends", "result", [], GROUPS + """
  width = Shape <start = 2> (weight)
  shape = Concat <axis = 0> (last, width)
  matrix = Reshape (weight, shape)
  result = MatMul (spread, matrix)
"""),
    "grouped_mm_weights": ("x, grad, ends", "result", [], GROUPS + """
  spread_t = Transpose <perm = [1, 0]> (spread)
  matrix = MatMul (spread_t, grad)
  width = Shape <start = 1> (x)
  shape = Concat <axis = 0> (groups, width, last)
  result = Reshape (matrix, shape)
"""),
    "embedding_dense_backward": ("grad, indices", "result", ["num_weights"], """
  column = Constant <value_ints = [-1, 1]> ()
  index = Reshape (indices, column)
  width = Shape <start = -1> (grad)
  rest = Constant <value_ints = [-1]> ()
  flat = Concat <axis = 0> (rest, width)
  rows = Reshape (grad, flat)
  count = Constant <value_int: int = @num_weights> ()
  first = Constant <value_ints = [0]> ()
  height = Unsqueeze (count, first)
  shape = Concat <axis = 0> (height, width)
  none = Constant <value_float = 0.0> ()
  nothing = CastLike (none, grad)
  zeros = Expand (nothing, shape)
  result = ScatterND <reduction = "add"> (zeros, index, rows)
"""),
    "nll_loss_forward": ("logs, target", "loss, total", ["ignore_index", "mean"], LABELS + """
  own = GatherElements <axis = 1> (logs, column)
  found = Squeeze (own, second)
  negated = Neg (found)
  losses = Where (counts, negated, nothing)
  first = Constant <value_ints = [0]> ()
  sum = ReduceSum <keepdims = 0> (losses, first)
  weights = CastLike (counts, logs)
  total = ReduceSum <keepdims = 0> (weights, first)
  quotient = Div (sum, total)
  loss = Where (is_mean, quotient, sum)
"""),
    "nll_loss_backward": ("grad, logs, target, total", "result", ["ignore_index", "mean"], LABELS + """
  quotient = Div (grad, total)
  factor = Where (is_mean, quotient, grad)
  negated = Neg (factor)
  slopes = Where (counts, negated, nothing)
  slope_column = Unsqueeze (slopes, second)
  shape = Shape (logs)
  zeros = Expand (nothing, shape)
  result = ScatterElements <axis = 1> (zeros, column, slope_column)
"""),
    "_log_softmax_backward_data": ("grad, output", "result", [], """
  last = Constant <value_ints = [-1]> ()
  sum = ReduceSum <keepdims = 1> (grad, last)
  powers = Exp (output)
  part = Mul (powers, sum)
  result = Sub (grad, part)
"""),
}
FLOATS = ("scale",)  # attributes; the others are integers


def proto(name):
    """The function, as the file has it."""
    inputs, outputs, attributes, body = BODIES[name]
    listed = f" <{', '.join(attributes)}>" if attributes else ""
    return onnx.parser.parse_function(f'<domain: "{DOMAIN}", opset_import: ["" : 18]> {name}{listed} ({inputs}) => ({outputs}) {{{body}}}')


@functools.cache
def operator(name):
    """What builds a node of the function."""
    inputs, outputs, attributes, _ = BODIES[name]
    kinds = [f"tensor({kind})" for kind in ("float", "float16", "bfloat16", "double", "int64", "int32")]
    listed = [f"in_{one}" for one in inputs.split(", ")], [f"out_{one}" for one in outputs.split(", ")]
    types = [(f"T{one}", kinds, "") for names in listed for one in names]
    schema = onnx.defs.OpSchema(name, DOMAIN, 1, inputs=[onnx.defs.OpSchema.FormalParameter(one[3:], f"T{one}") for one in listed[0]],
                                outputs=[onnx.defs.OpSchema.FormalParameter(one[4:], f"T{one}") for one in listed[1]], type_constraints=types,
                                attributes=[onnx.defs.OpSchema.Attribute(one, getattr(onnx.defs.OpSchema.AttrType, "FLOAT" if one in FLOATS else "INT"), required=True)
                                            for one in attributes])
    return values.Op(values.Opset(DOMAIN, 1), name, schema)


def scale_of(query, scale):
    return float(query.shape[-1]) ** -0.5 if scale is None else float(scale)


def attention(query: TFloat, key: TFloat, value: TFloat, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: TFloat = None, scale: float = None):
    masked = [] if attn_mask is None else [attn_mask]
    return operator(ATTENTION + ("_masked" if masked else ""))(query, key, value, *masked, is_causal=int(is_causal), scale=scale_of(query, scale))


def attention_backward(grad_out: TFloat, query: TFloat, key: TFloat, value: TFloat, out: TFloat, logsumexp: TFloat, dropout_p: float, is_causal: bool, *,
                       attn_mask: TFloat = None, scale: float = None):
    masked = [] if attn_mask is None else [attn_mask]
    return operator(ATTENTION + "_backward" + ("_masked" if masked else ""))(grad_out, query, key, value, out, logsumexp, *masked,
                                                                            is_causal=int(is_causal), scale=scale_of(query, scale))


def layer_norm_backward(grad_out: TFloat, input: TFloat, normalized_shape: list[int], mean: TFloat, rstd: TFloat, weight: TFloat, bias: TFloat, output_mask: list[bool]):
    return operator("native_layer_norm_backward")(grad_out, input, mean, rstd, weight)


def embedding_backward(grad_output: TFloat, indices: TInt, num_weights: int, padding_idx: int, scale_grad_by_freq: bool):
    return operator("embedding_dense_backward")(grad_output, indices, num_weights=num_weights)


def loss_forward(self: TFloat, target: TInt, weight: TFloat, reduction: int, ignore_index: int):
    return operator("nll_loss_forward")(self, target, ignore_index=ignore_index, mean=int(reduction == 1))


def loss_backward(grad_output: TFloat, self: TFloat, target: TInt, weight: TFloat, reduction: int, ignore_index: int, total_weight: TFloat):
    return operator("nll_loss_backward")(grad_output, self, target, total_weight, ignore_index=ignore_index, mean=int(reduction == 1))


def log_softmax_backward(grad_output: TFloat, output: TFloat, dim: int, input_dtype: int):
    return operator("_log_softmax_backward_data")(grad_output, output)


def grouped_mm(x: TFloat, weight: TFloat, ends: TInt):
    return operator("grouped_mm")(x, weight, ends)


def grouped_mm_weights(x: TFloat, grad: TFloat, ends: TInt):
    return operator("grouped_mm_weights")(x, grad, ends)


def own():
    """The functions of Shale's own operators, which no other exporter writes."""
    return {torch.ops.shale.grouped_mm.default: grouped_mm, torch.ops.shale.grouped_mm_weights.default: grouped_mm_weights}


def table():
    """The `custom_translation_table` of torch.onnx.export for a file with PyTorch's gradients."""
    return {**own(),
            aten._scaled_dot_product_flash_attention_for_cpu.default: attention, aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
            aten.native_layer_norm_backward.default: layer_norm_backward, aten.embedding_dense_backward.default: embedding_backward,
            aten.nll_loss_forward.default: loss_forward, aten.nll_loss_backward.default: loss_backward, aten._log_softmax_backward_data.default: log_softmax_backward}


def decompositions():
    """The operators above in the forms that have no function, for make_fx: they become several operations."""
    standard = torch._decomp.core_aten_decompositions()
    whole = {
        aten.native_layer_norm_backward.default: lambda grad, x, shape, mean, rstd, weight, bias, mask: len(shape) == 1 and weight is not None and bias is not None,
        aten.embedding_dense_backward.default: lambda grad, indices, count, padding, scaled: padding < 0 and not scaled,
        aten.nll_loss_forward.default: lambda x, target, weight, reduction, ignore: x.dim() == 2 and weight is None and reduction in (1, 2),
        aten.nll_loss_backward.default: lambda grad, x, target, weight, reduction, ignore, total: x.dim() == 2 and weight is None and reduction in (1, 2),
        aten._log_softmax_backward_data.default: lambda grad, out, dim, kind: dim in (-1, out.dim() - 1) and out.dtype == kind,
    }

    def chosen(operator, is_whole):
        def decompose(*arguments, **words):
            return NotImplemented if is_whole(*arguments, **words) else standard[operator](*arguments, **words)
        return decompose

    def unset(size, order, **words):  # a value that the graph overwrites, as transformers do with the inverse of an order
        return aten.full.default(size, 0, dtype=words.get("dtype"), device=words.get("device"))
    return {aten.empty_permuted.default: unset, **{operator: chosen(operator, is_whole) for operator, is_whole in whole.items()}}


def complete(program):
    """Adds the functions that nodes call to the exported model."""
    import onnx_ir as ir
    model = program.model
    used = {node.op_type for node in model.graph.all_nodes() if node.domain == DOMAIN}
    if unknown := used - BODIES.keys():
        raise Failure(DATA, f"the graph has nodes of domain {DOMAIN} that no function defines: {', '.join(sorted(unknown))}")
    for name in sorted(used):
        function = proto(name)
        function.opset_import[0].version = model.graph.opset_imports.get("", 18)
        made = ir.serde.deserialize_function(function)
        model.functions[made.identifier()] = made
    if used:
        model.graph.opset_imports[DOMAIN] = 1
