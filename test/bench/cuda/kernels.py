#!/usr/bin/env python3
"""Runs recorded kernels on a GPU by NVIDIA's driver, and compares the bits with those of the emulator.

usage: kernels.py PREFIX... [--libraries DIR]

A PREFIX names the files that record-kernels (test/unit/codegen) wrote. All bytes of all buffers must be equal after the launch; two NaNs
are equal, whatever their bits. Prints {"kernels": .., "bytes": ..}. Exits with 1 at the first kernel that differs, or after an error,
which it names. --libraries is searched for libcuda.so.1 first.
"""
import argparse
import ctypes
import json
import pathlib
import sys

import numpy as np

# Bits of a float's exponent and of its fraction.
FLOATS = {"f32": (np.uint32, 0x7F800000, 0x007FFFFF), "bf16": (np.uint16, 0x7F80, 0x007F), "f16": (np.uint16, 0x7C00, 0x03FF)}


class Gpu:
    """The first GPU."""

    def __init__(self, libraries):
        path = pathlib.Path(libraries or "/nowhere") / "libcuda.so.1"
        try:
            self.cu = ctypes.CDLL(str(path) if path.exists() else "libcuda.so.1")
        except OSError as error:
            sys.exit(f"no driver: {error}")
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
            sys.exit(f"{function} failed: {(name.value or b'?').decode()} ({result})")

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
            self("cuMemAlloc_v2", ctypes.byref(places[-1]), ctypes.c_size_t(data.size))
            self("cuMemcpyHtoD_v2", places[-1], data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.size))
        arguments = (ctypes.c_void_p * len(kernel["arguments"]))(*(ctypes.addressof(places[i]) for i in kernel["arguments"]))
        self("cuLaunchKernel", function, kernel["blocks"], 1, 1, kernel["threads"], 1, 1, 0, self.stream, arguments, None)
        self("cuStreamSynchronize", self.stream)
        after = [np.empty_like(data) for data in buffers]
        for place, data in zip(places, after):
            self("cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p), place, ctypes.c_size_t(data.size))
            self("cuMemFree_v2", place)
        return after


def first_difference(kind, found, expected):
    """Returns the index of the first element with other bits, or None."""
    if np.array_equal(found, expected):
        return None
    if kind not in FLOATS:
        return int(np.flatnonzero(found != expected)[0])
    integer, exponent, fraction = FLOATS[kind]
    found, expected = found.view(integer), expected.view(integer)

    def is_nan(bits):
        return (bits & exponent == exponent) & (bits & fraction != 0)

    differ = np.flatnonzero((found != expected) & ~(is_nan(found) & is_nan(expected)))
    return int(differ[0]) if differ.size else None


def check(gpu, prefix):
    """Returns the numbers of kernels and of compared bytes."""
    code = pathlib.Path(f"{prefix}.code").read_bytes()
    module, recorded, at, count = gpu.load(code), np.fromfile(f"{prefix}.bytes", np.uint8), 0, 0

    def take(sizes):
        nonlocal at
        parts = []
        for size in sizes:
            parts.append(recorded[at:at + size])
            at += size
        if at > recorded.size:
            sys.exit(f"{prefix}.bytes is too short")
        return parts

    kernels = json.loads(pathlib.Path(f"{prefix}.json").read_text())["kernels"]
    for kernel in kernels:
        sizes = [buffer["bytes"] for buffer in kernel["buffers"]]
        before, expected = take(sizes), take(sizes)
        for i, (buffer, found, wanted) in enumerate(zip(kernel["buffers"], gpu.run(module, kernel, before), expected)):
            if (where := first_difference(buffer["type"], found, wanted)) is not None:
                sys.exit(f"{prefix}: kernel {kernel['name']}: buffer {i} ({buffer['type']}) has other bits from element {where} on")
        count += sum(sizes)
    gpu("cuModuleUnload", module)
    if not kernels or at != recorded.size:
        sys.exit(f"{prefix}.bytes does not match {prefix}.json")
    return len(kernels), count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="+")
    parser.add_argument("--libraries")
    a = parser.parse_args()
    gpu = Gpu(a.libraries)
    found = [check(gpu, prefix) for prefix in a.prefix]
    print(json.dumps({"kernels": sum(kernels for kernels, _ in found), "bytes": sum(size for _, size in found)}))


if __name__ == "__main__":
    main()
