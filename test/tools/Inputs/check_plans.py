"""Checks that plans are as exact as shalec states.

- The changes that a verdict lists have the stated effect, to the byte.
- Under falling limits each plan fits and is never faster than the one before. Below the smallest limit the exit code is 78.
- The largest batch fits, and one more row per rank does not.
- --recompute auto takes the fastest row of the table that fits.

    check_plans.py MODELS [--count N] [--seed S] [--whole]

--count: number of programs with flags drawn at random. Without --whole, the effects of changes are checked for half of the other programs, and fewer limits.
"""
import argparse
import random
import re
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("models")
parser.add_argument("--count", type=int, default=6)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--whole", action="store_true")
args = parser.parse_args()
MODELS = args.models
VERDICT = re.compile(r"verdict +peak (\d+) bytes \([^)]*\) per rank(?: and (\d+) bytes .* of host memory)?:.*predicted step ([0-9.e+-]+) ms")
CHANGE = re.compile(r"^  (--[a-z-]+) (\S+) +device ([+-]\d+) bytes[^,]*(?:, host ([+-]\d+) bytes)?, flops ([+-]\d+)[^,]*(?:, sent ([+-]\d+) bytes)?"
                    r", predicted step (\S+) -> (\S+) ms", re.M)
SMALLEST = re.compile(r"smallest limit that can be met: --memory-limit (\S+)")
# A search over recomputation and offload only. All other flags are set, so that it is fast.
FEW = ["--bucket-size", "0", "--prefetch", "1", "--max-gathers-in-flight", "2", "--reshard-after-forward", "true", "--order", "overlap"]


def model(name, *flags):
    return [f"{MODELS}/{name}/model.onnx", "--dim", "sequence=64", *flags]


GPT2 = model("gpt2", "--dim", "batch=4", "--mesh", "fsdp=2", "--shard", "full")
PROGRAMS = [
    GPT2,
    model("llama", "--dim", "batch=4", "--mesh", "fsdp=2", "--shard", "grad", "--param-dtype", "bf16", "--recompute", "block"),
    model("gpt2", "--dim", "batch=4", "--offload", "activations:0.5"),
    model("gpt2", "--dim", "batch=4", "--mesh", "fsdp=2", "--shard", "optimizer", "--accumulate", "3"),
]


def drawn(rng):
    """Flags of a random combination of policies."""
    name = rng.choice(["gpt2", "llama", "plain"])
    replicas = "replica=3,fsdp=2" if name == "plain" else "replica=2,fsdp=2"
    return [f"{MODELS}/{name}/model.onnx", "--dim", "batch=12", *(["--loss", "cross-entropy:scores,targets"] if name == "plain" else ["--dim", "sequence=64"]),
            *rng.choice([[], *(["--mesh", "fsdp=2", "--shard", s] for s in ("full", "grad", "optimizer", "none")), ["--mesh", replicas, "--shard", "hybrid"]]),
            *rng.choice([[], *(["--recompute", r] for r in ("block", "selective", "match:mlp"))]),
            *rng.choice([[], *(["--offload", o] for o in ("all", "params:0.5", "optimizer", "activations:0.3", "grads,optimizer:0.4"))]),
            *rng.choice([[], ["--param-dtype", "bf16"], ["--param-dtype", "f16"], ["--param-dtype", "bf16", "--master-dtype", "none", "--optimizer-dtype", "bf16"]]),
            *rng.choice([[], [], ["--accumulate", "2"], ["--accumulate", "3", "--sync-every-microbatch", "false"]]),
            *rng.choice([[], ["--unit", "size:50K"], ["--unit", "match:mlp"], ["--freeze", "norm|ln_1"]])]


def refused(flags):
    """Whether shalec refuses the combination of flags with a usage error."""
    return subprocess.run(["shalec", *flags, "--plan-only"], capture_output=True).returncode == 64


def shalec(flags, *more, code=0):
    run = subprocess.run(["shalec", *flags, *map(str, more), "--plan-only"], capture_output=True, text=True)
    assert run.returncode == code, (flags, more, run.returncode, run.stderr)
    return run.stdout if code == 0 else run.stderr


def plan(flags, *more):
    """Device bytes, host bytes, predicted milliseconds, and the output."""
    text = shalec(flags, *more)
    device, host, milliseconds = VERDICT.search(text).groups()
    return int(device), int(host or 0), float(milliseconds), text


def sent(text):
    return sum(int(n) for n in re.findall(r"^ +\d+ (?:all|reduce)-\S+ over \S+ +(\d+)", text, re.M))


