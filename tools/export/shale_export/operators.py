"""Functions of PyTorch that its exporter does not write, in other operations. Each has the parameters of the function, and returns None where the
function can be exported as it is."""
import contextlib
import functools
import inspect
import math
import sys

import torch
from torch.nn import functional

from . import groups
from .matrices import MATRICES
from .samples import SAMPLES


def grouped_mm(x, weight, offs=None, *more, **words):
    """The matmul of each group of rows with its own matrix. `offs`: the end of each group."""
    if offs is None or x.dim() != 2 or weight.dim() != 3 or more or any(one is not None for one in words.values()):
        return None
    return groups.grouped_mm(x, weight, offs)


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


def complex_transpose(value, one, other):
    """The file has pairs of numbers, so that dimensions are counted from the front."""
    return value.transpose(one % value.dim(), other % value.dim()) if min(one, other) < 0 else None


def complex_permute(value, *dims):
    dims = dims[0] if isinstance(dims[0], (tuple, list)) else dims
    return value.permute([dim % value.dim() for dim in dims]) if min(dims) < 0 else None


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
    return value.masked_fill(torch.eye(*value.shape, dtype=torch.bool, device=value.device), fill)


def hypot(value, other):
    squares = value.square() + other.square()
    return torch.where(squares == 0, 0.0, torch.where(squares == 0, 1.0, squares).sqrt())  # without a gradient at 0


def copysign(value, other):
    if not value.is_floating_point():
        return None
    if not torch.is_tensor(other):
        other = torch.full_like(value, other)
    if other.dtype != value.dtype:
        return None
    found = value.abs() * torch.where((other < 0) | ((other == 0) & (1 / other < 0)), -1.0, 1.0).to(value.dtype)
    return found + 0 * other.clamp(-1, 1) if other.requires_grad else found  # which has gradients of 0


def in_f32(compute):
    """A function of 16-bit floats computes in f32, as PyTorch's does."""
    @functools.wraps(compute)
    def call(value):
        if not value.is_floating_point():
            return None
        return compute(value.float()).to(value.dtype) if value.dtype in (torch.float16, torch.bfloat16) else compute(value)
    return call


def reflected(value):
    """Whether a value is below 1/2, where the functions follow from those of 1 - value; the larger of these two; and the angle of the reflection formula."""
    low = value < 0.5
    below = torch.where(low, value, 0.25)
    return low, torch.where(low, 1 - value, value), math.pi * (below - below.detach().round())


@in_f32
def lgamma(value):
    """Stirling's series at x, or at x + 8 if x is below 8. Source: NIST's DLMF, 5.11.1 and 5.5.3."""
    low, x, angle = reflected(value)
    small = torch.where(x < 8, x, 1.0)
    product, far = small, torch.where(x < 8, x + 8, x)
    for more in range(1, 8):
        product = product * (small + more)
    found = (far - 0.5) * far.log() - far + 0.5 * math.log(2 * math.pi) - torch.where(x < 8, product.log(), 0.0)
    found = found + polynomial(1 / far.square(), (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)) / far
    return torch.where(low, math.log(math.pi) - angle.sin().abs().log() - found, found)


@in_f32
def digamma(value):
    """The derivative of lgamma. Source: NIST's DLMF, 5.11.2 and 5.5.4."""
    low, x, angle = reflected(value)
    far = x + 8
    square = 1 / far.square()
    found = far.log() - 0.5 / far - square * polynomial(square, (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160))
    for more in range(8):
        found = found - 1 / (x + more)
    return torch.where(low, found - math.pi / angle.tan(), found)


def polynomial(x, factors):
    found = torch.zeros_like(x)
    for factor in reversed(factors):
        found = found * x + factor
    return found


NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)
FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)


@in_f32
def erfinv(value):
    """Polynomials (Giles, "Approximating the erfinv function", 2011), with two steps of Newton's iteration in f64. Then the derivative."""
    fixed = value.detach()
    inside = fixed.abs() < 1
    fixed = torch.where(inside, fixed, 0.0)
    log = -((1 - fixed) * (1 + fixed)).log()
    found = fixed * torch.where(log < 5, polynomial(log - 2.5, NEAR), polynomial(log.clamp(min=5).sqrt() - 3, FAR))
    for _ in range(2 if value.dtype == torch.float64 else 0):
        found = found - (found.erf() - fixed) * (math.sqrt(math.pi) / 2) * found.square().exp()
    found = found + (torch.where(inside, value, 0.0) - fixed) * (math.sqrt(math.pi) / 2) * found.square().exp()
    return torch.where(inside, found, value.detach() * float("inf"))


