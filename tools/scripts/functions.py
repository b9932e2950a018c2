#!/usr/bin/env python3
"""Lists the longest functions of the compiler, the runtime and the tools, in lines from the first of the declarator to the closing brace.

usage: functions.py [LINES]    those with more than LINES lines (default: the bar of check_layout.py)

A function is a body in braces outside other functions: a free function, a member, a constructor. A lambda counts as part of the
function around it. Comments, strings and preprocessor lines do not count as code, but their lines count.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("dialects", "include", "lib", "passes", "runtime", "tools")
LONGEST_FUNCTION = 80

# What has no braces of code in it: comments, strings, characters, preprocessor lines with their continuations.
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.M | re.S)


def blank(match):
    """Spaces of the same shape, so that offsets stay. A string stays visible as an operand."""
    text = match[0]
    return re.sub(r"[^\n]", "_" if text[0] in "\"'R" else " ", text)


def opens_function(head):
    """Whether the brace after `head`, the code since the last statement of a namespace or class, opens a function's body."""
    head = re.sub(r"\b(?:public|private|protected)\s*:|\btemplate\s*<[^{}]*?>\s*(?=\w)", " ", head).strip()
    if "(" not in head or re.match(r"(namespace|enum|union|using)\b", head):
        return False
    if re.match(r"(struct|class)\b[^()]*$", head):
        return False
    # A variable has a `=` outside parentheses: default arguments are inside.
    head = re.sub(r"\boperator\s*[^\w\s(]+", "operator", head)
    while (inner := re.sub(r"\([^()]*\)", "", head)) != head:
        head = inner
    return "=" not in head


def functions(text):
    """(first line, last line, name) of the functions that a C++ source defines."""
    code = SKIPPED.sub(blank, text)
    stack = []  # What each open brace is: a function's start and name, "scope" or "initializer".
    head = 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        inside = any(isinstance(kind, tuple) for kind in stack)
        if match[0] == "{":
            before = code[head:at]
            if inside:
                stack.append("scope")
            elif before.count("(") > before.count(")"):  # a default argument
                stack.append("initializer")
            elif not opens_function(before):
                stack.append("scope")
            elif re.search(r"[\w>]$", before):  # `: member{1}`; clang-format puts a space before a body.
                stack.append("initializer")
            else:
                start = at - len(before.lstrip())
                name = re.search(r"(\boperator\s*(?:\(\)|\S+?)|[~\w:]+)\s*\(", re.sub(r"\btemplate\s*<[^{}]*?>\s*(?=\w)", "", before))
                stack.append((start, name[1] if name else "?"))
        elif match[0] == "}" and stack:
            kind = stack.pop()
            if isinstance(kind, tuple):
                yield code.count("\n", 0, kind[0]) + 1, code.count("\n", 0, at) + 1, kind[1]
            elif kind == "initializer":
                continue
        if not any(kind != "scope" for kind in stack):
            head = at + 1


def longer(most, files):
    """(lines, path, line, name) of the functions with more than `most` lines, the longest first."""
    found = [(last - first + 1, str(path), first, name)
             for path in files if path.suffix in (".cpp", ".h") and path.parts[0] in FOLDERS
             for first, last, name in functions((ROOT / path).read_text())]
    return sorted((f for f in found if f[0] > most), reverse=True)


def main():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for lines, path, line, name in longer(int(sys.argv[1]) if len(sys.argv) > 1 else LONGEST_FUNCTION, map(pathlib.PurePosixPath, out.splitlines())):
        print(f"{lines:4} {path}:{line} {name}")


if __name__ == "__main__":
    main()
