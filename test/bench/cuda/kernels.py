#!/usr/bin/env python3
"""Runs recorded kernels on a GPU by NVIDIA's driver, and compares the bits with those of the emulator.

usage: kernels.py PREFIX... [--libraries DIR]

A PREFIX names the files that record-kernels (test/unit/codegen) wrote, or shrink() made of them. All bytes of all buffers must be equal
after the launch; two NaNs are equal, whatever their bits. Prints one line:

  {"kernels": .., "bytes": ..,   of the kernels that have the emulator's bits
   "differ": [{"program", "kernel", "buffer", "type", "count", "of", "unit": "elements", "first"}], "error": null}

In a shrunk record results of more than 16 KiB are compared by block of 1024 bytes, which is then the unit. An error of the driver ends
the run and is named. Exits with 1 if a kernel differs, or after an error. --libraries is searched for libcuda.so.1 first.
"""
import argparse
import ctypes
import hashlib
import json
import pathlib
import re
import sys

import numpy as np

# Bits of a float's exponent and of its fraction.
FLOATS = {"f32": (np.uint32, 0x7F800000, 0x007FFFFF), "bf16": (np.uint16, 0x7F80, 0x007F), "f16": (np.uint16, 0x7C00, 0x03FF)}
WHOLE, BLOCK, DIGEST = 16384, 1024, 8  # bytes: results that are kept whole, a block of others, and what is kept of it


class CudaError(Exception):
    pass


