#!/usr/bin/env python3
"""Writes docs/guide/from-fsdp.md with the tables of runtime/program/flags/ForeignWords.def and ForeignAreas.def to standard output.

usage: tools/scripts/words.py

A table of the page is what lies between `<!-- words: FRAMEWORK -->` and `<!-- end of words -->`. Fails if a name has two rows, if a flag
of Shale has one, or if a framework has no table.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES, PAGE = [ROOT / f"runtime/program/flags/Foreign{name}.def" for name in ("Words", "Areas")], ROOT / "docs/guide/from-fsdp.md"
# A flag with its value: what has a capital letter or a sign, or is one of Shale's words.
FLAG = re.compile(r"--[a-z0-9-]+(?:=[^\s;]*[^\s,;:]| (?:\S*[A-Z|:=,]\S*[^\s,;:]|[A-Z]|\d+(?:\.\d+)?(?:e-?\d+)?|hybrid|none|optimizer|overlap|grads?|full|sgd|muon|momentum|adamw8bit|wsd|bf16|f16|f32|fp8|params|activations|auto|never|must|block)(?: FILE)?(?![\w.]))?")


def rows():
    """(kind, arguments) of each row of the table, in order."""
    text = re.sub(r"^(//|#include).*\n", "", "".join(table.read_text() for table in TABLES), flags=re.M)
    for kind, inside in re.findall(r'^(\w+)\(((?:"[^"\n]*"[\s,]*)+)\)$', text, re.M):
        yield kind, [re.sub(r'"\s*"', "", arg) for arg in re.split(r'",\s*"', inside.strip()[1:-1])]


def row_of(*cells):
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def shale(kind, args, train_flags):
    """The cell that says what Shale has."""
    if kind == "UNNEEDED":
        return "not needed: " + FLAG.sub(r"`\g<0>`", args[0])
    if kind in ("MISSING", "NOVALUE"):
        return "not there: " + FLAG.sub(r"`\g<0>`", args[-1])
    if kind == "VALUE":
        value, comma, rest = args[1].partition(", ")
        program = "./train " if args[0] in train_flags else ""
        return f"`{program}--{args[0].split(',')[0]} {value}`{comma}" + FLAG.sub(r"`\g<0>`", rest)
    shalec, train = args
    train = re.sub("^`--", "`./train --", FLAG.sub(r"`\g<0>`", train))
    return "; ".join(filter(None, (FLAG.sub(r"`\g<0>`", shalec), train)))


def tables():
    """The table of each framework."""
    text, seen, own, train, at = {}, set(), set(), set(), None
    for kind, args in rows():
        if kind.endswith("_FLAGS"):
            train = set(args[0].split(","))  # the row of the program is the last of the two
            own |= train
            continue
        if kind == "FRAMEWORK":
            at = args[0]
            text[at] = row_of(at, "Shale") + "|---|---|\n"
            continue
        listed = args[1] if kind.endswith("VALUE") else args[0]
        shown = [name for name in listed.split("|")[0].split(",") if name and not name.endswith("*")]
        for name in filter(None, re.split("[,|]", listed)):
            plain = name.lower().replace("_", "-")
            for key in [f"--{flag} {plain}" for flag in args[0].split(",")] if kind.endswith("VALUE") else [plain]:
                if key in seen or key in own:
                    sys.exit(f"{TABLES[0].parent.name}/Foreign*.def: '{name}' is {'a flag of Shale' if key in own else 'in two rows'}")
                seen.add(key)
        if shown:
            text[at] += row_of(", ".join(f"`{name}`" for name in shown), shale(kind, [args[0], args[2]] if kind.endswith("VALUE") else args[1:], train))
    return text


if __name__ == "__main__":
    page = PAGE.read_text()
    for name, table in tables().items():
        marks = re.compile(rf"(<!-- words: {re.escape(name)} -->\n).*?(?=<!-- end of words -->)", re.S)
        if not marks.search(page):
            sys.exit(f"{PAGE.name}: no table of {name}")
        page = marks.sub(lambda found: found[1] + table, page)
    print(page, end="")
