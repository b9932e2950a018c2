#!/usr/bin/env python3
"""Writes docs/architecture.md with the table of op interfaces to standard output.

usage: tools/scripts/interfaces.py

The table lies between `<!-- interfaces -->` and `<!-- end of interfaces -->`. A row has the name of an interface in C++, the first sentence
of its description in TableGen, and the folders of `passes`, `lib` and `tools` whose sources name it.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/architecture.md"


def interfaces(td):
    """(namespace, name, description) of each op interface of a TableGen file."""
    text = (ROOT / td).read_text()
    for name, body in re.findall(r'^def \w+ : OpInterface<"(\w+)"[^{]*\{(.*?)^\}', text, re.M | re.S):
        namespace = re.search(r'cppNamespace = "::shale(?:::)?(\w*)"', body)[1]
        description = re.search(r"description = (?:\[\{(.*?)\}\]|\"(.*?)\");", body, re.S)
        yield namespace, name, " ".join((description[1] or description[2]).split())


def users(namespace, name, sources, twins):
    """The folders of passes, lib and tools that use an interface. One name may be in several namespaces: then a file
    uses that of the namespace that it writes or opens, else that of `shale`."""
    for path, text in sources.items():
        words = re.findall(rf"(?:\b(\w+)::)?\b{name}\b", text)
        if not words:
            continue
        used = {word if word in twins else next((twin for twin in twins if twin and re.search(rf"(namespace (shale::)?{twin}\b|using namespace shale::{twin}\b)", text)), "")
                for word in words}
        if len(twins) == 1 or namespace in used:
            yield "/".join(path.split("/")[:2]).removeprefix("passes/")


def main():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    sources = {path: (ROOT / path).read_text() for path in tracked if re.match(r"(passes|lib|tools)/.*\.(cpp|h)$", path)}
    all_of_them = [row for td in sorted(tracked) if td.endswith(".td") for row in interfaces(td)]
    rows = []
    for namespace, name, description in all_of_them:
        twins = [other for other, twin, _ in all_of_them if twin == name]
        folders = sorted(set(users(namespace, name, sources, twins)))
        first = re.match(r"(.*?)(\.(?= [A-Z`])|\.?$)", description)[1]
        rows.append((f"`{namespace + '::' if namespace else ''}{name}`", first, ", ".join(folders)))
    table = "".join(f"| {' | '.join(row)} |\n" for row in [("interface", "description", "used by"), ("---", "---", "---")] + sorted(rows)).replace("| --- | --- | --- |", "|---|---|---|")
    page = (ROOT / PAGE).read_text()
    new, count = re.subn(r"(<!-- interfaces -->\n).*?(<!-- end of interfaces -->)", lambda m: m[1] + "\n" + table + "\n" + m[2], page, flags=re.S)
    if count != 1:
        sys.exit(f"{PAGE}: has no table between <!-- interfaces --> and <!-- end of interfaces -->")
    sys.stdout.write(new)


if __name__ == "__main__":
    main()
