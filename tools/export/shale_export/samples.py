"""Functions of images that PyTorch's exporter does not write, in other operations. Sizes of images are numbers. Each has the parameters of the function, and returns
None where it does not write it."""
import torch


def is_image(value, dims=2):
    return all(isinstance(size, int) for size in value.shape[-dims:])


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The elements at positions from -1 to 1, or between them. Source: ATen/native/GridSamplerUtils.h."""
    if input.dtype in (torch.float16, torch.bfloat16):
        found = grid_sample(input.float(), grid.float(), mode, padding_mode, align_corners)
        return found if found is None else found.to(input.dtype)
    if input.dim() != 4 or not is_image(input) or not is_image(grid, 3) or mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border"):
        return None
    sizes, places = input.shape[:1:-1], []
    for at, size in enumerate(sizes):
        place = (grid[..., at] + 1) / 2 * (size - 1) if align_corners else ((grid[..., at] + 1) * size - 1) / 2
        if padding_mode == "border":  # no gradient flows at the border
            place = torch.where(place <= 0, 0.0, torch.where(place >= size - 1, size - 1.0, place))
        places.append(place)

    def read(x, y):
        inside = (x >= 0) & (x < sizes[0]) & (y >= 0) & (y < sizes[1])
        index = y.clamp(0, sizes[1] - 1).to(torch.int64) * sizes[0] + x.clamp(0, sizes[0] - 1).to(torch.int64)
        found = input.flatten(2).gather(2, index.flatten(1)[:, None].expand(-1, input.shape[1], -1))
        return found.unflatten(2, index.shape[1:]) * inside[:, None].to(input.dtype)

    if mode == "nearest":
        return read(*(place.detach().round() for place in places)) + (0 * sum(places))[:, None]  # the grid has gradients of 0
    low, found = [place.detach().floor() for place in places], None
    for right in (0, 1):
        for below in (0, 1):
            shares = [place - first if up else first + 1 - place for place, first, up in zip(places, low, (right, below))]
            part = (shares[0] * shares[1])[:, None] * read(low[0] + right, low[1] + below)
            found = part if found is None else found + part
    return found


def parts(value, sizes):
    """The parts of an image, by rows, each as [.., elements]. None if they have equal sizes, which the exporter writes."""
    dims = len(sizes)
    if not is_image(value, dims):
        return None
    sizes = [size if out is None else out for size, out in zip(value.shape[-dims:], sizes)]
    if all(size % out == 0 for size, out in zip(value.shape[-dims:], sizes)):
        return None
    pieces = [value]
    for at, out in enumerate(sizes):
        dim, size = at - dims, value.shape[at - dims]
        pieces = [one.narrow(dim, n * size // out, -(-(n + 1) * size // out) - n * size // out) for one in pieces for n in range(out)]
    return sizes, [one.flatten(-dims) for one in pieces]


def adaptive_pool(dims, kind):
    """A pool over parts of an image that may have unequal sizes. torch.nn.functional asks for maxima with return_indices; those of torch have indices always."""
    def pool(input, output_size, return_indices=None):
        sizes = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * dims
        found = parts(input, sizes) if return_indices == (None if kind == "avg" else False) else None
        return found and torch.stack([one.mean(-1) if kind == "avg" else one.max(-1)[0] for one in found[1]], -1).unflatten(-1, found[0])
    return pool


def pools():
    return {f"adaptive_{kind}_pool{dims}d": adaptive_pool(dims, kind) for kind in ("avg", "max") for dims in (1, 2, 3)}


def pairs(*values):
    return [[value, value] if isinstance(value, int) else list(value) * (3 - len(value)) for value in values]


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True):
    """The largest element of each window, and its place in the image."""
    if not is_image(input) or ceil_mode or not input.is_floating_point():
        return None
    kernel, stride, padding, dilation = pairs(kernel_size, stride or kernel_size, padding, dilation)
    sizes = input.shape[-2:]
    out = [(size + 2 * border - apart * (window - 1) - 1) // step + 1 for size, window, step, border, apart in zip(sizes, kernel, stride, padding, dilation)]
    padded = torch.nn.functional.pad(input, (padding[1], padding[1], padding[0], padding[0]), value=-float("inf"))
    windows, places = [], []
    row, column = (torch.arange(n, device=input.device) * step - border for n, step, border in zip(out, stride, padding))
    for y in range(kernel[0]):
        for x in range(kernel[1]):
            top, left = y * dilation[0], x * dilation[1]
            windows.append(padded[..., top:top + (out[0] - 1) * stride[0] + 1:stride[0], left:left + (out[1] - 1) * stride[1] + 1:stride[1]])
            places.append((row + top)[:, None] * sizes[1] + column + left)
    found, which = torch.stack(windows, -1).max(-1)
    return found, torch.stack(places, -1).expand(*which.shape, -1).gather(-1, which[..., None])[..., 0]


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    if not is_image(input):
        return None
    kernel, stride, padding = pairs(kernel_size, stride or kernel_size, padding)
    sizes = list(output_size)[-2:] if output_size else [(n - 1) * step - 2 * border + window for n, window, step, border in zip(input.shape[-2:], kernel, stride, padding)]
    found = input.new_zeros([*input.shape[:-2], sizes[0] * sizes[1]]).scatter(-1, indices.flatten(-2), input.flatten(-2))
    return found.unflatten(-1, sizes)


SAMPLES = {one.__name__: one for one in (grid_sample, max_pool2d_with_indices, max_unpool2d)} | pools()
