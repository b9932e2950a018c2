"""Compares the states of two imported modules: names, order, types and initial values.

same_parameters.py A.mlir B.mlir; prints the number of equal parameters.
"""
import re
import struct
import sys


def states(path):
    found = []
    for line in open(path):
        m = re.match(r'\s*nn\.state @"?([^" ]+)"? role = (\w+) type = tensor<([^>]+)>(?: \{(.*)\})?', line)
        if not m:
            continue
        name, role, shape, attrs = m.groups()
        dims = [int(d) for d in shape.split("x")[:-1]]
        count = 1
        for d in dims:
            count *= d
        file = re.search(r'#nn\.file<"([^"]+)", offset = (\d+), length = (\d+), transposed = (\w+)>', attrs)
        if file:
            with open(file[1], "rb") as f:
                f.seek(int(file[2]))
                data = f.read(int(file[3]))
            values = struct.unpack(f"<{count}f", data)
            if file[4] == "true":
                rows, columns = dims
                values = tuple(values[c * rows + r] for r in range(rows) for c in range(columns))
        else:
            values = (float(re.search(r"#nn\.fill<([^ :>]+)", attrs)[1]),) * count
        names = re.search(r"names = \[([^\]]*)\]", attrs)
        found.append((name, role, shape, names and names[1], values))
    return found


a, b = states(sys.argv[1]), states(sys.argv[2])
for x, y in zip(a, b):
    if x != y:
        sys.exit(f"{x[:4]} is not {y[:4]}, or begins with other values")
if len(a) != len(b):
    sys.exit(f"{len(a)} and {len(b)} states")
print(f"{len(a)} equal states")
