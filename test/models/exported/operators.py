"""Compares functions that an export writes in other operations (tools/export/shale_export/operators.py) with PyTorch's, in f64, and their gradients."""
import torch
from torch.nn import functional as F

BAR = 1e-12


def values(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def cases():
    """name: [(function, operands)]. The functions return a tensor of floats, or several."""
    rows, image = values(3, 7), values(2, 4, 5, 6)
    with_zeros = torch.where(rows.abs() < 0.5, 0.0, rows)
    index = torch.tensor([[0, 2, 2, 5, 0, 0, 5]] * 3)
    return {
        "sort": [(lambda x: torch.sort(x, dim=0, descending=True, stable=True)[0], [rows])],
        "argsort": [(lambda x: x.gather(1, x.argsort(dim=1, stable=True)), [rows])],
        "cummax": [(lambda x: torch.cummax(x, 1)[0], [rows])],
        "cummin": [(lambda x: x.cummin(0).values, [rows])],
        "cumprod": [(lambda x: torch.cumprod(x, 1), [rows]), (lambda x: x.cumprod(dim=0), [with_zeros]), (lambda x: x.cumprod(-1), [values(2, 1)])],
        "kthvalue": [(lambda x: x.kthvalue(2, 1, keepdim=True).values, [rows]), (lambda x: torch.kthvalue(x, 7)[0], [rows])],
        "median": [(lambda x: x.median(0).values, [values(6, 3)]), (lambda x: x.median(-1, keepdim=True)[0], [rows]), (torch.median, [values(4, 4)])],
        "scatter_reduce": [(lambda x, y, own=own: x.scatter_reduce(1, index, y, "mean", include_self=own), [rows, values(3, 7)]) for own in (True, False)],
        "take_along_dim": [(lambda x: torch.take_along_dim(x, index[:1, :4], 1), [rows]), (lambda x: x.take_along_dim(x.argsort(0), dim=0), [rows])],
        "conv3d": [(lambda x, w, b: F.conv3d(x, w, b, (2, 1, 2), (1, 0, 2), (1, 2, 1), 2), [values(2, 4, 6, 7, 5), values(6, 2, 3, 2, 3), values(6)]),
                   (lambda x, w: F.conv3d(x, w, stride=2), [values(2, 3, 4, 4, 4), values(5, 3, 2, 2, 2)])],
        "gaussian_nll_loss": [(lambda x, y, v: F.gaussian_nll_loss(x, y, v.square(), full=True, eps=0.5), [rows, values(3, 7), values(3, 7)]),
                              (lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp(), reduction="none"), [rows, values(3, 7), values(3)]),
                              (lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp(), reduction="sum"), [rows, values(3, 7), values(3, 1)])],
        "cov": [(torch.cov, [rows]), (lambda x: torch.cov(x, correction=0), [rows])],
        "corrcoef": [(lambda x: torch.corrcoef(x).tril(-1), [rows])],
        "fill_diagonal": [(lambda x: (x * 2).fill_diagonal_(0.5), [rows]), (lambda x: (x * 2).fill_diagonal_(0), [values(5, 3)])],
        "hypot": [(torch.hypot, [rows, values(3, 7)])],
        "bincount": [(lambda x: x.sum() * torch.bincount(index[0], minlength=7), [rows])],
        "dropout1d": [(lambda x: F.dropout1d(x, 0.3), [rows]), (lambda x: F.dropout1d(x, 0.3), [image[0]])],
        "dropout2d": [(lambda x: F.dropout2d(x, 0.3), [image]), (lambda x: F.dropout2d(x * 2, 0.3, inplace=True), [image]), (lambda x: F.dropout2d(x, 0.3, False), [image])],
        "dropout3d": [(lambda x: F.dropout3d(x, 0.3), [image]), (lambda x: F.dropout3d(x, 0.3), [values(2, 3, 2, 2, 2)])],
    }


# What the exporter writes, or nothing writes, is left to PyTorch's function.
LEFT = [("scatter_reduce", (values(3, 7), 1, torch.zeros(3, 7, dtype=torch.long), values(3, 7), "amax")), ("conv3d", (values(1, 1, 3, 3, 3), values(1, 1, 1, 1, 1), None, 1, "same")),
        ("take_along_dim", (values(3), torch.tensor([1]))), ("cov", (values(3),)), ("corrcoef", (values(3),)), ("fill_diagonal", (values(2, 2, 2), 0)),
        ("dropout2d", (values(3, 7),)), ("gaussian_nll_loss", (values(3), values(3), 0.5)), ("sort", (values(3),)), ("argsort", (values(3),)), ("bincount", (torch.tensor([1]),))]
ELSEWHERE = {"grouped_mm"}  # of bf16: users.py has it


def result(function, operands, seed):
    """The values and the gradients of a function that may draw random numbers."""
    torch.manual_seed(0)
    leaves = [one.detach().requires_grad_() for one in operands]
    found = function(*leaves)
    return [found.detach(), *torch.autograd.grad(found, leaves, seed if seed.dim() else seed.expand_as(found))]


def check(table, rewriting):
    torch.manual_seed(0)
    found = cases()
    if set(found) | ELSEWHERE != set(table):
        raise RuntimeError(f"no case calls {set(table) - set(found) - ELSEWHERE}")
    for name, calls in found.items():
        for at, (function, operands) in enumerate(calls):
            torch.manual_seed(0)
            seed = torch.randn_like(function(*operands))
            wanted, reached = result(function, operands, seed), []
            kept = table[name]
            table[name] = lambda *arguments, **keywords: (reached.append(name), kept(*arguments, **keywords))[1]
            try:
                with rewriting():
                    got = result(function, operands, seed)
            finally:
                table[name] = kept
            off = max(float((one - other).abs().max()) for one, other in zip(got, wanted, strict=True))
            if not reached or not off <= BAR:
                raise RuntimeError(f"{name}, call {at}: off by {off}, {'not ' if not reached else ''}rewritten")
    if written := [name for name, arguments in LEFT if table[name](*arguments) is not None]:
        raise RuntimeError(f"{written} are written in other operations")
    return f"{len(found)} functions in {sum(map(len, found.values()))} calls, {len(LEFT)} are left"
