#!/usr/bin/env python3
"""Lists the longest classes of the compiler, the runtime and the tools, in lines of their bodies and of their methods in all files.

usage: classes.py [LINES]    those with more than LINES lines (default: the bar of check_layout.py)

A method that is defined outside of its class counts for the class of that name: the only one, or the one of the same folder.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LONGEST_CLASS = 400

BODY = re.compile(r"^( *)(?:template <.*> *)?(?:class|struct) (?:\w+\([^)]*\) )?(\w+)[^;(]*\{$")
METHOD = re.compile(r"^(?! )[\w:<>*&\[\], ]*?\b(\w+)::~?(?:\w+|operator\S+)\(")


def end_of(lines, begin, closes):
    """The number of the first line from `begin` on that closes what begins there."""
    return next((i for i in range(begin, len(lines)) if closes(lines[i])), len(lines) - 1)


def parts(path):
    """(name, lines, whether it is a method) of the bodies of classes of a file and of methods outside of them."""
    lines = (ROOT / path).read_text().split("\n")
    at = 0
    while at < len(lines):
        body, method = BODY.match(lines[at]), METHOD.match(lines[at])
        end = at
        if body:
            closing = body[1] + "};"
            end = end_of(lines, at, lambda line: line.startswith(closing))
            yield body[2], end - at + 1, False
        elif method and not lines[at].endswith(";"):
            if not lines[at].endswith("}"):
                end = end_of(lines, at, lambda line: line == "}")
            yield method[1], end - at + 1, True
        at = end + 1


def longer(bar=LONGEST_CLASS):
    """(lines, folder, name) of classes with more lines than the bar, the longest first."""
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    bodies, methods = collections.Counter(), collections.Counter()
    for path in map(pathlib.PurePosixPath, files):
        if path.parts[0] != "test":
            for name, lines, is_method in parts(path):
                (methods if is_method else bodies)[name, str(path.parent)] += lines
    folders = collections.defaultdict(list)
    for name, folder in bodies:
        folders[name].append(folder)
    for (name, folder), lines in methods.items():
        if len(folders[name]) == 1 or folder in folders[name]:
            bodies[name, folder if folder in folders[name] else folders[name][0]] += lines
    return sorted(((lines, folder, name) for (name, folder), lines in bodies.items() if lines > bar), reverse=True)


if __name__ == "__main__":
    for lines, folder, name in longer(int(sys.argv[1]) if len(sys.argv) > 1 else LONGEST_CLASS):
        print(f"{lines:4} {folder}: {name}")
