"""Holds plans to what they say: changes of the verdict are true to the byte when applied, under falling limits each plan fits
and is never faster, and below the smallest limit the exit code is 78.

    check_plans.py MODEL
"""
import re
import subprocess
import sys

FLAGS = [sys.argv[1], "--dim", "batch=4", "--dim", "sequence=64", "--mesh", "fsdp=2", "--shard", "full", "--plan-only"]
VERDICT = re.compile(r"verdict +peak (\d+) bytes.*predicted step ([0-9.e+-]+) ms")
CHANGE = re.compile(r"^  ((?:--[a-z-]+ \S+ ?)+) +device ([+-]\d+) bytes.*?flops ([+-]\d+)", re.M)


def shalec(*flags, code=0):
    run = subprocess.run(["shalec", *FLAGS, *flags], capture_output=True, text=True)
    assert run.returncode == code, (flags, run.returncode, run.stderr)
    return run.stdout + run.stderr


def plan(*flags):
    text = shalec(*flags)
    peak, milliseconds = VERDICT.search(text).groups()
    return int(peak), float(milliseconds), text


def check_changes():
    peak, _, text = plan()
    changes = CHANGE.findall(text)
    assert changes, text
    for flags, device, _ in changes:
        given = [x for x in FLAGS]
        words = flags.split()
        if words[0] in given:  # a typed flag is replaced
            at = given.index(words[0])
            del given[at:at + 2]
        run = subprocess.run(["shalec", *given, *words], capture_output=True, text=True)
        applied = int(VERDICT.search(run.stdout).group(1))
        assert applied - peak == int(device), (flags, applied, peak, device)


def check_limits(steps=6):
    free, fastest, _ = plan("--memory-limit", "1TiB")
    text = shalec("--memory-limit", "1", code=78)
    smallest = int(re.search(r"smallest limit that can be met: --memory-limit (\d+)", text).group(1))
    assert "live at the peak" in text and "what would lower it" in text, text
    assert smallest <= free
    last = 0.0
    for i in range(steps + 1):
        limit = free - (free - smallest) * i // steps
        peak, milliseconds, text = plan("--memory-limit", str(limit))
        assert peak <= limit, (limit, peak)
        assert milliseconds >= last, (limit, milliseconds, last)
        last = milliseconds
    shalec("--memory-limit", str(smallest - 1), code=78)


def check_batch():
    """The batch that is found fits; the next one does not."""
    flags = list(FLAGS)
    at = flags.index("batch=4")
    limit = plan()[0] + (1 << 20)
    flags[at] = "batch=max"
    run = subprocess.run(["shalec", *flags, "--memory-limit", str(limit)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    batch = int(re.search(r"batch = (\d+) is the largest", run.stdout)[1])
    assert batch >= 4 and batch % 2 == 0 and int(VERDICT.search(run.stdout)[1]) <= limit
    flags[at] = f"batch={batch + 2}"
    run = subprocess.run(["shalec", *flags, "--memory-limit", str(limit)], capture_output=True, text=True)
    assert run.returncode == 78, (batch, run.returncode)


check_changes()
check_batch()
check_limits()
