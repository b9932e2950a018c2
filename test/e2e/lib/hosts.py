"""Environments, ports and hosts of tests that start ranks one by one."""
import os
import pathlib
import signal
import socket
import subprocess
import sys

from runner import Deviates

HERE = pathlib.Path(__file__).resolve().parent
FOREIGN = ("OMP_", "SHALE_", "SLURM_", "OMPI_", "PMIX_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "GLIBC_TUNABLES")


def bare():
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Hosts:
    """Two network namespaces that are connected with each other. `lossy`: by a link that loses this share of packets, once lose() is
    called (lossy.py)."""

    def __init__(self, lossy=None):
        self.lossy, self.link = lossy, None
        tag = f"shale{os.getpid() % 10000}"
        self.names = [f"{tag}a", f"{tag}b"]

    def __enter__(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        ip = lambda *words: subprocess.run(["ip", *words], check=True, **quiet)
        for name in self.names:
            ip("netns", "add", name)
        if self.lossy:
            self.link = subprocess.Popen([sys.executable, HERE / "lossy.py", *self.names, str(self.lossy)], stdout=subprocess.PIPE, text=True)
            if self.link.stdout.readline() != "ready\n":
                raise Deviates("lossy.py makes no link")
        else:
            ip("link", "add", self.names[0], "netns", self.names[0], "type", "veth", "peer", "name", self.names[1], "netns", self.names[1])
        for n, name in enumerate(self.names):
            for words in (("addr", "add", f"10.77.13.{n + 1}/24", "dev", name), ("link", "set", name, "up"), ("link", "set", "lo", "up")):
                ip("-n", name, *words)
        return self

    def lose(self):
        self.link.send_signal(signal.SIGUSR1)

    def dropped(self):
        """Ends the link. Returns how many packets it lost."""
        self.link.terminate()
        return int(self.link.communicate(timeout=60)[0].split()[-1])

    def __exit__(self, *_):
        if self.link and self.link.poll() is None:
            self.link.kill()
            self.link.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
