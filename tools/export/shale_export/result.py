"""The loss in what forward returns."""
from collections.abc import Mapping

import torch

from .arguments import fields_of
from .cli import DATA, Failure, note

said = set()  # notes that were printed


def parts_of(found):
    """What forward returns, by name or place."""
    if isinstance(found, Mapping):
        return dict(found)
    if (fields := fields_of(found)) is not None:
        return fields
    if isinstance(found, (tuple, list)):
        return dict(enumerate(found))
    return {"loss": found.loss} if hasattr(found, "loss") else {"": found}


def loss_in(found):
    """The loss: the result itself, its entry or attribute `loss`, or else its first scalar."""
    parts = parts_of(found)
    if parts.get("loss") is not None:
        parts = {"loss": parts["loss"]}
    scalars = {name: part for name, part in parts.items() if torch.is_tensor(part) and part.numel() == 1 and part.is_floating_point()}
    if not scalars or (len(scalars) > 1 and isinstance(found, Mapping)):
        shapes = {name: tuple(part.shape) if torch.is_tensor(part) else type(part).__name__ for name, part in parts.items()}
        raise Failure(DATA, f"forward returns {len(scalars)} scalars, not one loss (it returns {', '.join(f'{name} {shape}'.strip() for name, shape in shapes.items())}): return the "
                            "loss, alone, as 'loss' or first, or pass --loss next-token where forward returns logits [batch, sequence, vocabulary]")
    if len(scalars) > 1 and (text := f"forward returns {len(scalars)} scalars: the first is the loss") not in said:
        said.add(text)
        note(text)
    loss = next(iter(scalars.values()))
    return loss.reshape(()) if loss.dim() else loss
