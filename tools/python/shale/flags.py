"""Keywords as flags of command-line tools."""
import numbers
import os
from collections.abc import Mapping

from .errors import UsageError


def value_of(value):
    """The text of a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, numbers.Real, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise UsageError(f"a flag cannot be of type {type(value).__name__}: use text, a number, True or False, a list, or a dict of NAME=VALUE")


def flags_of(keywords, switches=()):
    """Returns the words of keywords: name=value is --name=value; a list repeats the flag; a dict repeats it with NAME=VALUE; a tuple is one flag
    with several values; None is left out. True is --name alone for `switches`, which take no value, and --name=true for others."""
    words = []
    for name, value in keywords.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if isinstance(value, Mapping):
            value = [f"{key}={value_of(one)}" for key, one in value.items()]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, tuple):
                words += [flag, *map(value_of, one)]
                continue
            if one is None or (one is False and flag in switches):
                continue
            words.append(flag if one is True and flag in switches else f"{flag}={value_of(one)}")
    return words
