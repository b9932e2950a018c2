#!/usr/bin/env python3
"""Writes PyTorch's operations at their special points, as PyTorch's exporter records them, with PyTorch's values and gradients.

usage: make.py [FOLDER] [--only NAME,..] [--optimize]    needs torch, onnx, onnxscript and safetensors

model.onnx has all operations of a list, each on a grid of its own: zeros of both signs, infinities, NaN, ties, ends of domains, numbers near them,
and large and small numbers. A grid is an input. What is added to it, `at`, and to the factors of the results, `by`, are parameters of -0.0:
the gradient of `at` is the operation's, times the factor, and that of `by` is its value. expected.safetensors has the grids and the factors,
both gradients in f32, and what each may deviate: 1e-5 of it, and eight times as much as PyTorch itself deviates from its own f64. Gradients of
rows, which are sums, may deviate by roundings of their terms, too.
It is exported with optimize=False, as one module with all of them could not be read otherwise; --optimize exports by default.
"""
import argparse
import contextlib
import io
import itertools
import logging
import pathlib
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import nn

INF, NAN = float("inf"), float("nan")
ONE = [0.0, -0.0, NAN]
for number in (1e-45, 1e-38, 1e-20, 1e-10, 1e-8, 1e-6, 1e-4, 0.01, 0.25, 0.5, 0.999999, 1, 1.000001, 1.5, 2, 2.5, 3, 6, 10, 17, 20, 21, 50, 87, 88, 89, 100, 104,
               1e4, 1e10, 1e20, 1e37, INF):
    ONE += [number, -number]
PAIRS = [0.0, -0.0, 1e-6, 0.5, -0.5, 1, -1, 2, -2, 3, 1e4, 100, -100, 1e30, INF, -INF, NAN]
TWO = list(itertools.product(PAIRS, PAIRS))
UNIT = list(itertools.product([0.0, 1e-45, 1e-30, 1e-8, 1e-6, 0.25, 0.5, 1 - 1e-6, 1.0], [0.0, 1e-6, 0.5, 1.0]))
ROWS = [[0, 0, 0, 0], [1, 1, 1, 1], [1, 2, 2, 0], [2, 1, -1, 2], [3, 4, 0, 0], [0, 0, 5, 0], [100, 88, -100, 0], [-200, -100, 100, 200], [1000, 0, 0, 1000],
        [1e-6, 2e-6, -1e-6, 0], [1e-15, 0, 0, 1e-15], [-INF, 0, 1, 2], [0, -INF, -INF, 1], [-INF, -INF, -INF, -INF], [INF, 1, 2, 3], [1, NAN, 2, 0],
        [1e4, 1e4 + 1, 1e4, 1e4], [-1, -2, -3, -4], [0.5, 0.25, 0.125, 2]]


def rows(reduce):
    return lambda x: reduce(x)[:, None].expand(-1, 4)


def one_hot_like(x):
    return torch.tensor([0, 3, 1, 2] * 5)[:x.shape[0]]


