"""Functions of PyTorch that its exporter does not write, in other operations. Each has the parameters of the function, and returns None where the
function can be exported as it is."""
import contextlib
import math
import sys

import torch
from torch.nn import functional


def grouped_mm(x, weight, offs=None, *more, **words):
    """The product of each group of rows with its own matrix: of the rows, spread over the groups, with all matrices. `offs`: the end of each group."""
    if offs is None or x.dim() != 2 or weight.dim() != 3 or more or any(one is not None for one in words.values()):
        return None
    row = torch.arange(x.shape[0], device=x.device)[:, None]
    before = torch.cat([torch.zeros_like(offs[:1]), offs[:-1]])
    inside = (row >= before) & (row < offs)
    spread = torch.where(inside[:, :, None], x[:, None, :], torch.zeros_like(x[:, None, :]))
    return spread.flatten(1) @ weight.flatten(0, 1)


def sort(value, dim=-1, descending=False, stable=None):
    return torch.sort(value, dim=dim, descending=descending) if stable else None  # TopK of ONNX, which is stable


def argsort(value, dim=-1, descending=False, stable=None):
    return torch.sort(value, dim=dim, descending=descending)[1] if stable else None


def cummax(value, dim):
    """The largest of the elements so far, and the last place that has it."""
    value = value.movedim(dim, -1)
    size = value.shape[-1]
    place = torch.arange(size, device=value.device)
    low = False if value.dtype == torch.bool else -float("inf") if value.is_floating_point() else torch.iinfo(value.dtype).min
    table = torch.where(place <= place[:, None], value[..., None, :], torch.full_like(value[..., None, :], low)).flip(-1)
    most, at = table.max(-1)
    return most.movedim(-1, dim), (size - 1 - at).movedim(-1, dim)


def cummin(value, dim):
    most, at = cummax(-value, dim)
    return -most, at


def complex_getitem(value, index):
    return torch.view_as_complex(torch.view_as_real(value)[(*index, slice(None)) if isinstance(index, tuple) and Ellipsis in index else index])


def complex_unsqueeze(value, dim):
    return torch.view_as_complex(torch.view_as_real(value).unsqueeze(dim if dim >= 0 else dim - 1))


class Pair(tuple):
    values, indices = property(lambda self: self[0]), property(lambda self: self[1])


def bincount(value, weights=None, minlength=0):
    if not minlength or weights is not None:
        return None
    return (value[:, None] == torch.arange(minlength, device=value.device)).sum(0)


def cumprod(value, dim, *, dtype=None):
    """Products of twice as many elements in each round: a gradient of zeros has no quotient."""
    value = (value if dtype is None else value.to(dtype)).movedim(dim, -1)
    size, step = value.shape[-1], 1
    if not isinstance(size, int):
        return None
    while step < size:
        value, step = torch.cat([value[..., :step], value[..., step:] * value[..., :-step]], -1), 2 * step
    return value.movedim(-1, dim)


def kthvalue(value, k, dim=-1, keepdim=False):
    found = [one.narrow(dim, k - 1, 1) for one in torch.sort(value, dim=dim)]
    return Pair(one if keepdim else one.squeeze(dim) for one in found)


