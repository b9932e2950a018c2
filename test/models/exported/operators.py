"""Compares functions that an export writes in other operations (tools/export/shale_export/operators.py) with PyTorch's, in f64, and their gradients."""
import functools

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
        "hypot": [(lambda x: torch.hypot(x * 0, x * 0), [rows]), (torch.hypot, [rows, values(3, 7)])],
        "copysign": [(lambda x: (x * 1).copysign_(torch.tensor(-1.0, dtype=x.dtype)), [rows]), (torch.copysign, [rows, values(3, 7)]), (lambda x: torch.copysign(x, torch.tensor([-0.0], dtype=x.dtype)), [rows]), (lambda x: x.copysign(-2.0), [rows])],
        "lgamma": [(lambda x: torch.lgamma(input=x.abs() + 9), [rows]), (lambda x: (x.abs() + 1).lgamma_(), [rows]), (torch.lgamma, [values(40) * 4]), (lambda x: x.exp().lgamma(), [values(40) * 3])],
        "special_gammaln": [(torch.special.gammaln, [values(40)])],
        # The gradient is left out: PyTorch's own has errors of 3e-9 (three terms of its series at 6).
        **{name: [(lambda x, call=call: call(x.detach()) + 0 * x, [one]) for one in (values(40).exp(), 0.25 * values(40).tanh() + 0.5 - torch.arange(40) % 5)]
           for name, call in (("digamma", torch.digamma), ("special_digamma", torch.special.digamma), ("special_psi", torch.special.psi))},
        "erfinv": [(torch.erfinv, [torch.tanh(values(40))]), (lambda x: (x * 0).erfinv(), [rows])],
        "special_erfinv": [(torch.special.erfinv, [torch.tanh(values(40) / 2)])],
        "cdist": [(lambda x, y, p=p: torch.cdist(x, y, p), [rows, values(4, 7)]) for p in (3.0, 1.5, float("inf"))] + [(lambda x: torch.cdist(x, x, 4.0), [values(2, 3, 5)])],
        "ctc_loss": ctc(),
        "multinomial": [(lambda x, how=how: x.sum() * torch.multinomial(torch.tensor([0, 0.2, 0, 0.5, 0.3], dtype=x.dtype), 3, how).sort()[0].clamp(1, 1), [rows]) for how in (True, False)]
                       + [(lambda x: x.gather(1, torch.multinomial((index[:, :5] == 0).double(), 2).sort(1)[0]), [rows])],
        "randperm": [(lambda x: x[torch.randperm(3)].sum(0), [rows])],
        "rrelu": [(lambda x: F.rrelu(x * 0), [rows]), (F.rrelu, [rows]), (lambda x: F.rrelu(x * 2, inplace=True), [rows])],
        "uniform": [(lambda x: x * (torch.nn.init.uniform_(torch.empty_like(x), 0.5, 1) > 0), [rows]), (lambda x: x * torch.empty_like(x).uniform_(0.5, 1.5), [rows])],
        "searchsorted": [(lambda x, how=how: x * torch.searchsorted(torch.tensor([-1.0, 0, 0.5], dtype=x.dtype), x.detach(), **how), [rows]) for how in ({}, {"right": True}, {"side": "right"})] + [
            (lambda x: x * torch.searchsorted(x.detach().sort(1)[0], x.detach()), [rows]),
            (lambda x: x * torch.searchsorted(input=x.detach(), sorted_sequence=torch.arange(3.0, dtype=x.dtype)), [rows])],
        **{f"{name}_window": [(lambda x, make=make: x[0] * make(7, dtype=x.dtype) + x[1] * make(7, periodic=False, dtype=x.dtype), [rows])]
           for name, make in (("hann", torch.hann_window), ("hamming", torch.hamming_window), ("blackman", torch.blackman_window))},
        "stft": [(lambda x, how=how: torch.view_as_real(torch.stft(x, 16, return_complex=True, **how)), [values(2, 40)])
                 for how in ({"window": torch.ones(16, dtype=torch.float64)}, {"hop_length": 5, "win_length": 12, "window": torch.hann_window(12, dtype=torch.float64)}, {"center": False, "normalized": True, "window": torch.hann_window(16, dtype=torch.float64)},
                             {"onesided": False, "window": torch.hann_window(16, dtype=torch.float64)})],
        **matrices(), **samples(),
        "bincount": [(lambda x: x.sum() * torch.bincount(index[0], minlength=7), [rows])],
        "dropout1d": [(lambda x: F.dropout1d(x, 0.3), [rows]), (lambda x: F.dropout1d(x, 0.3), [image[0]])],
        "dropout2d": [(lambda x: F.dropout2d(x, 0.3), [image]), (lambda x: F.dropout2d(x * 2, 0.3, inplace=True), [image]), (lambda x: F.dropout2d(x, 0.3, False), [image])],
        "dropout3d": [(lambda x: F.dropout3d(x, 0.3), [image]), (lambda x: F.dropout3d(x, 0.3), [values(2, 3, 2, 2, 2)])],
    }


