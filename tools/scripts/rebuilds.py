#!/usr/bin/env python3
"""Prints, for each family of nn's ops, how many objects of a finished build a change of its .td file compiles again.

usage: rebuilds.py BUILD [--most N]   (ninja is on the PATH)

Asks ninja's log of the headers that each object read. Exit 0 if no family has more than N objects (59), 1 with the families that
have more, 2 if the build is not finished.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "dialects" / "nn" / "Ops"


def readers():
    """Of each family, the families whose .td files include its own, itself among them."""
    includes = {td.stem: set(re.findall(r'include "dialects/nn/Ops/(\w+)\.td"', td.read_text())) for td in sorted(FAMILIES.glob("*.td"))}

    def reached(family, seen):
        if family not in seen:
            seen.add(family)
            for other in includes[family]:
                reached(other, seen)
        return seen

    reach = {family: reached(family, set()) for family in includes}
    return {family: {other for other in includes if family in reach[other]} for family in includes}


def objects(build):
    """Of each family, the objects of the default build that read its generated header."""

    def ninja(*tool):
        return subprocess.run(["ninja", "-C", str(build), "-t", *tool], capture_output=True, text=True, check=True).stdout

    # The log also has what only some tests build, such as objects with sanitizers.
    default = set(ninja("inputs", "all").splitlines())
    users = {}
    current = None
    for line in ninja("deps").splitlines():
        if found := re.match(r"(\S.*?): #deps \d+, deps mtime \d+ \((\w+)\)", line):
            # A stale entry is of an object that is no longer built, or not yet again.
            current = found[1] if found[2] == "VALID" and found[1] in default else None
        elif current and (found := re.search(r"(?:^|/)dialects/nn/Ops/(\w+)\.h\.inc$", line.strip())):
            users.setdefault(found[1], set()).add(current)
    return users


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=67)
    args = parser.parse_args()
    users = objects(args.build)
    counts = {family: len(set().union(*(users.get(other, set()) for other in others))) for family, others in readers().items()}
    for family, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        print(f"dialects/nn/Ops/{family}.td: {count} objects")
    if missing := [family for family, count in counts.items() if not count]:
        print(f"no object reads the header of {', '.join(missing)}: build everything first", file=sys.stderr)
        return 2
    many = [family for family, count in counts.items() if count > args.most]
    for family in many:
        print(f"dialects/nn/Ops/{family}.td: more than {args.most} objects depend on it. Include dialects/nn/Ops/{family}.h in .cpp files and "
              "not in headers that many include, or move the ops that few files use to a family of their own.", file=sys.stderr)
    return 1 if many else 0


if __name__ == "__main__":
    sys.exit(main())
