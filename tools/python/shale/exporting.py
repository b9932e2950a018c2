"""Exports a module of PyTorch to a file that shalec reads."""
import argparse
import contextlib
import io
import pathlib
from collections.abc import Mapping

from .errors import DataError, UsageError, error_of
from .tools import tool


def export(module, output, inputs=None, loss="inside", *, sizes=None, fixed=(), dropout=False, dtype="f32", vocabulary=None, check=True,
           external_data=False, seed=0):
    """Writes `module`, a torch.nn.Module, to the ONNX file `output` with its loss. Returns the path of the file.

    inputs: {name: "int64[batch,sequence]"} or {name: tensor} for parameters of forward. The first dimension of a tensor is the batch,
      and the others are fixed. Parameters that are not named are int64[batch,sequence].
    loss: "inside" if forward returns the loss; "next-token" if it returns logits [batch, sequence, vocabulary].
    sizes: {dimension: size} of the example that is traced; fixed: dimensions that keep this size.
    dropout: exports in training mode; by default the module's own mode counts, also for dropout. dtype: "f32" or "bf16" parameters in the file.
    check: trains the file for one step and compares the loss and all gradients with PyTorch's; nothing is written if they differ.

    The module keeps its values and its mode. Raises shale.Error.
    """
    try:
        import torch
        from shale_export import build, cli, file, sizes as dims
    except ImportError as error:
        raise error_of(69, f"{error}: pip install 'shale[export]' brings what an export needs", "export") from error
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"a torch.nn.Module is exported, not {type(module).__name__}")
    if loss not in ("inside", "next-token"):
        raise UsageError(f"loss is 'inside' or 'next-token', not {loss!r}")
    if dtype not in ("f32", "bf16"):
        raise UsageError(f"dtype is 'f32' or 'bf16', not {dtype!r}")
    modes = [(one, one.training) for one in module.modules()]
    kinds = [(one, one.data) for one in [*module.parameters(), *module.buffers()]]
    try:
        settings = argparse.Namespace(
            own=True, model=type(module).__name__, input=[parsed(torch, dims, name, one) for name, one in mapping("inputs", inputs).items()], loss=loss,
            size=list(mapping("sizes", sizes).items()), fixed=list(fixed), dropout=dropout, dtype=dtype, vocabulary=vocabulary, check=check,
            external_data=external_data, seed=seed, optimize=False, shapes_only=False)
        path = cli.check_output(pathlib.Path(output))
        with contextlib.redirect_stdout(io.StringIO()):
            file.make(settings, build.from_module(settings, module), path, tool("shalec") if check else None)
    except cli.Failure as error:
        raise error_of(error.code, str(error), "export") from error
    finally:
        for one, training in modes:
            one.training = training
        for one, data in kinds:
            one.data = data
    return path


def mapping(name, value):
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return value or {}


def parsed(torch, dims, name, one):
    """An input from its text, or from an example."""
    if torch.is_tensor(one):
        if one.dim() == 0:
            raise UsageError(f"input '{name}' is a scalar: its first dimension must be the batch")
        one = f"{str(one.dtype).removeprefix('torch.')}[{','.join(['batch', *map(str, one.shape[1:])])}]"
    return dims.parse_input(f"{name}={one}")
