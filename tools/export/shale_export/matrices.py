"""Functions of matrices that PyTorch's exporter does not write, in other operations. Sizes of matrices are numbers. Each has the parameters of the function, and
returns None where it does not write it."""
import torch

SQUARINGS, TERMS = 16, 18  # of matrix_exp, at most: 65536 times a norm of 1, with a rest of 1/19!


def is_square(value):
    return value.dim() >= 2 and isinstance(value.shape[-1], int) and value.shape[-1] == value.shape[-2] > 0 and value.is_floating_point()


def eliminate(value):
    """Gauss-Jordan elimination with partial pivoting, without gradients. Returns the inverse, and the sign and the logarithm of the size of the determinant."""
    value = value.detach()
    size = value.shape[-1]
    right = torch.eye(size, dtype=value.dtype, device=value.device).expand(value.shape)
    place = torch.arange(size, device=value.device)
    free = torch.ones_like(value[..., 0])  # 1 for rows that were no pivot
    log, sign, order = torch.zeros_like(value[..., 0, 0]), torch.ones_like(value[..., 0, 0]), []
    for at in range(size):
        column = value[..., at]
        row = torch.where(free > 0, column.abs(), -1.0).argmax(-1, keepdim=True)
        chosen = (place == row).to(value.dtype)
        free = free * (1 - chosen)
        order.append(row)
        pivot = (chosen * column).sum(-1, keepdim=True)
        log, sign = log + pivot[..., 0].abs().log(), sign * pivot[..., 0].sign()
        pivot = torch.where(pivot == 0, torch.finfo(value.dtype).tiny, pivot)  # of a singular matrix
        rest = torch.where(chosen > 0, 1 - 1 / pivot, column / pivot)[..., None]  # the pivot's row is divided by the pivot
        value, right = (one - rest * (chosen[..., None] * one).sum(-2, keepdim=True) for one in (value, right))
    order = torch.cat(order, -1)
    after = (order[..., :, None] > order[..., None, :]) & (place[:, None] < place)  # pairs of rows in the other order
    sign = sign * (1 - 2 * (after.sum((-2, -1)) % 2).to(value.dtype))
    return right.gather(-2, order[..., None].expand(right.shape)), sign, log


def inverse(value, **words):
    """The inverse X without gradients, and a step of Newton's iteration, 2 X - X A X: its derivative with respect to A is that of the inverse."""
    if not is_square(value) or words:
        return None
    found = eliminate(value)[0]
    return 2 * found - found @ value @ found


def solve(A, B, *, left=True, **words):
    if not is_square(A) or words or not left or not torch.is_tensor(B):
        return None
    vectors = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    found = inverse(A) @ (B.unsqueeze(-1) if vectors else B)
    return found.squeeze(-1) if vectors else found


class Signed(tuple):
    sign, logabsdet = property(lambda self: self[0]), property(lambda self: self[1])


def slogdet(value, **words):
    """The gradient of the logarithm is the inverse, transposed."""
    if not is_square(value) or words:
        return None
    found, sign, log = eliminate(value)
    return Signed((sign, log + (found.mT * (value - value.detach())).sum((-2, -1))))


def logdet(value):
    found = slogdet(value)
    return found and torch.where(found[0] < 0, torch.full_like(found[1], float("nan")), found[1])


def det(value, **words):
    found = None if words else slogdet(value)
    return found and found[0] * found[1].exp()


def cholesky(value, *, upper=False, **words):
    """Column by column. PyTorch reads the lower triangle, and its gradient is symmetric."""
    if not is_square(value) or upper or words:
        return None
    both, low = (value + value.mT) / 2, value.detach().tril()
    value, size, columns = both - both.detach() + low + low.tril(-1).mT, value.shape[-1], []
    place = torch.arange(size, device=value.device)
    for at in range(size):
        column = value[..., at]
        for one in columns:
            column = column - one * one[..., at:at + 1]
        columns.append(torch.where(place >= at, column / column[..., at:at + 1].sqrt(), torch.zeros_like(column)))
    return torch.stack(columns, -1)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False, **words):
    if not is_square(A) or words or not left:
        return None
    A = (A.triu if upper else A.tril)(int(upper) * 2 - 1 if unitriangular else 0)
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return inverse(A + unit if unitriangular else A) @ B


def cholesky_solve(input, input2, upper=False, **words):
    """`input2`: the factor of the matrix, L L^T or U^T U."""
    if not is_square(input2) or words:
        return None
    found = inverse(input2.triu().mT if upper else input2.tril())
    return found.mT @ (found @ input)


def reflections(value):
    """The vectors of Householder's algorithm with their factors, and the triangular matrix. Source: LAPACK's dgeqr2 and dlarfg."""
    rows, columns = value.shape[-2:]
    place, found = torch.arange(rows, device=value.device), []
    for at in range(min(rows, columns)):
        column = torch.where(place >= at, value[..., at], 0)
        first, rest = column[..., at:at + 1], torch.where(place > at, column, 0)
        if at == rows - 1:
            break  # one element stays as it is
        below = rest.square().sum(-1, keepdim=True)
        done = below == 0  # the column stays as it is
        end = torch.where(first < 0, 1.0, -1.0) * torch.where(done, 1.0, below + first.square()).sqrt()
        vector = torch.where(place == at, 1.0, rest / torch.where(done, 1.0, first - end))
        factor = torch.where(done, 0.0, (end - first) / end)[..., None]
        value = value - factor * vector[..., None] * (vector[..., None, :] @ value)
        found.append((vector, factor))
    return found, value


def product(found, like, columns):
    """The first columns of the product of reflections."""
    result = torch.eye(like.shape[-2], columns, dtype=like.dtype, device=like.device).expand(*like.shape[:-2], like.shape[-2], columns)
    for vector, factor in reversed(found):
        result = result - factor * vector[..., None] * (vector[..., None, :] @ result)
    return result


def householder_product(value, tau):
    rows, columns = value.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(tau.shape[-1], int):
        return None
    place = torch.arange(rows, device=value.device)
    vectors = [torch.where(place == at, 1.0, torch.where(place > at, value[..., at], 0)) for at in range(tau.shape[-1])]
    return product([(vector, tau[..., at, None, None]) for at, vector in enumerate(vectors)], value, columns)


class Factors(tuple):
    Q, R = property(lambda self: self[0]), property(lambda self: self[1])


def qr(value, mode="reduced"):
    rows, columns = value.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int) or not rows >= columns > 0 or mode != "reduced" or not value.is_floating_point():
        return None
    found, triangular = reflections(value)
    return Factors((product(found, value, columns), triangular[..., :columns, :].triu()))


def matrix_exp(value):
    """The series for a part of the matrix, squared."""
    if not is_square(value):
        return None
    times = value.detach().abs().sum(-1).amax(-1).clamp(min=1).log2().ceil()[..., None, None]
    value = value * 2 ** -times
    unit = torch.eye(value.shape[-1], dtype=value.dtype, device=value.device)
    found = unit
    for term in range(TERMS, 0, -1):
        found = unit + value @ found / term
    for at in range(SQUARINGS):
        found = torch.where(at < times, found @ found, found)
    return found


MATRICES = {"inverse": inverse, "linalg_inv": inverse, "linalg_solve": solve, "slogdet": slogdet, "linalg_slogdet": slogdet, "logdet": logdet, "det": det, "linalg_det": det,
            "linalg_cholesky": cholesky, "cholesky_solve": cholesky_solve, "linalg_solve_triangular": solve_triangular, "linalg_qr": qr,
            "linalg_householder_product": householder_product, "matrix_exp": matrix_exp, "linalg_matrix_exp": matrix_exp}
