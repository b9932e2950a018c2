"""Elements of the units of a fixture, counted from its weights."""
import re
from collections import Counter
from fractions import Fraction

from runner import read_safetensors

TIED = {"transformer.wte.weight"}
INT8, BLOCK = Fraction(260, 256), 256  # bytes per element with the scales of blocks, and elements per block


def units_of(case, shards, gathered, reduced, replicas=1):
    """Elements of each unit by name, with padding: blocks, modules beside them with at least a quarter of a block's elements, and `root` for the
    rest. Parameters are in the model's order, that of the exporter's signature if the file has one: the last of a unit is not padded."""
    weights, units, model = read_safetensors(case.folder / "final.safetensors"), {}, (case.folder / case.model).read_bytes()
    blocks = {name: re.match(r"(?:m\.)?(.*?\.\d+)\.", name) for name in weights}
    sizes = Counter()
    for name, block in blocks.items():
        sizes[block.group(1) if block else name.rpartition(".")[0]] += weights[name].size
    least = max(sizes[block.group(1)] for block in blocks.values() if block) / 4 if any(blocks.values()) else float("inf")
    for name in sorted(weights, key=lambda name: max(model.find(f"target='{name}'".encode()), model.find(name.encode()))):
        module = name.rpartition(".")[0]
        own = module if module and name not in TIED and sizes[module] >= least else "root"
        units.setdefault(blocks[name].group(1) if blocks[name] else own, []).append(weights[name].size)
    quantized = INT8 in (gathered, reduced)  # a block is a multiple of 64 bytes in each type
    start = BLOCK if quantized else 64 // min(gathered, reduced, 4)
    slices = shards * (BLOCK if quantized else 1) * (replicas if reduced == INT8 else 1)
    return {unit: -(-(sum(-(-size // start) * start for size in sizes[:-1]) + sizes[-1]) // slices) * slices for unit, sizes in units.items()}
