"""Parses inputs of a module: NAME=TYPE[DIM,..], where a dimension is a number or a name. Needs only Python."""
import re

from .cli import USAGE, Failure

TYPES = ("int64", "int32", "bool", "float32", "float16", "bfloat16")


class Input:
    def __init__(self, name, kind, dims):
        self.name, self.kind, self.dims = name, kind, dims

    @staticmethod
    def of(name, kind, dims):
        """An input of a type and of dimensions that may not be allowed."""
        if kind not in TYPES:
            raise Failure(USAGE, f"input '{name}': type '{kind}' is not one of {', '.join(TYPES)}")
        return Input(name, kind, dims)

    def shape(self, sizes):
        return [dim if isinstance(dim, int) else sizes[dim] for dim in self.dims]

    def symbolic(self, fixed):
        return {i: dim for i, dim in enumerate(self.dims) if isinstance(dim, str) and dim not in fixed}

    def __str__(self):
        return f"{self.name}={self.kind}[{','.join(map(str, self.dims))}]"


def parse_input(text):
    found = re.fullmatch(r"([A-Za-z_]\w*)=(\w+)\[([\w ,]*)\]", text)
    if not found:
        raise Failure(USAGE, f"--input expects NAME=TYPE[DIM,..], for example tokens=int64[batch,sequence]; got '{text}'")
    name, kind, dims = found.groups()
    if kind not in TYPES:
        raise Failure(USAGE, f"--input {name}: type '{kind}' is not one of {', '.join(TYPES)}")
    dims = [word.strip() for word in dims.split(",")] if dims.strip() else []
    if "" in dims:
        raise Failure(USAGE, f"--input {name}: a dimension is missing in '{text}'")
    for word in dims:
        if not word.isidentifier() and (not word.isdigit() or int(word) == 0):
            raise Failure(USAGE, f"--input {name}: '{word}' is neither a size nor a name")
    return Input(name, kind, [int(word) if word.isdigit() else word for word in dims])


FILES = (".safetensors", ".pt")


def parse_batch(text):
    """What gives a batch: a file of tensors, or FILE.py:NAME or MODULE:NAME."""
    place, _, name = text.rpartition(":")
    if not text.endswith(FILES) and not (place and name.isidentifier()):
        raise Failure(USAGE, f"--batch expects FILE.py:NAME, MODULE:NAME, FILE.safetensors or FILE.pt; got '{text}'")
    return text


def parse_size(text):
    name, _, value = text.partition("=")
    if not name.isidentifier() or not value.isdigit() or not 2 <= int(value) < 2**31:
        raise Failure(USAGE, f"--size expects NAME=N with N of at least 2 (the exporter takes 1 for a fixed size); got '{text}'")
    return name, int(value)


def parse_setting(text):
    """name=value of a configuration: a number, true, false, none, a list of these in brackets, or text."""
    name, equal, value = text.partition("=")
    if not equal or not name.isidentifier():
        raise Failure(USAGE, f"--config expects a file and name=value; got '{text}'")
    return name, parse_value(value.strip())


def parse_value(text):
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    if text.startswith("[") and text.endswith("]"):
        return [parse_value(word.strip()) for word in text[1:-1].split(",") if word.strip()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
