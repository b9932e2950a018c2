"""The tables of dynamic symbols and their versions of an ELF file for x86-64, to read and to edit in place."""
import mmap
import struct

DYNAMIC_SYMBOLS, DEFINED, NEEDED, SYMBOL_VERSIONS = 11, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF  # types of sections
UNVERSIONED = 1  # in the table of versions of symbols


class Elf:
    def __init__(self, path):
        self.file = open(path, "r+b")
        self.data = mmap.mmap(self.file.fileno(), 0)
        start, = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        headers = [struct.unpack_from("<IIQQQQII", self.data, start + i * size) for i in range(count)]
        self.places = {kind: (offset, bytes_, headers[link][4]) for _, kind, _, _, offset, bytes_, link, _ in headers
                       if kind in (DYNAMIC_SYMBOLS, DEFINED, NEEDED, SYMBOL_VERSIONS)}
        self.strings = self.places[DYNAMIC_SYMBOLS][2]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.data.close()
        self.file.close()

    def text(self, strings, offset):
        start = strings + offset
        return self.data[start:self.data.find(b"\0", start)].decode()

    def symbols(self):
        """Yields (place, place of the version, name, index of the version, whether it is defined) of each dynamic symbol."""
        offset, size, strings = self.places[DYNAMIC_SYMBOLS]
        versions = self.places[SYMBOL_VERSIONS][0] if SYMBOL_VERSIONS in self.places else None
        for number in range(size // 24):
            name, _, section = struct.unpack_from("<IHH", self.data, offset + 24 * number)
            place = versions and versions + 2 * number
            index = struct.unpack_from("<H", self.data, place)[0] & 0x7FFF if versions else UNVERSIONED
            yield offset + 24 * number, place, self.text(strings, name), index, section != 0

    def defined_versions(self):
        """Yields (index, name, place) of each version that the file defines."""
        if DEFINED not in self.places:
            return
        at, _, strings = self.places[DEFINED]
        while True:
            _, _, index, _, _, first, following = struct.unpack_from("<HHHHIII", self.data, at)
            yield index & 0x7FFF, self.text(strings, struct.unpack_from("<I", self.data, at + first)[0]), at
            if not following:
                return
            at += following

    def needed_versions(self):
        """Yields (library, index, name, place, place of the library's entry, place of the version before or None) of each needed version."""
        if NEEDED not in self.places:
            return
        at, _, strings = self.places[NEEDED]
        while True:
            _, count, library, first, following = struct.unpack_from("<HHIII", self.data, at)
            place, before = at + first, None
            for _ in range(count):
                _, _, index, name, distance = struct.unpack_from("<IHHII", self.data, place)
                yield self.text(strings, library), index & 0x7FFF, self.text(strings, name), place, at, before
                place, before = place + distance, place
            if not following:
                return
            at += following

    def remove_needed_version(self, name):
        """Takes a version out of the needed ones. Its symbols become unversioned: the first definition of that name is taken. Returns the names of
        these symbols."""
        found = [entry for entry in self.needed_versions() if entry[2] == name]
        indices = {entry[1] for entry in found}
        changed = set()
        for _, place, symbol, index, _ in self.symbols():
            if index in indices:
                struct.pack_into("<H", self.data, place, UNVERSIONED)
                changed.add(symbol)
        for library, _, _, place, entry, before in found:
            distance, = struct.unpack_from("<I", self.data, place + 12)
            count, _, first = struct.unpack_from("<HII", self.data, entry + 2)
            if count == 1:
                raise ValueError(f"{name} is the only version of {library}")
            struct.pack_into("<H", self.data, entry + 2, count - 1)
            if before is None:
                struct.pack_into("<I", self.data, entry + 8, first + distance)
            else:
                struct.pack_into("<I", self.data, before + 12, struct.unpack_from("<I", self.data, before + 12)[0] + distance if distance else 0)
        return changed
