"""Operators of PyTorch's autograd, most of them gradients, that its exporter does not write, in terms of others. They have the parameters of those in
torch.ops.aten; the formulas are those of PyTorch's derivatives.yaml. `NotImplemented` leaves an operator as it is: the export then names it.
"""
import itertools
import math

import torch

aten = torch.ops.aten


def patches(x, kernel, out, stride, padding, dilation):
    """The elements of x [batch, channels, ..] that each element of a kernel multiplies: [batch, channels, out..] for each, in the kernel's order."""
    x = aten.constant_pad_nd(x, [size for one in reversed(padding) for size in (one, one)]) if any(padding) else x
    for offsets in itertools.product(*map(range, kernel)):
        part = x
        for at, (offset, size, step, apart) in enumerate(zip(offsets, out, stride, dilation)):
            part = aten.slice(part, 2 + at, offset * apart, offset * apart + (size - 1) * step + 1, step)
        yield part


def kernel_gradient(x, gradient, kernel, stride, padding, dilation, groups):
    """The gradient of a convolution's weight. Sums run over [batch, position], so that they can be split by the batch."""
    batch, out, channels = x.shape[0], gradient.shape[2:], x.shape[1] // groups
    positions = math.prod(out)
    if groups == gradient.shape[1] and channels == 1:
        found = [(part * gradient).sum([0, *range(2, x.dim())]) for part in patches(x, kernel, out, stride, padding, dilation)]
        return torch.stack(found, -1).reshape(groups, 1, *kernel)
    rows = gradient.reshape(batch, groups, -1, positions).permute(1, 2, 0, 3).reshape(groups, -1, batch * positions)
    if kernel == stride and not any(padding) and all(one == 1 for one in dilation):  # parts that do not overlap
        for at, (size, step) in enumerate(zip(out, stride)):
            x = x.narrow(2 + at, 0, size * step)
        x = x.reshape(batch, groups, channels, *(size for pair in zip(out, stride) for size in pair))
        space = range(3, x.dim(), 2)
        columns = x.permute(1, 2, *(at + 1 for at in space), 0, *space).reshape(groups, -1, batch * positions)
        return torch.bmm(rows, columns.transpose(1, 2)).reshape(-1, channels, *kernel)
    found = [torch.bmm(rows, part.reshape(batch, groups, channels, positions).permute(1, 0, 3, 2).reshape(groups, batch * positions, channels))
             for part in patches(x, kernel, out, stride, padding, dilation)]
    return torch.stack(found, -1).reshape(-1, channels, *kernel)


def missing(size, out, kernel, stride, padding, dilation):
    """By how much a transposed convolution of `out` elements is shorter than `size`."""
    return [0 if s == 1 else int(n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)) for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation)]


def convolution(gradient, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted):
    of_x = of_weight = of_bias = None
    kernel, none = list(weight.shape[2:]), [0] * (weight.dim() - 2)
    stride, padding, dilation = (list(one) * (len(kernel) if len(one) == 1 else 1) for one in (stride, padding, dilation))
    if wanted[0]:
        more = none if transposed else missing(x.shape[2:], gradient.shape[2:], kernel, stride, padding, dilation)
        of_x = aten.convolution(gradient, weight, None, stride, padding, dilation, not transposed, more, groups)
    if wanted[1]:
        pair = (gradient, x) if transposed else (x, gradient)
        of_weight = kernel_gradient(*pair, kernel, stride, padding, dilation, groups)
    if wanted[2]:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_x, of_weight, of_bias


def weight_norm(gradient, v, g, norms, dim):
    others = [at for at in range(v.dim()) if at != dim % v.dim()]
    norms = norms.reshape(g.shape)
    along = (gradient * v).sum(others, keepdim=True) / norms
    return g / norms * (gradient - v * along / norms), along.reshape(g.shape)


def max_pool2d(gradient, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return torch.zeros_like(x).flatten(-2).scatter_add(-1, indices.flatten(-2), gradient.flatten(-2)).reshape(x.shape)


def avg_pool2d(gradient, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    kernel, stride, padding = (list(one) * (2 if len(one) == 1 else 1) for one in (kernel, stride or kernel, padding))
    if ceil_mode or (any(padding) and not count_include_pad and divisor is None):
        return NotImplemented
    ones = torch.ones([1, 1, *kernel], dtype=gradient.dtype, device=gradient.device) / (divisor or math.prod(kernel))
    more = missing(x.shape[-2:], gradient.shape[-2:], kernel, stride, padding, [1, 1])
    planes = gradient.reshape(-1, 1, *gradient.shape[-2:])
    return aten.convolution(planes, ones, None, stride, padding, [1, 1], True, more, 1).reshape(x.shape)


def adaptive_avg_pool2d(gradient, x):
    (height, width), (rows, columns) = x.shape[-2:], gradient.shape[-2:]
    if height % rows or width % columns:
        return NotImplemented
    down, across = height // rows, width // columns
    spread = (gradient / (down * across))[..., :, None, :, None]
    return spread.expand(*gradient.shape[:-1], down, columns, across).reshape(x.shape) if rows > 1 or columns > 1 else spread.squeeze(-2).squeeze(-1).expand(x.shape)


def upsample_nearest2d(gradient, output_size, input_size, scales_h=None, scales_w=None):
    (height, width), (rows, columns) = output_size, input_size[-2:]
    if height % rows or width % columns:
        return NotImplemented
    return gradient.reshape(*gradient.shape[:-2], rows, height // rows, columns, width // columns).sum((-3, -1))


def cdist_forward(x, y, p, mode):
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    return apart.abs().sum(-1) if p == 1 else apart.square().sum(-1).sqrt() if p == 2 else NotImplemented


def cdist(gradient, x, y, p, distances):
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    if p == 1:
        return (gradient.unsqueeze(-1) * apart.sign()).sum(-2)
    if p != 2:
        return NotImplemented
    scale = torch.where(distances == 0, 0.0, gradient / torch.where(distances == 0, 1.0, distances))
    return (scale.unsqueeze(-1) * apart).sum(-2)


def replication_pad(gradient, x, padding):
    for at in range(len(padding) // 2):
        dim, before, after = gradient.dim() - 1 - at, padding[2 * at], padding[2 * at + 1]
        size = x.shape[dim]
        if before < 0 or after < 0 or size < 2:
            return NotImplemented
        first = gradient.narrow(dim, 0, before + 1).sum(dim, keepdim=True)
        last = gradient.narrow(dim, before + size - 1, after + 1).sum(dim, keepdim=True)
        gradient = torch.cat([first, gradient.narrow(dim, before + 1, size - 2), last], dim)
    return gradient


TABLE = {
    aten.convolution_backward.default: convolution,
    aten._weight_norm_interface_backward.default: weight_norm,
    aten.max_pool2d_with_indices_backward.default: max_pool2d,
    aten.avg_pool2d_backward.default: avg_pool2d,
    aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d,
    aten.upsample_nearest2d_backward.default: upsample_nearest2d,
    aten._cdist_forward.default: cdist_forward,
    aten._cdist_backward.default: cdist,
    aten.replication_pad1d_backward.default: replication_pad,
    aten.replication_pad2d_backward.default: replication_pad,
}
