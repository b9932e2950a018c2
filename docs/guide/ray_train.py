"""Trains on nodes of a Ray cluster: python3 ray_train.py NODES RANKS_PER_NODE ./train --data /shared/tokens.bin --out /shared/run1 ..

Each node starts its ranks. The program and its files must be at the same absolute paths on all nodes. Exits with the code of a rank that failed.
"""
import os
import secrets
import socket
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote
class Node:
    def place(self):
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), str(free.getsockname()[1])

    def run(self, command, first, ranks, settings):
        started = [subprocess.Popen(command, env={**os.environ, **settings, "RANK": str(first + i), "LOCAL_RANK": str(i)}) for i in range(ranks)]
        codes = [process.wait() for process in started]
        return next((code for code in codes if code not in (0, 76)), max(codes))  # 76: lost another rank


def main(nodes, ranks, command):
    ray.init()
    group = placement_group([{"CPU": ranks}] * nodes, strategy=os.environ.get("STRATEGY", "STRICT_SPREAD"))
    ray.get(group.ready())
    workers = [Node.options(num_cpus=ranks, scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i)).remote()
               for i in range(nodes)]
    address, port = ray.get(workers[0].place.remote())
    settings = {"WORLD_SIZE": str(nodes * ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": port,
                "SHALE_PORT": port, "SHALE_TOKEN": secrets.token_urlsafe(32)}
    codes = ray.get([worker.run.remote(command, i * ranks, ranks, settings) for i, worker in enumerate(workers)])
    return next((code for code in codes if code not in (0, 76)), max(codes))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
