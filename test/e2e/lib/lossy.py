#!/usr/bin/env python3
"""A link between two network namespaces that loses packets, without help of the kernel.

usage: lossy.py NAMESPACE NAMESPACE SHARE    (needs root)

Each namespace gets a TUN device that is called as the namespace is. This process carries packets from one to the other. After SIGUSR1
it drops SHARE of them, at random, and delays the others by 2 ms. Prints "ready" when both devices exist, and at the end, at SIGTERM,
how many packets were carried and dropped.
"""
import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time

CLONE_NEWNET, TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x40000000, 0x400454CA, 1, 0x1000
DELAY = 0.002


def device(namespace):
    """Enters a namespace and makes its TUN device, which goes with the descriptor."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", namespace.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def main():
    first, second, share = sys.argv[1], sys.argv[2], float(sys.argv[3])
    ends = [device(first), device(second)]
    state = {"lossy": False, "ends": False}
    signal.signal(signal.SIGUSR1, lambda *_: state.update(lossy=True))
    signal.signal(signal.SIGTERM, lambda *_: state.update(ends=True))
    print("ready", flush=True)
    chance, waiting, carried, dropped = random.Random(1), collections.deque(), 0, 0
    while not state["ends"]:
        left = max(0, waiting[0][0] - time.monotonic()) if waiting else 0.2
        for end in select.select(ends, [], [], left)[0]:
            try:
                packet = os.read(end, 65536)
            except OSError:
                continue
            if state["lossy"] and chance.random() < share:
                dropped += 1
            else:
                waiting.append((time.monotonic() + (DELAY if state["lossy"] else 0), ends[end == ends[0]], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, packet = waiting.popleft()
            try:
                os.write(to, packet)
                carried += 1
            except OSError:  # the device is down, or its queue is full
                dropped += state["lossy"]
    print(carried, dropped)


if __name__ == "__main__":
    main()