OPERATIONS = {  # by the kind of grid: what computes the result from its points
    "one": {
        "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
        "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
        "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "atan": torch.atan, "asin": torch.asin, "acos": torch.acos,
        "sigmoid": torch.sigmoid, "log_sigmoid": F.logsigmoid, "erf": torch.erf, "erfc": torch.erfc, "expm1": torch.expm1, "log1p": torch.log1p,
        "relu": torch.relu, "relu6": F.relu6, "silu": F.silu, "mish": F.mish, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
        "hardtanh": F.hardtanh, "elu": F.elu, "elu 0.5": lambda x: F.elu(x, 0.5), "celu": lambda x: F.celu(x, 2.0), "selu": F.selu,
        "leaky_relu": F.leaky_relu, "softplus": F.softplus, "softplus 2": lambda x: F.softplus(x, 2.0, 10.0),
        "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "softsign": F.softsign, "tanhshrink": F.tanhshrink,
        "softshrink": F.softshrink, "hardshrink": F.hardshrink, "threshold": lambda x: F.threshold(x, 1.0, 0.25), "sinc": torch.sinc,
        "logit eps": lambda x: torch.logit(x, 1e-6), "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
        "frac": torch.frac, "sign": torch.sign, "square": torch.square, "nan_to_num": torch.nan_to_num, "ndtr": torch.special.ndtr,
        "log_ndtr": torch.special.log_ndtr, "erfcx": torch.special.erfcx,
        "entr": torch.special.entr, "pow 0": lambda x: x**0.0, "pow 1": lambda x: x**1.0, "pow 2": lambda x: x**2, "pow 3": lambda x: x**3,
        "pow 4": lambda x: x**4, "pow 0.5": lambda x: x**0.5, "pow 2.5": lambda x: x**2.5, "pow -0.5": lambda x: x**-0.5, "pow -1": lambda x: x**-1.0,
        "pow -2": lambda x: x**-2, "2 to x": lambda x: 2.0**x, "0 to x": lambda x: 0.0**x, "clamp": lambda x: x.clamp(0.0, 1.0),
        "clamp_min": lambda x: x.clamp_min(0.5), "clamp_max": lambda x: x.clamp_max(0.5), "masked_fill": lambda x: x.masked_fill(x > 1, -2.0),
        "xlogy 2": lambda x: torch.xlogy(x, 2.0), "xlogy of 2": lambda x: torch.xlogy(2.0, x), "xlogy itself": lambda x: torch.xlogy(x, x),
        "rsub": lambda x: 1 - x, "sum of one": lambda x: x + 1, "doubled": lambda x: 2 * x, "1 / x": lambda x: 1 / x, "x / 3": lambda x: x / 3,
        "fmod 3": lambda x: torch.fmod(x, 3.0), "remainder 3": lambda x: torch.remainder(x, 3.0), "div floor 0.1": lambda x: torch.div(x, 0.1, rounding_mode="floor"),
        "soft_margin_loss": lambda x: F.soft_margin_loss(x, torch.full_like(x, -1.0), reduction="none"),
    },
    "two": {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "maximum": torch.maximum, "minimum": torch.minimum,
        "fmod": torch.fmod, "remainder": torch.remainder,
        "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"), "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "xlogy": torch.xlogy, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2, "atan2": torch.atan2,
        "where": lambda x, y: torch.where(x > y, x, y), "lerp": lambda x, y: torch.lerp(x, y, 0.25), "addcdiv": lambda x, y: torch.addcdiv(x, x, y),
        "addcmul": lambda x, y: torch.addcmul(x, x, y), "clamp": lambda x, y: torch.clamp(x, min=y),
        "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"), "l1_loss": lambda x, y: F.l1_loss(x, y, reduction="none"),
        "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), "huber_loss": lambda x, y: F.huber_loss(x, y, reduction="none"),
        "binary_cross_entropy_with_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        "kl_div": lambda x, y: F.kl_div(x, y, reduction="none"),
        "poisson_nll_loss": lambda x, y: F.poisson_nll_loss(x, y, reduction="none"), "prelu": lambda x, y: F.prelu(x[None], y)[0],
    },
    "unit": {
        "binary_cross_entropy": lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
    },
    "rows": {
        "sum": rows(lambda x: x.sum(1)), "mean": rows(lambda x: x.mean(1)), "amax": rows(lambda x: x.amax(1)), "amin": rows(lambda x: x.amin(1)),
        "max": rows(lambda x: x.max(1)[0]), "min": rows(lambda x: x.min(1)[0]), "prod": rows(lambda x: x.prod(1)),
        "logsumexp": rows(lambda x: x.logsumexp(1)), "logcumsumexp": lambda x: x.logcumsumexp(1), "cumsum": lambda x: x.cumsum(1),
        "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1), "norm": rows(lambda x: x.norm(dim=1)),
        "norm 1": rows(lambda x: torch.linalg.vector_norm(x, 1.0, dim=1)), "norm 3": rows(lambda x: torch.linalg.vector_norm(x, 3.0, dim=1)),
        "norm 4": rows(lambda x: torch.linalg.vector_norm(x, 4.0, dim=1)), "norm inf": rows(lambda x: torch.linalg.vector_norm(x, INF, dim=1)),
        "var": rows(lambda x: x.var(1)), "var 0": rows(lambda x: x.var(1, correction=0)), "std": rows(lambda x: x.std(1)),
        "std_mean": rows(lambda x: sum(torch.std_mean(x, 1))), "root of std": rows(lambda x: (x.std(1) + 1).sqrt()),
        "layer_norm": lambda x: F.layer_norm(x, (4,)), "rms_norm": lambda x: F.rms_norm(x, (4,), eps=1e-6), "normalize": lambda x: F.normalize(x, dim=1),
        "glu": lambda x: F.glu(x, 1).repeat(1, 2), "softmin": lambda x: F.softmin(x, 1), "sort": lambda x: x.sort(1)[0],
    },
}
POINTS = {"one": np.array([ONE]), "two": np.array(TWO).T, "unit": np.array(UNIT).T, "rows": np.array([ROWS])}


