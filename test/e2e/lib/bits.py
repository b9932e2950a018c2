"""bf16 by its definition, independent of the compiler's conversion."""
import numpy as np


def bf16(value):
    """Bits of the nearest bf16, ties to even. Truncation gives both neighbours, and f64 arithmetic the nearer one."""
    bits = value.astype(np.float32).view(np.uint32).astype(np.uint64)
    low, high = bits >> 16, (bits >> 16) + 1
    wide = [(half << 16).astype(np.uint32).view(np.float32).astype(np.float64) for half in (low, high)]
    below, above = (np.abs(value.astype(np.float64) - w) for w in wide)
    return np.where((below < above) | ((below == above) & (low % 2 == 0)), low, high).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)
