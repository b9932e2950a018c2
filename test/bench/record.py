"""What the benchmarks of this folder share. Writes rows of measurements into a page of docs/measurements when they get --record.

A table that a benchmark writes stands between two comments. Its first columns are date, machine and command:

    <!-- rows: gpt2 -->
    | date | machine | command | step |
    |---|---|---|---|
    | 2026-11-20 | 2 x AMD EPYC 9B14, 24 GB, load 0.3 | `gpt2.py --rounds 3` | 465.5 ms |
    <!-- end of rows -->

`write` replaces the rows that have the date of the new ones and keeps the others. In a table that is marked
`<!-- rows: limits, latest -->` the new rows replace all others, and with `by command` those of the same command. The page changes as a whole or not at all.
"""
import argparse
import datetime
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "measurements"
END = "<!-- end of rows -->"
# Arguments that name files and folders of one machine. They do not change what is measured.
PLACES = {"build", "record", "torch_python", "trace"}


class PageError(Exception):
    """The page cannot take the rows. It was not changed."""


def add_flag(parser):
    parser.add_argument("--record", nargs="?", const=PAGES, type=pathlib.Path, metavar="PAGE",
                        help="write the result into PAGE (default: the page of docs/measurements that has the table)")


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def timed(words):
    """Runs a command. Returns its output, seconds, seconds of CPU and peak resident bytes."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        fail(f"{shlex.join(map(str, words))} ended with {process.returncode}:\n{output[-2000:]}")
    return output, time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main(tables):
    """Runs a benchmark with the flags --build and --record. `tables` maps each table to a function of arguments and a folder, which yields
    (command, cells) for each row."""
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    add_flag(p)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = {table: list(measure(a, pathlib.Path(folder))) for table, measure in tables.items()}
    if a.record:
        for table, found in rows.items():
            write(a.record, table, a, found)


def command(arguments):
    """The command of this run with every setting, defaults included, and without places."""
    words = [os.path.basename(sys.argv[0])]
    for name, value in vars(arguments).items():
        if name not in PLACES and value not in (None, False) and not str(value).endswith(".onnx"):
            words += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    return shlex.join(words)


def machine():
    """Cores, processor, memory and the load of the last minute, which includes that of the benchmark."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)", text, re.M)
    total = int(re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1])
    return f"{os.cpu_count()} x {name[1] if name else os.uname().machine}, {total * 1024 / 1e9:.0f} GB, load {os.getloadavg()[0]:.1f}"


def cells(line):
    """The cells of a table's row; a `\\|` does not end a cell."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def replaced(text, table, rows):
    """`text` with `rows`, lists of cells that begin with the date, in the table. Raises PageError."""
    starts = [m for m in re.finditer(r"^<!-- rows: ([\w-]+)(, latest|, by command)? -->\n", text, re.M) if m[1] == table]
    if len(starts) != 1:
        raise PageError(f"has {len(starts)} comments '<!-- rows: {table} -->'; it needs one")
    start = starts[0]
    end = text.find(END, start.end())
    if end < 0 or "<!-- rows: " in text[start.end():end]:
        raise PageError(f"has no '{END}' after the rows of '{table}'")
    lines = text[start.end():end].splitlines()
    if len(lines) < 2 or not re.fullmatch(r"\|(-+\|)+", lines[1]):
        raise PageError(f"has no header after '<!-- rows: {table} -->'")
    width = len(cells(lines[0]))
    for row in rows:
        if len(row) != width or any("\n" in str(cell) for cell in row):
            raise PageError(f"has {width} columns in the table '{table}', and a row has {len(row)}: {row}")
    key = 2 if start[2] == ", by command" else 0
    new = {str(row[key]) for row in rows}
    old = [] if start[2] == ", latest" else [line for line in lines[2:] if cells(line)[key] not in new]
    new = ["| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in row) + " |" for row in rows]
    return text[:start.end()] + "\n".join(lines[:2] + old + new) + "\n" + text[end:]


def page_of(page, table):
    """The page itself, or the one of a folder that has the table."""
    if not page.is_dir():
        return page
    found = [one for one in sorted(page.glob("*.md")) if re.search(rf"^<!-- rows: {table}[ ,]", one.read_text(), re.M)]
    if len(found) != 1:
        raise PageError(f"{page}: {len(found)} pages have the table '{table}'; one has to")
    return found[0]


def write(page, table, arguments, rows):
    """Puts `rows` into the table, each a list of cells that follow date, machine and command. A row may be a pair (command, cells)."""
    page = page_of(pathlib.Path(page), table)
    first = [datetime.date.today().isoformat(), machine()]
    full = [first + ([f"`{row[0]}`", *row[1]] if isinstance(row, tuple) else [f"`{command(arguments)}`", *row]) for row in rows]
    try:
        text = replaced(page.read_text(), table, full)
    except PageError as error:
        raise PageError(f"{page}: the page {error}") from None
    # A file beside the page, renamed when it is whole: a run that is stopped here leaves the old page.
    handle, name = tempfile.mkstemp(dir=page.parent, prefix=page.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, page.stat().st_mode)
        os.replace(name, page)
    except BaseException:
        os.unlink(name)
        raise
    print(f"{page}: wrote {len(rows)} row{'s' * (len(rows) != 1)} of the table '{table}'")
