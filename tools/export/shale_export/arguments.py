"""How a batch is passed to forward: the tensors in it are inputs of the file, by name, and everything else is a constant of the file."""
import copy
import dataclasses
import enum
import inspect
import keyword
import numbers
import re
import types
from collections.abc import Iterable, Mapping

import torch

from .cli import DATA, Failure, note

CONSTANTS = (type(None), bool, numbers.Number, str, bytes, torch.dtype, torch.device, enum.Enum)


def parameters_of(model):
    """The parameters of forward that have names, and whether it takes other keywords."""
    all_of = inspect.signature(model.forward).parameters.values()
    return [one for one in all_of if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)], any(one.kind == one.VAR_KEYWORD for one in all_of)


def fields_of(value):
    """The named parts of a dataclass or a namedtuple, or None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_fields") else None


def entries_of(value):
    """The named parts of a dataclass, a namedtuple or a namespace, or None."""
    return dict(vars(value)) if isinstance(value, types.SimpleNamespace) else fields_of(value)


def first_of(batch):
    """The batch itself; the first one of a DataLoader, of a generator and the like."""
    if torch.is_tensor(batch) or isinstance(batch, (Mapping, tuple, list)) or entries_of(batch) is not None or not isinstance(batch, Iterable):
        return batch
    try:
        return next(iter(batch))
    except StopIteration:
        raise Failure(DATA, f"the {type(batch).__name__} given as batch has no batch") from None


def arguments_of(batch, model):
    """The arguments of forward that a batch has, by the names of its parameters: those of model(**batch), model(*batch) or model(batch)."""
    batch, (parameters, takes_more) = first_of(batch), parameters_of(model)
    names, entries = [one.name for one in parameters], entries_of(batch)
    needed = [one.name for one in parameters if one.default is one.empty]
    whole = (needed or names)[0] if len(needed) == 1 or len(names) == 1 else None  # the parameter that can take the batch as it is
    if isinstance(batch, Mapping) or entries:
        named = dict(batch) if isinstance(batch, Mapping) else entries
        other = [name for name in named if name not in names]
        if not other or (takes_more and (whole is None or whole in named)):
            return named
        if whole and whole not in named:
            return {whole: batch}
        if not isinstance(batch, tuple):
            raise Failure(DATA, f"the batch has '{other[0]}', which forward does not take; it takes {', '.join(names) or 'nothing'}")
    if isinstance(batch, (tuple, list)):
        if len(batch) > len(names) and len(names) == 1:
            return {names[0]: batch}
        if len(batch) > len(names):
            raise Failure(DATA, f"the batch has {len(batch)} entries, and forward takes {', '.join(names) or 'nothing'}")
        return dict(zip(names, batch))
    if not names:
        raise Failure(DATA, "forward takes no parameter that has a name: give it parameters, not *args")
    return {names[0]: batch}


class Tree:
    """An argument, with the tensors in it taken out: `tensors` has them by name. `numbers` are those that the file will have as constants."""

    def __init__(self):
        self.tensors, self.numbers = {}, {}

    def name(self, path):
        name = re.sub(r"\W", "_", "_".join(map(str, path)))
        name = f"_{name}" if not name.isidentifier() else f"{name}_" if keyword.iskeyword(name) or name in ("self", "call") else name
        while name in self.tensors:
            name += "_"
        return name

    def take(self, value, path):
        """Returns what makes the value again of {name: tensor}."""
        if torch.is_tensor(value):
            name = self.name(path)
            self.tensors[name] = value.detach().cpu()
            return lambda tensors: tensors[name]
        if isinstance(value, Mapping):
            parts = {key: self.take(one, [*path, key]) for key, one in value.items()}
            return lambda tensors: of_entries(value, {key: make(tensors) for key, make in parts.items()})
        if (entries := entries_of(value)) is not None:
            parts = {key: self.take(one, [*path, key]) for key, one in entries.items()}
            return lambda tensors: with_entries(value, {key: make(tensors) for key, make in parts.items()})
        if isinstance(value, (tuple, list)):
            made = [self.take(one, [*path, at]) for at, one in enumerate(value)]
            return lambda tensors: type(value)(make(tensors) for make in made)
        if not isinstance(value, CONSTANTS):
            raise Failure(DATA, f"'{'.'.join(map(str, path))}' of the batch is a {type(value).__name__}; a batch has tensors, numbers, text and None, in dictionaries, "
                                "tuples, lists and dataclasses")
        if isinstance(value, numbers.Number) and not isinstance(value, bool):
            self.numbers[".".join(map(str, path))] = value
        return lambda tensors: value


def of_entries(value, entries):
    """A dictionary of the same type with other values."""
    if type(value) is dict:
        return entries
    made = copy.copy(value)
    for key, one in entries.items():
        made[key] = one
    return made


def with_entries(value, entries):
    """A dataclass, a namedtuple or a namespace with other values."""
    if isinstance(value, tuple):
        return type(value)(**entries)
    made = copy.copy(value)
    for key, one in entries.items():
        object.__setattr__(made, key, one)
    return made


class Arguments:
    """The arguments of forward that a batch gives. `tensors`: those in it, by the names that they have as inputs."""

    def __init__(self, batch, model, more=()):
        """`more`: names of entries that are no arguments of forward, such as labels of a loss outside of it."""
        batch = first_of(batch)
        kept = {name: batch[name] for name in more if isinstance(batch, Mapping) and name in batch}
        given = arguments_of({name: one for name, one in batch.items() if name not in kept} if kept else batch, model)
        tree = Tree()
        # The tensors in an argument that takes the whole batch have the names that they have in the batch.
        self.parts = {name: tree.take(value, [] if value is batch and entries_by_name(value) else [name]) for name, value in {**given, **kept}.items()}
        self.tensors, self.inputs = tree.tensors, {}
        if tree.numbers:
            said = [f"{name} = {value}" for name, value in tree.numbers.items()]
            note(f"numbers of the batch are constants of the file: {', '.join(said[:4])}{' ..' if said[4:] else ''}. Pass a tensor with one number for each example if it varies")

    def call(self, tensors):
        """The arguments, of the inputs' values."""
        given = {name: make(tensors) for name, make in self.parts.items()}
        return {**given, **{name: tensors[name] for name in self.inputs}}


def entries_by_name(value):
    return isinstance(value, Mapping) or entries_of(value) is not None