def cdist(x1, x2, p=2.0, compute_mode=None):
    if p in (1, 2) or p == 0 or x1.shape[-1] == 0:
        return None
    apart = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    if p == float("inf"):
        most = apart.detach().amax(-1, keepdim=True)  # of equal differences each has the whole gradient
        return most[..., 0] + ((apart - apart.detach()) * (apart == most)).sum(-1)
    sums = torch.where(apart == 0, 0.0, torch.where(apart == 0, 1.0, apart) ** p).sum(-1)
    return torch.where(sums == 0, 0.0, torch.where(sums == 0, 1.0, sums) ** (1 / p))


def uniform(value, low=0.0, high=1.0):
    return torch.rand_like(value) * (high - low) + low


def multinomial(value, num_samples, replacement=False):
    """The first of exponential times with the probabilities as rates, or the first few."""
    value = value.detach() if value.dtype == torch.float64 else value.detach().float()
    rates = value.unsqueeze(-2).expand(*value.shape[:-1], num_samples, value.shape[-1]) if replacement else value
    time = (-(1 - torch.rand_like(rates)).log()).clamp(min=torch.finfo(rates.dtype).tiny)
    race = torch.where(rates > 0, rates / time, -1.0)
    return race.argmax(-1) if replacement else race.topk(num_samples, -1)[1]


def randperm(n, *, device=None):
    return torch.rand(n, device=device).argsort()


