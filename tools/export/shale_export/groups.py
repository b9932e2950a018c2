"""Matmuls of groups of rows as operators of PyTorch, which a traced file keeps whole (translations.py)."""
import torch


def parts(ends):
    """(group, first row, end) of each group."""
    first = 0
    for group, end in enumerate(ends.tolist()):
        yield group, first, end
        first = end


@torch.library.custom_op("shale::grouped_mm", mutates_args=())
def grouped_mm(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """x [S, K] times weight [E, K, N]: the rows from ends[e - 1] to ends[e] with matrix e."""
    result = x.new_zeros(x.shape[0], weight.shape[2])
    for group, first, end in parts(ends):
        result[first:end] = x[first:end] @ weight[group]
    return result


@torch.library.custom_op("shale::grouped_mm_weights", mutates_args=())
def grouped_mm_weights(x: torch.Tensor, grad: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The gradient of the weight: x [S, K] and grad [S, N] to [E, K, N]."""
    result = x.new_zeros(ends.shape[0], x.shape[1], grad.shape[1])
    for group, first, end in parts(ends):
        result[group] = x[first:end].T @ grad[first:end]
    return result


@grouped_mm.register_fake
def _(x, weight, ends):
    return x.new_empty(x.shape[0], weight.shape[2])


@grouped_mm_weights.register_fake
def _(x, grad, ends):
    return x.new_empty(ends.shape[0], x.shape[1], grad.shape[1])


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    x, weight, ends = ctx.saved_tensors
    return grouped_mm(grad, weight.transpose(1, 2), ends), grouped_mm_weights(x, grad, ends), None


grouped_mm.register_autograd(backward, setup_context=keep)
