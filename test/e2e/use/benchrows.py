#!/usr/bin/env python3
"""test/bench/record.py writes rows into a page: new ones replace those of the same table and date, and an error changes nothing.

usage: e2e benchrows --build DIR
"""
import argparse
import datetime
import re
import sys
import unittest.mock

from runner import MODELS, Deviates, main

BENCH = MODELS.parent / "bench"
sys.path.insert(0, str(BENCH))
import record  # noqa: E402

TODAY = datetime.date.today().isoformat()
PAGE = f"""# Benchmarks

<!-- rows: first -->
| date | machine | command | step | flags |
|---|---|---|---|---|
| 2020-01-01 | m | `c` | 1 | `a\\|b` |
| {TODAY} | m | `c` | 2 | |
| {TODAY} | m | `c` | 3 | |
<!-- end of rows -->

Text between the tables.

<!-- rows: second, latest -->
| date | machine | command | bytes |
|---|---|---|---|
| 2020-01-01 | m | `c` | 4 |
| {TODAY} | m | `c` | 5 |
<!-- end of rows -->

<!-- rows: third, by command -->
| date | machine | command | result |
|---|---|---|---|
| 2020-01-01 | m | `one.py` | 1 |
| {TODAY} | m | `two.py` | 2 |
<!-- end of rows -->

The end.
"""
WRONG = {  # pages that cannot take a row of two cells in the table 'first', with a part of the error
    "no comment": (PAGE.replace("<!-- rows: first -->\n", ""), "has 0 comments"),
    "two comments": (PAGE + "<!-- rows: first -->\n", "has 2 comments"),
    "no end": (PAGE.replace(record.END, "", 1), "has no '<!-- end of rows -->'"),
    "no end at all": (PAGE.replace(record.END, ""), "has no '<!-- end of rows -->'"),
    "no header": (PAGE.replace("|---|---|---|---|---|\n", ""), "has no header"),
    "another number of columns": (PAGE.replace(" step | flags |", " step |").replace("|---|---|---|---|---|", "|---|---|---|---|"), "has 4 columns"),
}


def table(text, name):
    """Rows of a table as lists of cells, without the header."""
    body = re.search(rf"<!-- rows: {name}(?:, latest|, by command)? -->\n(.*?){record.END}", text, re.S)[1]
    return [record.cells(line) for line in body.splitlines()[2:]]


def outside(text):
    return re.sub(rf"(<!-- rows: .*?-->\n).*?({record.END})", r"\1\2", text, flags=re.S)


def expect(got, want, what):
    if got != want:
        raise Deviates(f"{what}: {got}, not {want}")


def check(a, work):
    page = work / "page.md"
    page.write_text(PAGE)
    page.chmod(0o640)
    settings = argparse.Namespace(build="build", record=page, torch_python=None, rounds=3, run=True, steps=None)
    with unittest.mock.patch.object(sys, "argv", ["test/bench/some.py"]):
        record.write(page, "first", settings, [["465.5 ms", "`x|y`"], ("shalec other", ["7 ms", ""])])
        once = page.read_text()
        record.write(page, "first", settings, [["465.5 ms", "`x|y`"], ("shalec other", ["7 ms", ""])])
    rows = table(once, "first")
    expect([row[0] for row in rows], ["2020-01-01", TODAY, TODAY], "dates after a write")
    expect(rows[0], ["2020-01-01", "m", "`c`", "1", "`a\\|b`"], "the row of another date")
    expect(rows[1][2:], ["`some.py --rounds 3 --run`", "465.5 ms", "`x\\|y`"], "a new row")
    expect(rows[2][2:], ["`shalec other`", "7 ms", ""], "a new row with its own command")
    if not re.fullmatch(r"\d+ x .+, \d+ GB, load [\d.]+", rows[1][1]):
        raise Deviates(f"'{rows[1][1]}' does not describe a machine")
    strip = re.compile(r"load [\d.]+")
    expect(strip.sub("", page.read_text()), strip.sub("", once), "a second write of the same rows")
    expect(outside(once), outside(PAGE), "text outside of the tables")
    expect(table(once, "second"), table(PAGE, "second"), "another table")
    expect(page.stat().st_mode & 0o777, 0o640, "mode of the page")
    record.write(page, "second", settings, [["6"]])
    expect([row[3] for row in table(page.read_text(), "second")], ["6"], "a table of the latest rows")
    record.write(page, "third", settings, [("one.py", ["3"])])
    expect([row[2:] for row in table(page.read_text(), "third")], [["`two.py`", "2"], ["`one.py`", "3"]], "a table of one row for each command")

    for what, (text, said) in WRONG.items():
        page.write_text(text)
        try:
            record.write(page, "first", settings, [["1", "2"]])
        except record.PageError as error:
            if said not in str(error) or str(page) not in str(error):
                raise Deviates(f"a page with {what}: '{error}' lacks '{said}' or the page") from None
            expect(page.read_text(), text, f"a page with {what}, after the error")
        else:
            raise Deviates(f"a page with {what} is not refused")
    # A disk that fails at the last moment leaves the old page and no other file.
    page.write_text(PAGE)
    with unittest.mock.patch("os.replace", side_effect=OSError("full")):
        try:
            record.write(page, "first", settings, [["1", "2"]])
        except OSError:
            pass
        else:
            raise Deviates("an error of the disk is not reported")
    expect(page.read_text(), PAGE, "the page after an error of the disk")
    expect([path.name for path in work.iterdir()], ["page.md"], "files after an error of the disk")

    # Every table that a benchmark writes is in a page of docs/measurements, and takes rows.
    scripts = [script.read_text() for script in BENCH.glob("*.py")]
    names = {name for text in scripts for name in re.findall(r'record\.write\((?:a\.record|record\.PAGES), "([\w-]+)"', text)}
    names |= {name for text in scripts for tables in re.findall(r"record\.main\(\{(.*?)\}\)", text) for name in re.findall(r'"([\w-]+)":', tables)}
    pages = [page.read_text() for page in sorted(record.PAGES.glob("*.md"))]
    expect(sorted(re.findall(r"^<!-- rows: ([\w-]+)", "\n".join(pages), re.M)), sorted(names), "tables of docs/measurements")
    for name in names:
        text = record.page_of(record.PAGES, name).read_text()
        header = re.search(rf"^<!-- rows: {name}.*\n(.*)", text, re.M)[1]
        expect(record.cells(header)[:3], ["date", "machine", "command"], f"first columns of '{name}'")
        record.replaced(text, name, [[TODAY] + ["x"] * (len(record.cells(header)) - 1)])
        for row in table(text, name):
            expect(len(row), len(record.cells(header)), f"cells of a row of '{name}'")
    return f"rows of 3 tables replaced, {len(WRONG)} pages refused, {len(names)} tables in {len(pages)} pages"


main(check)
