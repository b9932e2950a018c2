#!/usr/bin/env python3
"""Checks how programs and shared libraries are linked. Prints one line per defect and fails if there is one.

usage: linkage.py [--trusted DIR] FILE|DIR...

Of a folder, all files are checked that are ELF programs or shared libraries, except in folders with the results of tests.
- No part of a run path is empty or relative: the loader would search the working directory. `$ORIGIN` is the file's own folder.
- Programs are position-independent, tables of pointers are read-only before the program starts (full RELRO), and no memory is both writable
  and executable, the stack among it.
- No absolute part of a run path is a folder that others may write to, or may create. Folders inside of --trusted DIR are not checked:
  who can write there can replace the files themselves.
"""
import argparse
import os
import pathlib
import re
import stat
import subprocess
import sys

SKIPPED = {"CMakeFiles", "Output"}  # compiler checks; lit's results
DYNAMIC_TYPES = (2, 3)  # ET_EXEC, ET_DYN


def is_linked(path):
    """Whether a file is a program or a shared library."""
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and len(head) == 18 and int.from_bytes(head[16:18], "little") in DYNAMIC_TYPES


def linked_files(places):
    for place in map(pathlib.Path, places):
        if not place.is_dir():
            yield place
            continue
        for folder, children, names in os.walk(place):
            children[:] = [name for name in children if name not in SKIPPED and not name.endswith(".libs")]
            yield from (path for name in names if is_linked(path := pathlib.Path(folder, name)))


def headers(paths):
    """Yields each path with what readelf prints about it."""
    for path in paths:
        done = subprocess.run(["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", path],
                              capture_output=True, text=True, check=True)
        yield path, done.stdout


def writable_by_others(folder):
    """Returns the folder through which others can change what `folder` holds, or None."""
    folder = pathlib.Path(folder)
    for place in (folder, *folder.parents):
        if place.exists():
            mode = place.stat().st_mode
            # In a sticky folder others cannot replace a folder, but create one.
            if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and place != folder and folder.exists()):
                return place
    return None


def run_path_defects(text, trusted):
    for tag, parts in re.findall(r"\((RPATH|RUNPATH)\) +Library r(?:un)?path: \[(.*)\]", text):
        for part in parts.split(":"):
            if not part:
                yield f"{tag} [{parts}] has an empty part"
            elif not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", part):
                yield f"{tag} [{parts}]: '{part}' is relative"
            elif part.startswith("/") and not (trusted and pathlib.Path(part).is_relative_to(trusted)):
                if place := writable_by_others(part):
                    yield f"{tag} [{parts}]: others may write to {place}"


def hardening_defects(text):
    segments = {line.split()[0]: line for line in text.splitlines() if re.match(r" +[A-Z_]+ +0x", line)}
    flags = [re.search(r"0x[0-9a-f]+ ([R ][W ][E ]) *(0x)?[0-9a-f]+$", line).group(1) for line in text.splitlines() if re.match(r" +(LOAD|GNU_STACK) ", line)]
    if not re.search(r"Type: +DYN ", text):
        yield "is not position-independent"
    if "GNU_RELRO" not in segments or not re.search(r"\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", text):
        yield "is not linked with relro and now"
    if "GNU_STACK" not in segments or any("WE" in flag for flag in flags):
        yield "has memory that is writable and executable"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trusted", metavar="DIR")
    parser.add_argument("places", nargs="+")
    arguments = parser.parse_args()
    checked = defects = 0
    for path, text in headers(linked_files(arguments.places)):
        checked += 1
        for defect in (*run_path_defects(text, arguments.trusted), *hardening_defects(text)):
            defects += 1
            print(f"{path}: {defect}")
    print(f"{checked} files, {defects} defects")
    return 1 if defects or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
