"""Exports a module of PyTorch to a file that shalec reads."""
import argparse
import contextlib
import io
import pathlib
from collections.abc import Mapping

from .errors import DataError, UsageError, error_of
from .tools import tool


def export(module, output, inputs=None, loss="inside", *, batch=None, sizes=None, fixed=(), dropout=False, dtype="f32", vocabulary=None, check=True,
           external_data=False, gradients="auto", seed=0):
    """Writes `module`, a torch.nn.Module, to the ONNX file `output` with its loss. Returns the path of the file.

    inputs: {name: "int64[batch,sequence]"} for parameters of forward, or {name: tensor}: the first dimension of a tensor is the batch, the others are
      fixed, and its values are used as those of `batch`. Parameters that neither names are int64[batch,sequence].
    batch: the batch that the module is exported and compared with, as it is passed to forward: a dict (model(**batch), or model(batch) if forward takes
      one parameter), a tuple, a dataclass or a tensor; of a DataLoader, the first batch. Tensors are inputs of the file, under the names that they have in
      the batch; numbers and None are constants. Sizes are the example's. Parameters that the batch does not have, and forward needs, get random values.
    loss: "inside" if forward returns the loss, alone, as `loss` of a dict or an object, or first in a tuple; "next-token" if it returns logits [batch, sequence, vocabulary].
    sizes: {dimension: size} of the example that is traced; fixed: dimensions that keep this size, or "auto": those that
      have only one size in the module.
    dropout: exports in training mode; by default the module's own mode counts, also for dropout. dtype: "f32" or "bf16" parameters in the file.
    gradients: "derived": the file has the forward graph, and shalec derives the gradients; "traced": the file has the gradients that PyTorch's
      autograd computes; "auto": traced where derived ones are not the module's.
    check: trains the file for one step and compares the loss and all gradients with PyTorch's; nothing is written if they differ.

    What wraps the module is taken off: torch.compile, DistributedDataParallel, checkpoint wrappers. The module keeps its values and its mode. Raises shale.Error.
    """
    try:
        import torch
        from shale_export import build, cli, file, sizes as dims, unwrap
    except ImportError as error:
        raise error_of(69, f"{error}: pip install 'shale[export]' brings what an export needs", "export") from error
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"a torch.nn.Module is exported, not {type(module).__name__}")
    if loss not in ("inside", "next-token"):
        raise UsageError(f"loss is 'inside' or 'next-token', not {loss!r}")
    if dtype not in ("f32", "bf16"):
        raise UsageError(f"dtype is 'f32' or 'bf16', not {dtype!r}")
    if gradients not in ("auto", "derived", "traced"):
        raise UsageError(f"gradients is 'auto', 'derived' or 'traced', not {gradients!r}")
    modes = [(one, one.training) for one in module.modules()]
    kinds = [(one, one.data) for one in [*module.parameters(), *module.buffers()]]
    try:
        settings = argparse.Namespace(
            own=True, model=type(module).__name__, input=[dims.parse_input(f"{name}={one}") for name, one in mapping("inputs", inputs).items()
                                                          if not torch.is_tensor(one)], batch=given(torch, mapping("inputs", inputs), batch), loss=loss,
            size=list(mapping("sizes", sizes).items()), fixed=[fixed] if isinstance(fixed, str) else list(fixed), dropout=dropout, dtype=dtype, vocabulary=vocabulary, check=check,
            external_data=external_data, seed=seed, optimize=False, shapes_only=False, gradients=gradients)
        path = cli.check_output(pathlib.Path(output))
        with unwrap.unwrapped(module) as bare, contextlib.redirect_stdout(io.StringIO()):
            file.make(settings, build.from_module(settings, bare), path, tool("shalec") if check else None)
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


def given(torch, inputs, batch):
    """The batch with the tensors of `inputs`; None if there are none."""
    tensors = {name: one for name, one in inputs.items() if torch.is_tensor(one)}
    if not tensors:
        return batch
    if not isinstance(batch, (Mapping, type(None))):
        raise UsageError("tensors are given in inputs and in batch: give all in one of the two")
    twice = [name for name in tensors if name in (batch or {})]
    if twice:
        raise UsageError(f"'{twice[0]}' is a tensor in inputs and in batch")
    return {**tensors, **(batch or {})}