def rrelu(value, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """A slope below 0 that is drawn in training, and else is the mean."""
    slope = torch.rand_like(value) * (upper - lower) + lower if training else (lower + upper) / 2
    found = torch.where(value > 0, value, value * slope)
    return value.copy_(found) if inplace else found


def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """The number of elements before the value."""
    if sorter is not None or not torch.is_tensor(input):
        return None
    edges, values = sorted_sequence if sorted_sequence.dim() == 1 else sorted_sequence.unsqueeze(-2), input.detach().unsqueeze(-1)
    before = edges <= values if right or side == "right" else edges < values
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def window(*factors):
    """A window that is a sum of cosines."""
    def make(window_length, periodic=True, *, dtype=None, device=None, **words):
        if not isinstance(window_length, int) or window_length < 2 or any(words.values()):
            return None
        turn = 2 * math.pi / (window_length if periodic else window_length - 1) * torch.arange(window_length, dtype=dtype or torch.get_default_dtype(), device=device)
        return sum(factor * torch.cos(at * turn) for at, factor in enumerate(factors))
    return make


def stft(value, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None, return_complex=None, **words):
    """The transforms of parts of a signal, which overlap."""
    if any(one is not None for one in words.values()) or not return_complex or value.is_complex() or (window is not None and window.is_complex()) or not isinstance(value.shape[-1], int):
        return None
    if center:
        value = functional.pad(value[None] if value.dim() == 1 else value[:, None], (n_fft // 2, n_fft // 2), pad_mode).reshape(*value.shape[:-1], -1)
    width = win_length or n_fft
    window = torch.ones(width, dtype=value.dtype, device=value.device) if window is None else window
    window = functional.pad(window, ((n_fft - width) // 2, n_fft - width - (n_fft - width) // 2))
    parts = (value.unfold(-1, n_fft, hop_length or n_fft // 4) * window).mT
    return (torch.fft.fft if onesided is False else torch.fft.rfft)(parts, dim=-2, norm="ortho" if normalized else None)


LOWEST = -1e30  # the logarithm of what cannot be


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The sums over alignments, position by position (Graves et al., 2006). The gradient is that for logarithms of probabilities that sum up to 1, as PyTorch's is."""
    steps, width = log_probs.shape[0], targets.shape[-1]
    if log_probs.dim() != 3 or targets.dim() != 2 or not isinstance(steps, int) or not isinstance(width, int) or width == 0:
        return None
    inputs, lengths = (torch.as_tensor(one, device=targets.device) for one in (input_lengths, target_lengths))
    targets = torch.where(torch.arange(width, device=targets.device) < lengths[:, None], targets, blank)  # what is behind is any number
    marks = torch.stack([torch.full_like(targets, blank), targets], -1).flatten(1)
    marks = torch.cat([marks, marks[:, :1]], 1)  # a blank around each label
    jumps = torch.cat([torch.zeros_like(marks[:, :2], dtype=torch.bool), (marks[:, 2:] != blank) & (marks[:, 2:] != marks[:, :-2])], 1)
    logs = log_probs.gather(2, marks.expand(steps, -1, -1))
    none = torch.full_like(logs[0], LOWEST)
    found = torch.cat([logs[0][:, :2], none[:, 2:]], 1)
    for at in range(1, steps):
        before, skipped = torch.cat([none[:, :1], found[:, :-1]], 1), torch.cat([none[:, :2], found[:, :-2]], 1)
        sums = torch.stack([found, before, torch.where(jumps, skipped, none)]).logsumexp(0) + logs[at]
        found = torch.where(at < inputs[:, None], sums, found)
    ends = [found.gather(1, (2 * lengths - less).clamp(min=0)[:, None])[:, 0] for less in (0, 1)]
    ends[1] = torch.where(lengths > 0, ends[1], none[:, 0])
    losses = -torch.stack(ends).logsumexp(0)
    # PyTorch's gradient has the probabilities themselves: if they add up to 1, it changes nothing.
    own = log_probs.exp() * (torch.arange(steps, device=targets.device)[:, None] < inputs)[..., None]
    losses = losses + (own - own.detach()).sum((0, 2))
    losses = torch.where(losses > -LOWEST / 2, 0.0 if zero_infinity else float("inf"), losses)
    if reduction in ("mean", 1):
        return (losses / lengths.clamp(min=1)).mean()
    return losses.sum() if reduction in ("sum", 2) else losses


OPERATORS = {one.__name__: one for one in (argsort, bincount, cdist, conv3d, copysign, corrcoef, cov, ctc_loss, cumprod, digamma, erfinv, fill_diagonal, gaussian_nll_loss,
                                           grouped_mm, hypot, kthvalue, lgamma, median, multinomial, randperm, rrelu, scatter_reduce, searchsorted, sort, stft,
                                           take_along_dim, uniform)}
OPERATORS.update({"cummax": lambda value, dim: Pair(cummax(value, dim)), "cummin": lambda value, dim: Pair(cummin(value, dim)),
                  "hann_window": window(0.5, -0.5), "hamming_window": window(0.54, -0.46), "blackman_window": window(0.42, -0.5, 0.08),
                  "special_gammaln": lgamma, "special_digamma": digamma, "special_psi": digamma, "special_erfinv": erfinv,
                  **{f"dropout{dims}d": dropout_of_channels(dims) for dims in (1, 2, 3)}, **MATRICES, **SAMPLES})

COMPLEX = {"getitem": complex_getitem, "unsqueeze": complex_unsqueeze, "permute": complex_permute, "transpose": complex_transpose, "swapaxes": complex_transpose,
           "swapdims": complex_transpose}


# Keywords of PyTorch's for the first operand, where it has another name here, and for the bounds of a uniform distribution.
FIRST = ("input", "self", "A", "tensor")
BOUNDS = {"from": "low", "to": "high", "a": "low", "b": "high"}


def writer(name, arguments):
    """What writes a function, by its name, or None."""
    plain = name.strip("_")
    if plain in COMPLEX and arguments and torch.is_tensor(arguments[0]) and arguments[0].is_complex():
        return COMPLEX[plain]
    return OPERATORS.get(plain)


def written(name, arguments, keywords):
    """The result of a function in other operations, or None if it is left as it is. A method that ends with "_" changes its tensor."""
    operator = writer(name, arguments)
    if not operator:
        return None
    signature = inspect.signature(operator)
    listed = list(signature.parameters)
    keywords = {one if one in listed else listed[0] if one in FIRST else BOUNDS.get(one, one): value
                for one, value in keywords.items() if not (one in ("out", "generator") and value is None)}
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        return None  # it has arguments that are not written
    if not name.endswith("_") or name.endswith("__"):
        return operator(*arguments, **keywords)
    changed = (*arguments, *keywords.values())[0]
    found = operator(*(one.clone() if one is changed else one for one in arguments), **{key: one.clone() if one is changed else one for key, one in keywords.items()})
    return found if found is None else changed.copy_(found)


@contextlib.contextmanager
def grouped_in_transformers():
    """Models of experts of transformers call grouped_mm() for their matmuls."""
    experts = sys.modules.get("transformers.integrations.moe")
    kept = getattr(experts, "_grouped_mm", None)
    if kept:
        experts._grouped_mm = lambda input, weight, offs: grouped_mm(input.to(weight.dtype), weight, offs)
    try:
        yield
    finally:
        if kept:
            experts._grouped_mm = kept
