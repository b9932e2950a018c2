"""Writes small ONNX files for tests, with the messages of lib/Frontend/ONNX/Reader/Model.proto.

Every function returns the bytes of one message. Needs only Python.
"""
import struct

FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """An int as a varint field, bytes or str as a length-delimited one, a float as 4 bytes."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, dims, data_type=FLOAT, raw=None, external=None, extra=b""):
    out = b"".join(field(1, d) for d in dims) + field(2, data_type) + field(8, name)
    if raw is not None:
        out += field(9, raw)
    if external is not None:
        out += b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in external.items()) + field(14, 1)
    return out + extra


def floats(name, dims, values):
    return tensor(name, dims, FLOAT, struct.pack(f"<{len(values)}f", *values))


def ints(name, dims, values):
    return tensor(name, dims, INT64, struct.pack(f"<{len(values)}q", *values))


def value(name, dims, data_type=FLOAT, meta={}):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, data_type) + field(2, shape))) + b"".join(field(4, entry(k, v)) for k, v in meta.items())


class Graph(bytes):
    """An attribute that is a graph: Graph(graph(...)). Other bytes are a tensor."""


def attribute(name, v):
    out = field(1, name)
    if isinstance(v, Graph):
        return out + field(6, bytes(v)) + field(20, 5)
    if isinstance(v, float):
        return out + field(2, v) + field(20, 1)
    if isinstance(v, int):
        return out + field(3, v) + field(20, 2)
    if isinstance(v, str):
        return out + field(4, v) + field(20, 3)
    if isinstance(v, list) and v and isinstance(v[0], str):
        return out + b"".join(field(9, i) for i in v) + field(20, 8)
    if isinstance(v, list):
        return out + b"".join(field(8, i) for i in v) + field(20, 7)
    return out + field(5, v) + field(20, 4)


def entry(key, v):
    return field(1, key) + field(2, v)


def node(op, inputs, outputs, name="", domain="", meta={}, **attributes):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) + field(4, op)
            + b"".join(field(5, attribute(k, v)) for k, v in attributes.items()) + (field(7, domain) if domain else b"")
            + b"".join(field(9, entry(k, v)) for k, v in meta.items()))


def graph(nodes, inputs, outputs, initializers=(), meta={}, values=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "graph") + b"".join(field(5, t) for t in initializers)
            + b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs) + b"".join(field(13, v) for v in values)
            + b"".join(field(16, entry(k, v)) for k, v in meta.items()))


def function(name, inputs, outputs, nodes, domain="local", opset=18):
    return (field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs)
            + b"".join(field(7, n) for n in nodes) + field(9, field(2, opset)) + field(9, field(1, domain) + field(2, 1)) + field(10, domain))


def model(graph_bytes, opsets=(("", 18),), functions=(), ir=8, extra=b""):
    return (field(1, ir) + field(7, graph_bytes) + b"".join(field(8, field(1, d) + field(2, v)) for d, v in opsets)
            + b"".join(field(25, f) for f in functions) + extra)
