#!/usr/bin/env python3
"""Runs a complete test matrix and writes its last line, the result, into the table 'matrices' of docs/measurements.

usage: matrix.py PYTHON SCRIPT [ARGUMENT..]

Ends as the script does; writes nothing unless it passes. The row has the commit of the checkout, with + if files were changed.
"""
import pathlib
import shlex
import subprocess
import sys

import record

ROOT = record.PAGES.parents[1]
PLACES = ("--build", "--python", "--jobs", "--cases")


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return git("rev-parse", "--short=8", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def shown(words):
    """The command without the interpreter and the places of files."""
    kept, skip = [pathlib.Path(words[1]).name], False
    for word in words[2:]:
        if not skip and word not in PLACES:
            kept.append(word)
        skip = word in PLACES
    return shlex.join(kept)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    if process.wait():
        sys.exit(process.returncode)
    record.write(record.PAGES, "matrices", None, [(shown(sys.argv[1:]), [commit(), last])])


if __name__ == "__main__":
    main()