def median(value, dim=None, keepdim=False):
    if dim is None:
        return median(value.flatten(), 0)[0] if all(isinstance(size, int) for size in value.shape) else None
    size = value.shape[dim]
    return kthvalue(value, (size + 1) // 2, dim, keepdim) if isinstance(size, int) else None


def scatter_reduce(value, dim, index, src, reduce, *, include_self=True):
    """A mean is two sums, of the values and of ones."""
    if reduce != "mean":
        return None
    count = torch.zeros_like(value).scatter_add(dim, index, torch.ones_like(src))
    if include_self:
        return value.scatter_add(dim, index, src) / (count + 1)
    return torch.where(count > 0, torch.zeros_like(value), value).scatter_add(dim, index, src) / count.clamp(min=1)


def take_along_dim(value, indices, dim=None):
    if dim is None:
        return None
    dim = dim % value.dim()
    sizes = torch.broadcast_shapes(*([1 if at == dim else size for at, size in enumerate(one.shape)] for one in (value, indices)))
    value, indices = (one.expand([*sizes[:dim], one.shape[dim], *sizes[dim + 1:]]) for one in (value, indices))
    return value.gather(dim, indices)


def dropout_of_channels(dims):
    """Dropout of whole channels, each of `dims` dimensions: a product with dropout of ones, which '--dropout off' leaves out."""
    def dropout(value, p=0.5, training=True, inplace=False):
        kept = 2 if dims == 2 else value.dim() - dims  # the channels, after a batch that only dropout2d always has
        if not training or not 0 < p < 1 or kept not in (1, 2) or value.dim() <= kept:
            return None
        noise = functional.dropout(value.new_ones([*value.shape[:kept], *[1] * (value.dim() - kept)]), p)
        return value.mul_(noise) if inplace else value * noise
    return dropout


def conv3d(value, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """A sum of convolutions of the planes, one for each plane of the kernel."""
    if value.dim() != 5 or isinstance(padding, str):
        return None
    (step, *steps), (border, *borders), (apart, *aparts) = (list(one) if isinstance(one, (tuple, list)) else [one] * 3 for one in (stride, padding, dilation))
    value = functional.pad(value, (0, 0, 0, 0, border, border)) if border else value
    count = (value.shape[2] - apart * (weight.shape[2] - 1) - 1) // step + 1
    found = None
    for at in range(weight.shape[2]):
        planes = value[:, :, at * apart:at * apart + (count - 1) * step + 1:step].transpose(1, 2)
        part = functional.conv2d(planes.flatten(0, 1), weight[:, :, at], None, steps, borders, aparts, groups)
        found = part if found is None else found + part
    found = found.unflatten(0, (value.shape[0], count)).transpose(1, 2)
    return found if bias is None else found + bias.view(-1, 1, 1, 1)


def gaussian_nll_loss(value, target, var, full=False, eps=1e-6, reduction="mean"):
    """The loss without its check that no variance is negative. The gradient goes through the clamp, as PyTorch has it."""
    if not torch.is_tensor(var) or reduction not in ("none", "mean", "sum"):
        return None
    var = var.unsqueeze(-1) if var.dim() < value.dim() else var
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (var.log() + (value - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0.0)
    return loss if reduction == "none" else getattr(loss, reduction)()


def cov(value, *, correction=1, fweights=None, aweights=None):
    if value.dim() != 2 or fweights is not None or aweights is not None:
        return None
    value = value - value.mean(1, keepdim=True)
    return value @ value.T / (value.shape[1] - correction)


def corrcoef(value):
    if value.dim() != 2:
        return None
    found = cov(value)
    deviation = found.diagonal().sqrt()
    return (found / deviation[:, None] / deviation[None]).clamp(-1, 1)


def fill_diagonal(value, fill, wrap=False):
    if value.dim() != 2 or wrap:
        return None
    return value.masked_fill_(torch.eye(*value.shape, dtype=torch.bool, device=value.device), fill)


def hypot(value, other):
    return (value.square() + other.square()).sqrt()


OPERATORS = {one.__name__: one for one in (argsort, bincount, conv3d, corrcoef, cov, cumprod, fill_diagonal, gaussian_nll_loss, grouped_mm, hypot, kthvalue, median,
                                           scatter_reduce, sort, take_along_dim)}
OPERATORS.update({"cummax": lambda value, dim: Pair(cummax(value, dim)), "cummin": lambda value, dim: Pair(cummin(value, dim)),
                  **{f"dropout{dims}d": dropout_of_channels(dims) for dims in (1, 2, 3)}})

COMPLEX = {"getitem": complex_getitem, "unsqueeze": complex_unsqueeze}


def written(name, arguments):
    """What writes a function, by its name, or None."""
    if name in COMPLEX and torch.is_tensor(arguments[0]) and arguments[0].is_complex():
        return COMPLEX[name]
    return OPERATORS.get(name)


@contextlib.contextmanager
def grouped_in_transformers():
    """Models of experts of transformers call grouped_mm() for their products."""
    experts = sys.modules.get("transformers.integrations.moe")
    kept = getattr(experts, "_grouped_mm", None)
    if kept:
        experts._grouped_mm = lambda input, weight, offs: grouped_mm(input.to(weight.dtype), weight, offs)
    try:
        yield
    finally:
        if kept:
            experts._grouped_mm = kept
