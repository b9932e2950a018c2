"""A program in IR as Python objects, made of the JSON that `shale-run --json` prints (tools/shale-run/JsonPrinter.h). `read_program` of
runner.py makes one.
"""
import pathlib
import re
from collections import ChainMap

ROOT = pathlib.Path(__file__).resolve().parents[3]
KINDS = {int(number): name.lower() for name, number in
         re.findall(r"^SHALE_COLLECTIVE\((\w+), \w+, \S+, (\d+),", (ROOT / "include/shale/Collectives.def").read_text(), re.M)}


class Value:
    """A result of an op, or an argument of a block. A type without a shape or element type has None there."""

    def __init__(self, data, producer):
        self.name, self.type = data["name"], data["type"]
        self.shape, self.element = data.get("shape"), data.get("element")
        self.producer = producer  # the op, None for an argument
        self.users = []  # an op that uses the value twice is there twice


class Block:
    def __init__(self, data, parent, scope, unresolved):
        self.arguments = [Value(argument, None) for argument in data["arguments"]]
        scope.update({argument.name: argument for argument in self.arguments})
        self.ops = [Op(op, parent, scope, unresolved) for op in data["ops"]]


class Op:
    """An op, with the ops in its regions. `parent` is the op around it, `line` its number in the text, from 1, or None."""

    def __init__(self, data, parent, scope, unresolved):
        self.name, self.attributes, self.parent = data["op"], data["attributes"], parent
        self.line = data.get("location", {}).get("line")
        self.results = [Value(result, self) for result in data["results"]]
        scope.update({result.name: result for result in self.results})
        self.operands = []
        unresolved.append((self, data["operands"], scope))
        self.regions = []
        for blocks in data["regions"]:
            inner = scope.new_child()
            self.regions.append([Block(block, self, inner, unresolved) for block in blocks])

    @property
    def body(self):
        """The ops of the only block."""
        [[block]] = self.regions
        return block.ops

    @property
    def arguments(self):
        """The arguments of the only block."""
        [[block]] = self.regions
        return block.arguments

    def walk(self):
        """This op and all ops in it, in the order of the text."""
        yield self
        for region in self.regions:
            for block in region:
                for op in block.ops:
                    yield from op.walk()

    def word(self, attribute):
        """The word of an enum, "arena" of `#rt<space arena>`, or None without the attribute."""
        text = self.attributes.get(attribute)
        return text and re.findall(r"\w+", text)[-1]

    def symbol(self, attribute="sym_name"):
        """The name of the op's symbol, or of the one that an attribute refers to; None without the attribute."""
        text = self.attributes.get(attribute)
        return text and text.removeprefix("@").strip('"')


def collective(op):
    """The kind of a planned collective as IR has it, such as "all_gather", or None for another op."""
    return KINDS[op.attributes["kind"]] if op.name == "rt.collective" else None


class Program:
    """A module. `text` is that of its file, None if it was read from bytecode."""

    def __init__(self, data, text):
        unresolved, self.text, self.lines = [], text, text and text.split("\n")
        self.module = Op(data, None, ChainMap(), unresolved)
        for op, names, scope in unresolved:
            op.operands = [scope[name] for name in names]
            for value in op.operands:
                value.users.append(op)

    def walk(self):
        """All ops, in the order of the text."""
        return self.module.walk()

    def ops(self, name):
        """The ops of a name, in the order of the text."""
        return [op for op in self.walk() if op.name == name]

    def symbols(self, name):
        """{symbol: op} of the ops of a name."""
        return {op.symbol(): op for op in self.ops(name)}

    def values(self):
        """All values of the program."""
        for op in self.walk():
            yield from op.results
            for region in op.regions:
                for block in region:
                    yield from block.arguments

    def line(self, op):
        """The line of the text on which an op begins."""
        return self.lines[op.line - 1]

    def with_lines(self, changes):
        """The text with other lines in place of those of some ops: {op: text}. Each of these ops takes one line; an empty text removes it."""
        lines = list(self.lines)
        for op, text in changes.items():
            lines[op.line - 1] = text
        return "\n".join(lines)