def matrices():
    some, one = values(3, 6, 6) + 3 * torch.eye(6), values(9, 9) + 4 * torch.eye(9)
    definite = lambda x: x @ x.mT + torch.eye(6, dtype=x.dtype)  # noqa: E731
    return {
        "inverse": [(lambda x: torch.inverse(input=x * 1e-9) * 1e-9, [torch.eye(3, dtype=torch.float64).flip(0) + 0.1 * values(3, 3)]), (torch.inverse, [some]), (lambda x: x.inverse(), [values(1, 1)])],
        "linalg_inv": [(torch.linalg.inv, [one])],
        "linalg_solve": [(lambda x, y: torch.linalg.solve(B=y, A=x), [one, values(9, 2)]), (torch.linalg.solve, [some, values(3, 6, 2)]), (torch.linalg.solve, [one, values(9)])],
        "slogdet": [(lambda x: torch.slogdet(x)[1] * torch.slogdet(x)[0], [some])],
        "linalg_slogdet": [(lambda x: x.sum() * torch.linalg.slogdet(x).sign + torch.linalg.slogdet(x).logabsdet, [one])],
        "logdet": [(lambda x: definite(x).logdet(), [some])],
        "det": [(torch.det, [some])],
        "linalg_det": [(lambda x: torch.linalg.det(x / 4), [one])],
        "linalg_cholesky": [(lambda x: torch.linalg.cholesky(x.tril()), [definite(some)]), (torch.linalg.cholesky, [definite(some)])],
        "cholesky_solve": [(lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(definite(x))), [some, values(3, 6, 2)]),
                           (lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(definite(x)).mT, upper=True), [some, values(3, 6, 2)])],
        "linalg_solve_triangular": [
            (lambda x, y, how=how: torch.linalg.solve_triangular(x + 4 * torch.eye(6), y, **how), [some, values(3, 6, 2)])
            for how in ({"upper": True}, {"upper": False}, {"upper": True, "unitriangular": True}, {"upper": False, "unitriangular": True})],
        "linalg_qr": [(lambda x: torch.linalg.qr(x)[0], [some]), (lambda x: torch.linalg.qr(x).R, [values(7, 4)]), (lambda x: torch.linalg.qr(x).Q, [values(2, 5, 3)])],
        "linalg_householder_product": [(torch.linalg.householder_product, [values(7, 4) / 2, values(4)]), (torch.linalg.householder_product, [some / 4, values(3, 4)])],
        "matrix_exp": [(lambda x: torch.matrix_exp(torch.diag_embed(x[:, 0].abs() * -500)), [some]), (torch.matrix_exp, [some]), (lambda x: torch.matrix_exp(4 * (x - x.mT)), [one])],
        "linalg_matrix_exp": [(torch.linalg.matrix_exp, [some])],
    }


