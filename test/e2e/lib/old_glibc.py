"""A glibc 2.34 made of a newer one: in copies of its libraries, no lookup finds the versions and the symbols that came later."""
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/scripts"))
from elf import Elf  # noqa: E402

NEWEST = (2, 34)


def is_newer(version):
    numbers = version.removeprefix("GLIBC_").split(".")
    return version.startswith("GLIBC_") and all(part.isdigit() for part in numbers) and tuple(map(int, numbers[:2])) > NEWEST


def hash_of(name):
    """The hash of the ELF specification, by which the loader compares versions."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value >> 24) & 0xF0) & 0x0FFFFFFF
    return value


def hide(path):
    """Renames newer versions, and the symbols of them: a lookup with the version or without it then fails. Variables that ld.so and libc exchange
    keep their names. Returns the names of the symbols."""
    hidden = set()
    with Elf(path) as elf:
        own = [entry for entry in elf.defined_versions() if is_newer(entry[1])]
        indices, names = {index for index, _, _ in own}, {name for _, name, _ in own}
        for place, _, name, index, defined in list(elf.symbols()):
            if defined and index in indices and name not in names and not name.startswith("__rseq"):
                start, = struct.unpack_from("<I", elf.data, place)
                struct.pack_into("<I", elf.data, place, start + 1)
                hidden.add(name)
        places = {place + 8: name for _, name, place in own}
        places |= {place: name for _, _, name, place, _, _ in elf.needed_versions() if is_newer(name)}
        for place, name in places.items():
            struct.pack_into("<I", elf.data, place, hash_of(renamed(name)))
        for name in set(places.values()):
            at = elf.data.find(b"\0" + name.encode() + b"\0", elf.strings)
            elf.data[at + 1:at + 1 + len(name)] = renamed(name).encode()
    return hidden


def renamed(version):
    return version.replace("GLIBC_2.", "GLIBC_9.")


def copy(source, target):
    """Copies a library of glibc without what is newer. Returns the names that are hidden in it."""
    shutil.copy(source, target)
    return hide(target)