def replaced(flags, flag, value):
    flags = list(flags)
    if flag in flags:
        flags[flags.index(flag) + 1] = value
        return flags
    return [*flags, flag, value]


def check_changes(flags):
    device, host, milliseconds, text = plan(flags)
    changes = CHANGE.findall(text)
    assert len(changes) <= 3 and len({c[0] for c in changes}) == len(changes) and (changes or "no single flag" in text), text
    for flag, value, more_device, more_host, more_flops, more_sent, before, after in changes:
        device2, host2, milliseconds2, text2 = plan(replaced(flags, flag, value))
        promised = [int(more_device), int(more_host or 0), int(more_sent or 0), float(before), float(after)]
        assert value in replaced(flags, flag, value) and promised == [device2 - device, host2 - host, sent(text2) - sent(text), milliseconds, milliseconds2], (flag, value, promised)
        # The table has exact operations.
        rows = table(flags, f"{flag[2:]}={current(flags, flag)}|{value}")
        assert rows[1]["flops"] - rows[0]["flops"] == int(more_flops) and rows[1]["device"] == device2 and rows[1]["host"] == host2, (flag, rows)
    return len(changes)


def current(flags, flag):
    defaults = {"--bucket-size": "0" if "full" in flags or "hybrid" in flags else "25MiB", "--reshard-after-forward": "true", "--prefetch": "1",
                "--max-gathers-in-flight": "2", "--order": "overlap", "--param-dtype": "f32", "--shard": "none"}
    return flags[flags.index(flag) + 1] if flag in flags else defaults.get(flag, "none")


def table(flags, compare):
    rows = []
    for line in shalec(flags, "--compare", compare).splitlines()[2:]:
        device, host, wire, flops, milliseconds, rest = line.split(None, 5)
        rows.append({"device": int(device), "host": int(host), "wire": int(wire), "flops": int(flops), "ms": float(milliseconds), "flags": rest})
    return rows


def check_limits(flags, steps):
    free, _, _, _ = plan(flags, "--memory-limit", "1TiB")
    text = shalec(flags, "--memory-limit", "device=1", code=78)
    smallest = int(SMALLEST.search(text)[1][len("device="):])
    assert "live at the peak" in text and "what would lower it" in text and "node 'node_" in text, text
    assert smallest < free
    last = 0.0
    for i in range(steps + 1):
        limit = free - (free - smallest) * i // steps
        device, _, milliseconds, text = plan(flags, "--memory-limit", f"device={limit}")
        assert device <= limit, (limit, device)
        assert milliseconds >= last, (limit, milliseconds, last)
        last = milliseconds
    assert "--offload" in re.search("that fits, (.*)", text)[1], text
    shalec(flags, "--memory-limit", f"device={smallest - 1}", code=78)


def check_sum(flags, steps):
    """A plain size limits the sum of both memories if they are one RAM, otherwise device memory."""
    device, host, _, _ = plan(flags, "--memory-limit", "1TiB")
    free, last = device + host, 0.0
    text = shalec(flags, "--memory-limit", 1, code=78)
    smallest = int(SMALLEST.search(text)[1])
    assert f"takes {smallest} bytes" in text and "of memory per rank; the limit is 1 bytes" in text and "live at the peak" in text, text
    for i in range(steps + 1):
        limit = free - (free - smallest) * i // steps
        device, host, milliseconds, text = plan(flags, "--memory-limit", limit)
        assert device + host <= limit and milliseconds >= last, (limit, device, host, milliseconds, last)
        last = milliseconds
    shalec(flags, "--memory-limit", smallest - 1, code=78)
    # On a device with its own memory the same limit allows offload.
    device, host, _, _ = plan(flags, "--memory-limit", smallest - 1, "--machine", "h100")
    assert device <= smallest - 1 < device + host, (device, host)


