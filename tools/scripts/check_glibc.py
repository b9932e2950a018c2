#!/usr/bin/env python3
"""Checks by symbol versions that the files of folders need no newer glibc than a release supports.

usage: check_glibc.py [--newest 2.34] FOLDER|FILE..

Fails for a file that asks glibc for a newer version, with the symbols that need it, and for a symbol without a version that none of the given files
defines.
exit codes: 0 no file does, 64 bad flags, 66 a path is missing or has no ELF file, 70 a file does
"""
import argparse
import pathlib
import re
import subprocess
import sys

OLDEST = "2.34"  # glibc of RHEL 9 and Amazon Linux 2023


def version_of(text):
    """(2, 34) for 2.34 and for 2.34.1, and None for other text."""
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", text)
    return found and (int(found[1]), int(found[2]))


def symbols_of(path):
    """Yields (name, version, kind) of each dynamic symbol: kind U is needed, w and v are needed if some file has them."""
    text = subprocess.run(["nm", "--dynamic", path], capture_output=True, text=True, errors="replace", check=True).stdout
    for line in text.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        yield name, version.strip("@"), kind


def needed_versions(path):
    text = subprocess.run(["objdump", "--private-headers", path], capture_output=True, text=True, errors="replace", check=True).stdout
    return set(re.findall(r"^ +0x\S+ 0x\S+ \d+ (GLIBC_\S+)$", text.partition("Version References:")[2], re.M))


def is_newer(version, newest):
    number = version_of(version.removeprefix("GLIBC_"))
    return number > newest if number else version != "GLIBC_PRIVATE"


def troubles_of(files, newest):
    """The sentences of what is wrong with files, which load each other."""
    troubles, defined, unversioned = [], set(), {}
    for path in files:
        newer = {version: set() for version in needed_versions(path) if is_newer(version, newest)}
        for name, version, kind in symbols_of(path):
            if kind not in "Uwv":
                defined.add(name)
            elif version in newer:
                newer[version].add(name)
            elif not version and kind == "U":
                unversioned.setdefault(name, path)
        troubles += [f"{path} needs {version} for {', '.join(sorted(names)) or 'no symbol'}" for version, names in sorted(newer.items())]
    missing = sorted(set(unversioned) - defined)
    return troubles + [f"{unversioned[name]} needs {name} without a version, and no file defines it" for name in missing]


def elf_files(paths):
    for path in paths:
        for file in sorted(one for one in path.rglob("*") if not one.is_symlink()) if path.is_dir() else [path]:
            if file.is_file():
                with open(file, "rb") as opened:
                    head = opened.read(18)
                if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # programs and shared libraries
                    yield file


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FOLDER|FILE")
    p.add_argument("--newest", default=OLDEST, metavar="VERSION", help=f"the newest version of glibc that a file may need (default: {OLDEST})")
    p.error = lambda text: p.exit(64, f"check_glibc.py: error: {text}\n")
    a = p.parse_args()
    newest = version_of(a.newest)
    if not newest:
        print(f"check_glibc.py: error: '{a.newest}' is no version of glibc, such as 2.34", file=sys.stderr)
        return 64
    for path in a.paths:
        if not path.exists():
            print(f"check_glibc.py: error: there is no '{path}'", file=sys.stderr)
            return 66
    files = list(elf_files(a.paths))
    if not files:
        print("check_glibc.py: error: there is no program and no shared library to check", file=sys.stderr)
        return 66
    troubles = troubles_of(files, newest)
    for trouble in troubles:
        print(f"check_glibc.py: error: {trouble}", file=sys.stderr)
    if not troubles:
        print(f"{len(files)} files need at most glibc {a.newest}")
    return 70 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
