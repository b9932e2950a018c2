"""Checks the gradients that the traced way decomposes (tools/export/shale_export/backward.py), in f64, against those of PyTorch's operators."""
import torch
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

BAR = 1e-12


def values(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def cases():
    """name: (function, operands)"""
    images, line = values(2, 3, 8, 8), values(2, 4, 7)
    return {
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (values(3, 4, 8, 8), values(6, 4, 3, 3), values(6))),
        "conv2d in groups": (lambda x, w, b: F.conv2d(x, w, b, stride=(1, 2), padding=(0, 1), dilation=(2, 1), groups=2),
                             (values(3, 4, 9, 8), values(6, 2, 3, 3), values(6))),
        "conv2d of parts": (lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), groups=2), (values(3, 4, 7, 9), values(6, 2, 2, 3), values(6))),
        "conv1d by channel": (lambda x, w: F.conv1d(x, w, padding=2, groups=4)[..., :-2], (line, values(4, 1, 3))),
        "conv_transpose2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2),
                             (values(3, 4, 5, 5), values(4, 3, 3, 3), values(6))),
        "weight norm by rows": (lambda v, g: torch._weight_norm(v, g, 0), (values(5, 4), values(5, 1))),
        "weight norm by columns": (lambda v, g: torch._weight_norm(v, g, 1), (values(5, 4), values(1, 4))),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (images,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (images,)),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (4, 2)), (images,)),
        "nearest upsampling": (lambda x: F.interpolate(x, scale_factor=2), (values(2, 3, 4, 4),)),
        "cdist": (torch.cdist, (values(2, 5, 4), values(2, 6, 4))),
        "cdist of sums": (lambda x, y: torch.cdist(x, y, p=1.0), (values(2, 5, 4), values(2, 6, 4))),
        "cdist of equal rows": (lambda x: torch.cdist(x, x), (values(5, 4),)),
        "replicated border of a line": (lambda x: F.pad(x, (2, 1), mode="replicate"), (line,)),
        "replicated border of an image": (lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"), (images,)),
    }


# PyTorch's own operators stay, so that an export refuses them by name.
LEFT = {"avg_pool2d without its border": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (torch.ones(1, 1, 8, 8),)),
        "cdist of p = 3": (lambda x, y: torch.cdist(x, y, p=3.0), (torch.ones(3, 2), torch.zeros(4, 2))),
        "adaptive_avg_pool2d of unequal parts": (lambda x: F.adaptive_avg_pool2d(x, 3), (torch.ones(1, 1, 8, 8),))}


def check(table):
    torch.manual_seed(0)
    left = [name for name, of in LEFT.items() if not remaining(table, *of)[1]]
    if left:
        raise RuntimeError(f"{left} are decomposed")
    reached, found = set(), cases()
    for name, (function, operands) in found.items():
        kinds, left, off = remaining(table, function, operands)
        reached |= kinds
        if left or not off <= BAR:
            raise RuntimeError(f"{name}: off by {off}, with {left}")
    if reached != set(table):
        raise RuntimeError(f"no case reaches {set(table) - reached}")
    return f"{len(found)} gradients agree, {len(LEFT)} are left"


def remaining(table, function, operands):
    """The operators of the table that a backward pass reaches, those that are left, and the largest difference."""
    operands = [one.detach().requires_grad_() for one in operands]
    result = function(*operands)
    seed, reached = torch.randn_like(result), set()
    wanted = torch.autograd.grad(result, operands, seed)

    def watched(kind):
        return lambda *arguments, **keywords: (reached.add(kind), table[kind](*arguments, **keywords))[1]

    def step(*given):
        leaves = [one.detach().requires_grad_() for one in given]
        return torch.autograd.grad(function(*leaves), leaves, seed)

    given = [one.detach() for one in operands]
    graph = make_fx(step, decomposition_table={**core_aten_decompositions(), **{kind: watched(kind) for kind in table}})(*given)
    left = [str(node.target) for node in graph.graph.nodes if "backward" in str(node.target)]
    return reached, left, max(float((one - other).abs().max()) for one, other in zip(graph(*given), wanted))
