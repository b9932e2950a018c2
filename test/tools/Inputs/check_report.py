"""Checks the reports of a plan: sums agree, buffers that are live at once do not overlap, the page holds the same JSON, and
collectives start, wait and overlap as in the program.

    check_report.py MEMORY.json MEMORY.html COMM.json PROGRAM.mlir
"""
import json
import re
import sys

memory, page, comm, program = (open(path).read() for path in sys.argv[1:])
report = json.loads(memory)
assert sum(line["bytes"] for line in report["lines"]) == report["peak_bytes"]
assert report["functions"][0]["name"] == "step" and len(report["state"]) > 0
for space, prefix in (("device", ""), ("host", "host_")):
    of_space = [line for line in report["lines"] if line["memory"] == space]
    assert sum(line["bytes"] for line in of_space) == report[space + "_peak_bytes"]
    state = sum((t["bytes"] + 63) // 64 * 64 for t in report["state"] if t["memory"] == space)
    assert state == report[prefix + "state_bytes"], space
    # Contents of state blocks and arenas, and the gaps between them.
    assert sum(line["bytes"] for line in of_space if line["held"]) == state + report[prefix + "arena_bytes"], space
    for function in report["functions"]:
        live = [0] * (len(function["ops"]) + 1)
        for tensor in function["tensors"]:
            if tensor["memory"] != space:
                continue
            assert tensor["offset"] + tensor["bytes"] <= report[prefix + "arena_bytes"]
            for position in range(tensor["begin"], tensor["end"] + 1):
                live[position] += (tensor["bytes"] + 63) // 64 * 64
        assert max(live) == function[prefix + "peak_bytes"] and max(live) in (0, live[function[prefix + "peak"]]), function["name"]
assert [phase["name"] for phase in report["functions"][0]["phases"]] == ["forward", "backward", "update"]
assert any(t["node"].startswith("node_") for t in report["functions"][0]["tensors"])
inside = page[page.index("const R=") + 8:page.index(";\nconst C=")]
assert json.loads(inside) == report
assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page and "src=" not in page
exchanges = json.loads(comm)
assert {e["kind"] for e in exchanges} == {"all-gather", "reduce-scatter", "all-reduce"}
assert all((e["overlapped_longest"] != "") == (e["overlapped_ops"] > 0) and e["phase"] and e["begin_seconds"] >= 0 for e in exchanges)
assert all(e["wait"] > e["start"] and e["axis"] == "fsdp" and e["nodes"] == 1 and e["sent_bytes"] > 0 for e in exchanges)
# One op per line. Views of buffers take no time.
bodies = {name: body.splitlines() for name, body in re.findall(r"^  rt\.func @(\w+) [^\n]*\{\n(.*?)^  \}", program, re.M | re.S)}
for e in exchanges:
    ops = bodies[e["function"]]
    assert f" site = {e['site']} " in ops[e["start"]] and ops[e["wait"]].split() == ["rt.wait", ops[e["start"]].split()[0]], e
    between = sum(bool(re.match(r" +rt\.(launch|gemm|copy|zero) ", op)) for op in ops[e["start"] + 1:e["wait"]])
    assert e["overlapped_ops"] == between and 0 <= e["exposed_seconds"] <= e["seconds"], (e, between)
    assert between > 0 or e["exposed_seconds"] == e["seconds"], e
assert any(e["overlapped_ops"] for e in exchanges)
