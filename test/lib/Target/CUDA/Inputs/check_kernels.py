#!/usr/bin/env python3
"""Checks the kernels of a report: check_kernels.py REPORT.json ARCHITECTURE...

Every kernel is compiled for each of the architectures, spills no register, uses no stack, and leaves room for two blocks
per multiprocessor. Prints the largest number of registers of each architecture. Exits with 1 at the first violation.
"""
import json
import sys

# Limits of a multiprocessor of all three architectures: 32-bit registers, which are given out to a warp by the 256,
# and bytes of static shared memory per block.
REGISTERS, SHARED = 65536, 49152


def check(report, architectures):
    assert report["kernels"], "no kernel"
    most = dict.fromkeys(architectures, 0)
    for kernel in report["kernels"]:
        name, threads = kernel["name"], kernel["threads"]
        assert list(kernel["usage"]) == sorted(architectures), f"{name}: compiled for {list(kernel['usage'])}"
        assert kernel["blocks"] >= 1 and kernel["launches"] >= 1, f"{name}: {kernel}"
        assert 32 <= threads <= 1024 or kernel["blocks"] == 1, f"{name}: {threads} threads"
        for architecture, usage in kernel["usage"].items():
            where = f"{name} on {architecture}"
            assert usage["spilled"] == 0, f"{where}: {usage['spilled']} bytes spilled"
            assert usage["stack"] == 0, f"{where}: {usage['stack']} bytes of stack"
            assert usage["shared"] <= SHARED, f"{where}: {usage['shared']} bytes of shared memory"
            warps = -(-threads // 32)
            block = warps * -(-usage["registers"] * 32 // 256) * 256
            assert 0 < 2 * block <= REGISTERS, f"{where}: {usage['registers']} registers, {threads} threads"
            most[architecture] = max(most[architecture], usage["registers"])
    return most


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    try:
        most = check(report, sys.argv[2:])
    except AssertionError as error:
        sys.exit(str(error))
    print(f"{len(report['kernels'])} kernels without spills, registers at most", most)


if __name__ == "__main__":
    main()
