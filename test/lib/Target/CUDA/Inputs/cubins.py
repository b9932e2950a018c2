"""Lists the machine code for GPUs in a program.

usage: cubins.py PROGRAM

A fatbin is a header (magic, version, bytes of the header, bytes of what follows) and entries, each with a header: kind (1 PTX, 2 a
cubin), bytes of the header, bytes of what follows, and the architecture. Prints a line for each entry.
"""
import pathlib
import struct
import sys

MAGIC = 0xBA55ED50
KINDS = {1: "PTX", 2: "cubin"}

data = pathlib.Path(sys.argv[1]).read_bytes()
start = data.find(struct.pack("<I", MAGIC))
if start < 0:
    sys.exit(f"{sys.argv[1]} has no fatbin")
_, _, header, size = struct.unpack_from("<IHHQ", data, start)
place, end = start + header, start + header + size
while place < end:
    kind, _, header, size = struct.unpack_from("<HHIQ", data, place)
    architecture, = struct.unpack_from("<I", data, place + 28)
    print(f"{KINDS.get(kind, kind)} for {architecture}, {size} bytes")
    place += header + size
