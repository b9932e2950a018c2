#!/usr/bin/env python3
"""Strangers connect to the ports of a run while its ranks join and while it trains; the run gives the same bits.

usage: e2e strangers --build DIR [--connections 500] [--ranks 4]

The ranks run as if each were on its own host, so they listen at TCP ports of the loopback interface. Before the last rank starts, strangers
make the given number of connections: held open, closed, garbage, one byte at a time, and with a handshake that was recorded between two
ranks. Others go on until the run ends. Rank 0's memory must not grow by 16 MiB. On one host no rank listens at a port.
"""
import os
import pathlib
import random
import re
import resource
import shutil
import socket
import struct
import subprocess
import threading
import time

from hosts import bare, free_port
from runner import Deviates, main, same_bits

TOKEN = "of the test of strangers"
VOCABULARY = 33
GROWTH = 16 << 20


def prepare(a, work):
    """Returns the command of a program that Shale's tests wrote by hand, and its data."""
    program = work / "bigram"
    shutil.copy(pathlib.Path(a.build) / f"test/unit/runtime/bigram-{a.ranks}-full", program)
    weights = struct.pack(f"<{VOCABULARY ** 2}f", *(0.01 * ((i * 7 + j * 3) % 11 - 5) for j in range(VOCABULARY) for i in range(VOCABULARY)))
    (work / "bigram-weights.bin").write_bytes(b"x" * 64 + weights)
    (work / "data.txt").write_bytes(bytes((i * i // 3 + i % 5) % VOCABULARY for i in range(4000)))
    return [program, "--data", work / "data.txt", "--steps", a.steps, "--lr", 0.05, "--comm-timeout", 120]


class Rank:
    def __init__(self, rank, ranks, port, command, out, local=False):
        self.rank = rank
        self.process = subprocess.Popen([str(word) for word in [*command, "--out", out]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**bare(), "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1",
                                             "LOCAL_WORLD_SIZE": str(ranks if local else 1), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1),
                                             **({} if local else {"SHALE_TOKEN": TOKEN})})

    def finish(self):
        """Returns what it printed and its largest resident memory in bytes."""
        text = self.process.stdout.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise Deviates(f"rank {self.rank} ended with {self.process.returncode}: {text[-600:]}")
        return text, usage.ru_maxrss * 1024

    def ports(self):
        """The TCP ports at which the process listens."""
        try:
            own = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()}
            lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        except OSError:
            return []
        fields = [line.split() for line in lines]
        return [int(field[1].split(":")[1], 16) for field in fields if field[3] == "0A" and f"socket:[{field[9]}]" in own]


def dial(port):
    stranger = socket.socket()
    stranger.settimeout(20)
    stranger.connect(("127.0.0.1", port))
    return stranger


def wait_for_port(rank, deadline=60):
    for _ in range(deadline * 100):
        if ports := rank.ports():
            return ports[0]
        if rank.process.poll() is not None:
            raise Deviates(f"rank {rank.rank} ended: {rank.process.stdout.read()[-600:]}")
        time.sleep(0.01)
    raise Deviates(f"rank {rank.rank} does not listen")


def record(start, port):
    """Starts a rank that reaches rank 0 through this process. Returns the rank and the first bytes that it sent."""
    recorded = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as relay:
        rank = start(relay.getsockname()[1])
        inner = relay.accept()[0]
    outer = dial(port)
    outer.settimeout(None)

    def pump(source, target, keep):
        while data := source.recv(1 << 16):
            if keep and len(recorded) < 4096:
                recorded.extend(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    for words in ((inner, outer, True), (outer, inner, False)):
        threading.Thread(target=lambda *args: ignore(pump, *args), args=words, daemon=True).start()
    while len(recorded) < 200 and rank.process.poll() is None:
        time.sleep(0.01)
    return rank, bytes(recorded)


def ignore(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None


class Strangers:
    """Threads that connect to the ports of ranks."""

    def __init__(self, ranks, recorded):
        self.ranks, self.recorded = ranks, recorded
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.made = self.refused = 0
        self.held = []
        self.ways = [self.hold, self.close, self.garbage, self.slow, self.replay]
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(5)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        order = random.Random(number)
        while not self.over.is_set():
            ports = [port for rank in list(self.ranks) for port in rank.ports()]
            if not ports:
                time.sleep(0.01)
            for port in ports:
                for _ in range(20):
                    try:
                        with_port = dial(port)
                    except OSError:
                        self.refused += 1
                        break
                    with self.lock:
                        self.made += 1
                    ignore(order.choice(self.ways), with_port)

    def hold(self, stranger):
        with self.lock:
            self.held.append(stranger)
            if len(self.held) > 400:
                self.held.pop(0).close()

    def close(self, stranger):
        stranger.close()

    def garbage(self, stranger):
        stranger.sendall(os.urandom(1 << 14))
        stranger.close()

    def slow(self, stranger):
        for byte in self.recorded[:12]:
            stranger.sendall(bytes([byte]))
            time.sleep(0.0005)
        self.hold(stranger)

    def replay(self, stranger):
        """Sends what a rank sent; the acceptor must answer that it is no proof, or close."""
        stranger.sendall(self.recorded)
        answer = b""
        while len(answer) < 44 and (data := stranger.recv(64)):
            answer += data
        if len(answer) >= 44 and answer[40:44] == bytes(4):
            self.accepted = True
        stranger.close()

    accepted = False

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        for stranger in self.held:
            stranger.close()


def trains_alone(a, command, out):
    port = free_port() + 1
    ranks = [Rank(r, a.ranks, port, command, out) for r in range(a.ranks)]
    return max(rank.finish()[1] for rank in ranks)


def trains_among_strangers(a, command, out):
    port = free_port() + 1
    ranks = [Rank(0, a.ranks, port, command, out)]
    if wait_for_port(ranks[0]) != port:
        raise Deviates("rank 0 listens at another port")
    rank, recorded = record(lambda relay: Rank(1, a.ranks, relay, command, out), port)
    ranks.append(rank)
    ranks += [Rank(r, a.ranks, port, command, out) for r in range(2, a.ranks - 1)]
    strangers = Strangers(ranks, recorded)
    try:
        while strangers.made < a.connections:
            time.sleep(0.01)
            for one in ranks:
                if one.process.poll() is not None:
                    raise Deviates(f"rank {one.rank} ended among strangers: {one.process.stdout.read()[-600:]}")
        ranks.append(Rank(a.ranks - 1, a.ranks, port, command, out))
        results = [rank.finish() for rank in ranks]
    finally:
        strangers.end()
    text = results[0][0]
    if not re.search(r"\d+ connections that did not prove the secret of this run were dropped", text):
        raise Deviates(f"rank 0 does not report strangers: {text[:600]}")
    if strangers.accepted:
        raise Deviates("a recorded handshake was accepted")
    return max(memory for _, memory in results), strangers.made


def needs_no_port(a, command, out):
    """On one host no rank listens at a port, from its start to its end."""
    port = free_port()
    ranks = [Rank(r, a.ranks, port, command, out, local=True) for r in range(a.ranks - 1)]
    time.sleep(0.3)
    for rank in ranks:
        if rank.process.poll() is not None:
            raise Deviates(f"rank {rank.rank} did not wait for the others: {rank.process.stdout.read()[-600:]}")
        if ports := rank.ports():
            raise Deviates(f"rank {rank.rank} listens at port {ports[0]} on one host")
    for rank in ranks:
        rank.process.kill()
        rank.process.wait()


def without_a_token(a, command, out):
    environment = {**bare(), "RANK": "0", "WORLD_SIZE": str(a.ranks), "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    result = subprocess.run([str(word) for word in [*command, "--out", out]], env=environment, capture_output=True, text=True, timeout=60)
    if result.returncode != 64 or "export SHALE_TOKEN=" not in result.stderr:
        raise Deviates(f"without a token a rank of several hosts ended with {result.returncode}: {result.stderr[-400:]}")


def check(a, work):
    # Strangers that hold their connections need files of this process.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    command = prepare(a, work)
    without_a_token(a, command, work / "none")
    needs_no_port(a, command, work / "local")
    alone = trains_alone(a, command, work / "alone")
    among, made = trains_among_strangers(a, command, work / "among")
    same_bits(work / "alone", work / "among", "a run alone and one among strangers")
    if among - alone > GROWTH:
        raise Deviates(f"a rank among strangers has {among - alone} bytes more than one alone; at most {GROWTH}")
    return f"{made} connections of strangers, {a.ranks} ranks: the same bits, {(among - alone) / 2 ** 20:+.1f} MiB of memory"


if __name__ == "__main__":
    main(check, ("--connections", {"type": int, "default": 500}), ("--ranks", {"type": int, "default": 4, "choices": (3, 4)}),
         ("--steps", {"type": int, "default": 60}))
