"""Deletions of single ops, by shale-run --mutate."""
import re

from runner import Deviates, run


def mutate(case, path, *flags):
    """Deletes each in turn and checks that it is found. Returns the numbers of (collectives, copies, waits)."""
    said = run([case.bin / "shale-run", path, "--mutate", *flags], f"shale-run --mutate {path.name}").stdout
    counts = {what: [int(n) for n in re.findall(r"\d+", line)] for line in said.splitlines()
              for what in re.findall(r"^\d+ (collectives|copies|waits) deleted", line)}
    kinds = [counts.get(what, [0] * 5) for what in ("collectives", "copies", "waits")]
    # An error of a verifier would only show that the IR is invalid, so it does not count.
    if kinds[0][0] == 0 or any(deleted != others + refused for deleted, others, refused, *_ in kinds):
        raise Deviates(f"{path.name}: {said.strip()}")
    return [kind[0] for kind in kinds]