def ctc():
    targets, inputs, lengths = torch.tensor([[2, 2, 1], [3, 1, 4], [1, 2, 3], [4, 4, 4]]), (9, 7, 3, 4), (3, 2, 0, 3)
    calls = [(lambda x, how=how: F.ctc_loss(x.log_softmax(-1), targets, inputs, lengths, reduction=how, zero_infinity=True), [values(9, 4, 6)]) for how in ("mean", "sum", "none")]
    padded = torch.where(torch.arange(3) < torch.tensor(lengths)[:, None], targets, -100)
    calls.append((lambda x: F.ctc_loss(x / 4, padded, inputs, lengths, zero_infinity=True), [values(9, 4, 6)]))
    tensors = [torch.tensor(one) for one in (inputs, lengths)]
    calls.append((lambda x: torch.ctc_loss(x[:, :3].log_softmax(-1), targets[:3] - 1, *(one[:3] for one in tensors), 5, 0), [values(9, 4, 6)]))
    return calls


def samples():
    image, grid = values(2, 3, 5, 7), values(2, 4, 6, 2) * 0.8
    calls = [(lambda x, at, mode=mode, border=border, align=align: F.grid_sample(x, at, mode, border, align), [image, grid])
             for mode in ("bilinear", "nearest") for border in ("zeros", "border") for align in (False, True)]
    same = F.affine_grid(torch.eye(2, 3, dtype=torch.float64).expand(2, 2, 3), [2, 3, 5, 7], align_corners=True)
    calls.append((lambda x, at: F.grid_sample(x, at, padding_mode="border", align_corners=True), [image, same]))
    lines, volumes = values(2, 3, 10), values(2, 3, 4, 5, 6)
    pooled = lambda x: F.max_pool2d(x, 2, (1, 2), 1, return_indices=True)  # noqa: E731
    return {
        "max_pool2d_with_indices": [(lambda x: pooled(x)[0] * (1 + pooled(x)[1]), [image])],
        "max_unpool2d": [(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(5, 7)), [image]),
                         (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [values(2, 3, 4, 6)])],
        "grid_sample": calls,
        **{f"adaptive_{kind}_pool{dims}d": [(lambda x, pool=getattr(F, f"adaptive_{kind}_pool{dims}d"), out=out: pool(x, out), [value]) for out in outs]
           for kind in ("avg", "max") for dims, value, outs in ((1, lines, (4, 7)), (2, image, (3, (2, 4))), (3, volumes, (3, (4, 2, 4))))},
    }


# What the exporter writes, or nothing writes, is left to PyTorch's function.
LEFT = [("scatter_reduce", (values(3, 7), 1, torch.zeros(3, 7, dtype=torch.long), values(3, 7), "amax")), ("conv3d", (values(1, 1, 3, 3, 3), values(1, 1, 1, 1, 1), None, 1, "same")),
        ("take_along_dim", (values(3), torch.tensor([1]))), ("cov", (values(3),)), ("corrcoef", (values(3),)), ("fill_diagonal", (values(2, 2, 2), 0)),
        ("dropout2d", (values(3, 7),)), ("gaussian_nll_loss", (values(3), values(3), 0.5)), ("sort", (values(3),)), ("argsort", (values(3),)), ("bincount", (torch.tensor([1]),)),
        ("grid_sample", (values(1, 1, 2, 2), values(1, 2, 2, 2), "bicubic")), ("adaptive_avg_pool2d", (values(1, 1, 4, 4), 2)), ("adaptive_max_pool1d", (values(1, 1, 3), 2, True)),
        ("inverse", (values(2, 3),)), ("linalg_cholesky", (values(2, 3),))]
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
            table[name] = functools.wraps(kept)(lambda *arguments, **keywords: (reached.append(name), kept(*arguments, **keywords))[1])
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