class Gpu:
    """The first GPU."""

    def __init__(self, libraries):
        path = pathlib.Path(libraries or "/nowhere") / "libcuda.so.1"
        try:
            self.cu = ctypes.CDLL(str(path) if path.exists() else "libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no driver: {error}") from error
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self.stream = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(self.stream), 0)

    def __call__(self, function, *arguments):
        if result := getattr(self.cu, function)(*arguments):
            name = ctypes.c_char_p()
            self.cu.cuGetErrorName(result, ctypes.byref(name))
            raise CudaError(f"{function} failed: {(name.value or b'?').decode()} ({result})")

    def load(self, code):
        module = ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), code)
        return module

    def run(self, module, kernel, buffers):
        """Returns the buffers after the launch."""
        function, places = ctypes.c_void_p(), []
        self("cuModuleGetFunction", ctypes.byref(function), module, kernel["function"].encode())
        for data in buffers:
            places.append(ctypes.c_uint64())
            self("cuMemAlloc_v2", ctypes.byref(places[-1]), ctypes.c_size_t(max(1, data.size)))
            self("cuMemcpyHtoD_v2", places[-1], data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.size))
        arguments = (ctypes.c_void_p * len(kernel["arguments"]))(*(ctypes.addressof(places[i]) for i in kernel["arguments"]))
        self("cuLaunchKernel", function, kernel["blocks"], 1, 1, kernel["threads"], 1, 1, 0, self.stream, arguments, None)
        self("cuStreamSynchronize", self.stream)
        after = [np.empty_like(data) for data in buffers]
        for place, data in zip(places, after):
            self("cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p), place, ctypes.c_size_t(data.size))
            self("cuMemFree_v2", place)
        return after


def summary(kind, data):
    """What is compared of a buffer of bytes: all of it, with one NaN for all, or a digest of each block."""
    if kind in FLOATS:
        integer, exponent, fraction = FLOATS[kind]
        bits = data.view(integer)
        is_nan = (bits & exponent == exponent) & (bits & fraction != 0)
        data = np.where(is_nan, integer(exponent | fraction), bits).view(np.uint8)
    if data.size <= WHOLE:
        return data
    blocks = (data[at:at + BLOCK] for at in range(0, data.size, BLOCK))
    return np.frombuffer(b"".join(hashlib.blake2b(block, digest_size=DIGEST).digest() for block in blocks), np.uint8)


def summary_size(size):
    return size if size <= WHOLE else -(-size // BLOCK) * DIGEST


def difference(kind, size, found, expected):
    """Compares the summaries of a buffer of `size` bytes. Returns None if they are equal."""
    element = max(1, int(re.sub(r"\D", "", kind) or 8) // 8)
    width = element if size <= WHOLE else DIGEST
    differ = np.flatnonzero((found.reshape(-1, width) != expected.reshape(-1, width)).any(1))
    if not differ.size:
        return None
    unit = "elements" if size <= WHOLE else f"blocks of {BLOCK} bytes"
    return {"type": kind, "count": int(differ.size), "of": found.size // width, "unit": unit, "first": int(differ[0])}


class Record:
    """The files of a prefix."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.described = json.loads(pathlib.Path(f"{prefix}.json").read_text())
        self.shrunk = self.described.get("shrunk", False)
        self.code = pathlib.Path(f"{prefix}.code").read_bytes()
        self.bytes = np.fromfile(f"{prefix}.bytes", np.uint8)

    def take(self, at, sizes):
        """Returns parts of the bytes, from `at` on, and where they end."""
        ends = np.cumsum([at, *sizes])
        if ends[-1] > self.bytes.size:
            raise ValueError(f"{self.prefix}.bytes is too short")
        return [self.bytes[begin:end] for begin, end in zip(ends, ends[1:])], int(ends[-1])

    def kernels(self):
        """Kernels with their buffers before the launch, and the summaries of those after it."""
        at = 0
        for kernel in self.described["kernels"]:
            sizes = [buffer["bytes"] for buffer in kernel["buffers"]]
            before, at = self.take(at, sizes)
            after, at = self.take(at, [summary_size(size) for size in sizes] if self.shrunk else sizes)
            if not self.shrunk:
                after = [summary(buffer["type"], data) for buffer, data in zip(kernel["buffers"], after)]
            yield kernel, before, after
        if at != self.bytes.size or not at:
            raise ValueError(f"{self.prefix}.bytes does not match {self.prefix}.json")


def shrink(prefix):
    """Keeps of the results what is compared. Operands of different kernels begin with the same numbers, so they compress well; results
    would not."""
    record = Record(prefix)
    parts = [data.tobytes() for _, before, after in record.kernels() for data in (*before, *after)]
    pathlib.Path(f"{prefix}.bytes").write_bytes(b"".join(parts))
    pathlib.Path(f"{prefix}.json").write_text(json.dumps({**record.described, "shrunk": True}))


def check(gpu, prefix, result):
    """Adds what is equal and what differs to the result."""
    record = Record(prefix)
    module = gpu.load(record.code)
    for kernel, before, expected in record.kernels():
        try:
            after = gpu.run(module, kernel, before)
        except CudaError as error:
            raise CudaError(f"kernel {kernel['name']}: {error}") from error
        differ = []
        for i, (buffer, found, wanted) in enumerate(zip(kernel["buffers"], after, expected)):
            if found := difference(buffer["type"], buffer["bytes"], summary(buffer["type"], found), wanted):
                differ.append({"program": pathlib.Path(prefix).name, "kernel": kernel["name"], "buffer": i, **found})
        result["differ"] += differ
        if not differ:
            result["kernels"] += 1
            result["bytes"] += sum(buffer["bytes"] for buffer in kernel["buffers"])
    gpu("cuModuleUnload", module)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="+")
    parser.add_argument("--libraries")
    a = parser.parse_args()
    result, prefix = {"kernels": 0, "bytes": 0, "differ": [], "error": None}, ""
    try:
        gpu = Gpu(a.libraries)
        for prefix in a.prefix:
            check(gpu, prefix, result)
    except (CudaError, OSError, ValueError, KeyError) as error:
        result["error"] = f"{pathlib.Path(prefix).name}: {error}" if prefix else str(error)
    print(json.dumps(result))
    sys.exit(1 if result["differ"] or result["error"] else 0)


if __name__ == "__main__":
    main()