class Group(nn.Module):
    """Operations of one kind. Grids are [operations, operands, points..]."""

    def __init__(self, kind, names):
        super().__init__()
        self.kind, self.names, points = kind, names, POINTS[kind]
        self.at = nn.Parameter(torch.full((len(names), *points.shape), -0.0))
        self.by = nn.Parameter(torch.full((len(names), *points.shape[1:]), -0.0))

    def forward(self, grid, factor):
        points = (grid + self.at).unbind(0)
        results = [OPERATIONS[self.kind][name](*one.unbind(0)) for name, one in zip(self.names, points)]
        return ((factor + self.by) * torch.stack(results)).sum()


class Special(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        for kind, names in kinds.items():
            self.add_module(kind, Group(kind, names))

    def forward(self, *inputs):
        return sum(group(*inputs[2 * i:2 * i + 2]) for i, group in enumerate(self.children()))


def inputs(kinds):
    """The grid and the factors of each group, by their names."""
    arrays = {}
    for kind, names in kinds.items():
        points = POINTS[kind].astype(np.float32)
        pattern = np.resize(np.float32([1, 2, 0.5, 3, 1, 1.5, 1]), points.shape[1:])
        for name, array in (("grid", points), ("factor", pattern)):
            arrays[f"{kind}.{name}"] = np.broadcast_to(array, (len(names), *array.shape)).copy()
    return arrays


def gradients(kinds, dtype):
    module = Special(kinds).to(dtype)
    module(*[torch.tensor(array).to(dtype) for array in inputs(kinds).values()]).backward()
    return {name: parameter.grad.numpy() for name, parameter in module.named_parameters()}


def export(kinds, optimize):
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    arrays = inputs(kinds)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model = torch.onnx.export(Special(kinds), tuple(map(torch.tensor, arrays.values())), dynamo=True, optimize=optimize, verbose=False,
                                  input_names=list(arrays), output_names=["loss"]).model_proto
    for node in model.graph.node:  # what is left of the metadata is the record of the operation
        for one in [one for one in node.metadata_props if one.key != "pkg.torch.onnx.fx_node"]:
            node.metadata_props.remove(one)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("--only")
    parser.add_argument("--optimize", action="store_true")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    kinds = {kind: [name for name in named if not only or name in only] for kind, named in OPERATIONS.items()}
    kinds = {kind: names for kind, names in kinds.items() if names}
    model = export(kinds, options.optimize)
    found, exact = gradients(kinds, torch.float32), gradients(kinds, torch.float64)
    tensors = inputs(kinds)
    for name, value in found.items():
        with np.errstate(all="ignore"):
            off = np.abs(value - exact[name])
            tensors[name] = value
            off = np.nan_to_num(1e-5 * np.abs(value) + 8 * off, nan=0, posinf=0)
            if name == "rows.at":  # sums of terms that cancel
                size = np.max(np.abs(POINTS["rows"][0]), axis=-1, keepdims=True)
                off = off + 4e-7 / np.maximum(np.nan_to_num(size, nan=1, posinf=1), 1)
            tensors[name + ".off"] = off.astype(np.float32)
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "model.onnx").write_bytes(model.SerializeToString())
    names = {f"names.{kind}": ";".join(names) for kind, names in kinds.items()}
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, options.folder / "expected.safetensors", metadata=names)
    print(f"{sum(map(len, kinds.values()))} operations, {sum(value.size for value in found.values())} numbers, torch {torch.__version__}")


if __name__ == "__main__":
    main()