def check_host(flags):
    """With limits for both memories, the message names the one that is too small."""
    text = shalec(flags, "--offload", "all", "--memory-limit", "host=1", code=78)
    assert "of host memory per rank; the limit is 1 bytes" in text and "live at the peak of host memory" in text, text
    smallest = SMALLEST.search(text)[1]
    need = int(smallest[len("host="):])
    assert plan(flags, "--offload", "all", "--memory-limit", smallest)[1] <= need
    shalec(flags, "--offload", "all", "--memory-limit", f"host={need - 1}", code=78)
    # Without host memory nothing is offloaded, and the device needs more.
    text = shalec(flags, "--memory-limit", "device=1,host=0", code=78)
    alone = SMALLEST.search(text)[1]
    assert re.fullmatch(r"device=\d+,host=0", alone) and "offload" not in re.search("smallest limit.*", text)[0], text
    assert plan(flags, "--memory-limit", alone)[1] == 0
    # The verdict does not list a change that lowers the device's peak but exceeds the host's limit.
    assert "--offload" not in text[text.index("what would lower it"):] and "--param-dtype bf16" in text, text
    assert int(SMALLEST.search(shalec(flags, "--memory-limit", "device=1", code=78))[1][7:]) < int(alone[7:-7])


def check_batch(flags, *fixed):
    """The batch that shalec finds fits, and one more row per rank does not."""
    limit = ",".join(f"{space}={n}" for space, n in zip(("device", "host"), plan(flags, *fixed, "--offload", "optimizer")[:2]))
    device, _, _, text = plan(["batch=max" if flag == "batch=4" else flag for flag in flags], *fixed, "--memory-limit", limit)
    batch = int(re.search(r"batch = (\d+) is the largest", text)[1])
    assert batch >= 4 and batch % 2 == 0 and device <= int(limit[7:].split(",")[0]), text
    one_more = [f"batch={batch + 2}" if flag == "batch=4" else flag for flag in flags]
    shalec(one_more, *fixed, "--memory-limit", limit, code=78)


def check_auto(flags):
    """--recompute auto takes the fastest row of the table that fits, without a limit the fastest row."""
    fixed = [*flags, *FEW, "--offload", "none"]
    rows = sorted(table(fixed, "recompute=none|selective|block|block:0.25|block:0.5|block:0.75"), key=lambda row: row["ms"])
    assert plan(fixed, "--recompute", "auto")[:3] == plan(fixed, *rows[0]["flags"].split())[:3]
    for limit in {row["device"] for row in rows}:
        best = next(row for row in rows if row["device"] <= limit)
        device, _, _, text = plan(fixed, "--recompute", "auto", "--memory-limit", f"device={limit}")
        assert device == best["device"] and (best["flags"] in text or "as they are" in text), (limit, best, text)


def check_accumulation(flags):
    """Each function counts as often as one step calls it."""
    times = [plan(flags, "--accumulate", k)[2] for k in (2, 3, 5)]
    assert abs((times[2] - times[1]) - 2 * (times[1] - times[0])) < 1e-3 * times[2] and times[1] > 1.2 * times[0], times


def check_order():
    """With recomputed blocks, the whole gradients of one bucket at a time take less memory than those of two. The bytes sent are the same."""
    overlap, memory = table(model("llama", "--dim", "batch=4", "--mesh", "fsdp=2", "--shard", "full", "--recompute", "block"), "order")
    assert memory["device"] < overlap["device"] and memory["wire"] == overlap["wire"] and memory["flops"] == 0, (overlap, memory)
    # The search tries both values if they differ (except with larger --prefetch or --max-gathers-in-flight), otherwise one.
    for shard, typed, count in (("full", [], 9), ("full", ["--prefetch", "2", "--max-gathers-in-flight", "3"], 2), ("grad", [], 2), ("none", [], 1)):
        flags = [*replaced(GPT2, "--shard", shard), *FEW[:2], *FEW[6:8], *typed, "--recompute", "none", "--offload", "none"]
        text = shalec(flags, "--memory-limit", "1GiB")
        assert f"the fastest of {count} plans" in text, (flags, text)


def check_machine(flags):
    """An update on the host uses the rate of the host's memory."""
    none, optimizer = table([*flags, "--machine", "h100"], "offload=none|optimizer")
    assert optimizer["ms"] - none["ms"] >= 1e3 * optimizer["host"] / 62e9, (none, optimizer)


rng = random.Random(args.seed)
programs = [program for program in (drawn(rng) for _ in range(args.count)) if not refused(program)]
assert 2 * len(programs) >= args.count
programs += PROGRAMS if args.whole else PROGRAMS[1::2]
checked = sum(check_changes(program) for program in programs)
print(checked, "changes of", len(programs), "plans are true")
assert checked >= len(programs)
check_limits(GPT2 + FEW, 6 if args.whole else 3)
check_sum(GPT2 + FEW, 4 if args.whole else 2)
check_host(GPT2 + FEW)
check_batch(GPT2, *FEW)
check_auto(GPT2)
check_accumulation(GPT2)
check_machine(GPT2)
check_order()
