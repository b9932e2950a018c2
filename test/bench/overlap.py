#!/usr/bin/env python3
"""How much of a traced run's communication ran beside compute.

usage: overlap.py TRACE.json   (written by ./train --trace steps:A-B TRACE.json)
"""
import json
import sys


def main():
    events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
    print("rank  exchanges  communication ms  beside compute ms      %  compute ms  waiting ms")
    for rank in sorted({e["pid"] for e in events}):
        def spans(test):
            return sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == rank and test(e))
        moved = spans(lambda e: e["cat"] == "communication")
        busy = spans(lambda e: e["cat"] == "compute" and e["args"]["what"] != "wait")
        waits = spans(lambda e: e["args"]["what"] == "wait")
        both, at = 0.0, 0
        for begin, end in moved:
            while at < len(busy) and busy[at][1] <= begin:
                at += 1
            for b, e in busy[at:]:
                if b >= end:
                    break
                both += min(end, e) - max(begin, b)
        total = sum(e - b for b, e in moved)
        print(f"{rank:4} {len(moved):10} {total / 1e3:17.1f} {both / 1e3:18.1f} {100 * both / max(total, 1e-9):6.1f} "
              f"{sum(e - b for b, e in busy) / 1e3:11.1f} {sum(e - b for b, e in waits) / 1e3:11.1f}")


main()
