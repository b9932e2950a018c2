#!/usr/bin/env python3
"""Runs the example in the description of every pass: docs/passes/*.md, generated from passes/*/*Passes.td.

usage: e2e pass_examples --build DIR [--page docs/passes/fusion.md] [--td]

A description holds one or more examples, in one of two forms:

  Before:                                  Refused:
  ```mlir                                  ```mlir
  ...                                      ...
  ```                                      ```
  After:                                   with "a part of the error's text".
  ```mlir
  ...
  ```

`Before (with `option=value other=value`):` sets options of the pass. shale-opt runs the pass on the first block and prints the second
block without the pass. Both outputs must be equal, so names of values do not matter. A line `...` in the second block stands for lines that
are left out; the lines between are then compared as text. A pass must change its example, a verifier must refuse it, and every pass
must have an example. In a build without cuDNN, a pass whose description names such a build must not change its examples.

--td reads the descriptions from the stage's *Passes.td, for use while writing them. --page limits the test to one stage.
"""
import pathlib
import re
import subprocess

from runner import ROOT, Deviates, main

BLOCK = r"```mlir\n(.*?)```\n"
CHANGE = re.compile(r"Before(?: \(with `([^`]*)`\))?:\n+" + BLOCK + r"\s*After:\n+" + BLOCK, re.S)
REFUSAL = re.compile(r"Refused(?: \(with `([^`]*)`\))?:\n+" + BLOCK + r'\s*with "([^"]*)"', re.S)
BEGIN = re.compile(r"^(?:Before|Refused)(?: \(with|:)", re.M)


def sections(page, from_td):
    """(flag, description) of each pass of a stage."""
    if not from_td:
        for part in page.read_text().split("\n### `-")[1:]:
            yield part.split("`", 1)[0], part + "\n"
        return
    text = "".join(path.read_text() for path in sorted((ROOT / "passes" / page.stem).glob("*Passes.td")))
    for flag, body in re.findall(r'def \w+Pass\s*:\s*Pass<"([\w-]+)".*?(?:\{|;)(.*?)(?=\ndef |\Z)', text, re.S):
        found = re.search(r"let description = \[\{\n(.*?)\}\]", body, re.S)
        yield flag, re.sub(r"^    ", "", found[1], flags=re.M) if found else ""


def opt(build, text, *flags):
    done = subprocess.run([f"{build}/bin/shale-opt", "-", *flags], input=text, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def lines(text):
    """The lines of a module, with phases as in the examples: the printer's aliases are replaced."""
    text = re.sub(r"= #(forward|backward|update)\b", r"= #nn.phase<\1>", text)
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def contains(printed, wanted):
    """Whether the parts between lines `...` occur in this order, each as consecutive lines."""
    stretches, at = [[]], 0
    for line in wanted:
        stretches.append([]) if line == "..." else stretches[-1].append(line)
    for stretch in stretches:
        at = next((i + len(stretch) for i in range(at, len(printed) - len(stretch) + 1) if printed[i:i + len(stretch)] == stretch), None)
        if at is None:
            return False
    return True


def check_change(build, flag, options, before, after):
    code, printed, errors = opt(build, before, f"--{flag}={options}" if options else f"--{flag}")
    if code:
        raise Deviates(f"{flag}: shale-opt refuses the example: {errors.strip()[:600]}")
    if printed == opt(build, before)[1]:
        raise Deviates(f"{flag}: changes nothing in its example")
    if "..." in lines(after):
        if not contains(lines(printed), lines(after)):
            raise Deviates(f"{flag}: the lines of 'After' are not those of\n{printed}")
        return
    code, wanted, errors = opt(build, after)
    if code:
        raise Deviates(f"{flag}: shale-opt does not parse 'After': {errors.strip()[:600]}")
    if printed != wanted:
        raise Deviates(f"{flag}: the example becomes\n{printed}\nand not\n{wanted}")


def check_refusal(build, flag, options, text, message):
    code, _, errors = opt(build, text, f"--{flag}={options}" if options else f"--{flag}")
    if code != 1 or "error: " not in errors or message not in " ".join(errors.split()):
        raise Deviates(f"{flag}: shale-opt ends with {code} and says '{errors.strip()[:600]}', not '{message}'")
    if opt(build, text)[0]:
        raise Deviates(f"{flag}: shale-opt refuses the example without the pass, too")


def check_same(build, flag, options, before, after):
    if opt(build, before, f"--{flag}={options}" if options else f"--{flag}")[1] != opt(build, before)[1]:
        raise Deviates(f"{flag}: changes its example without cuDNN")


STATE = "nn.state @w role = param type = tensor<8xf32>\nnn.state @v role = param type = tensor<8xf32>"
FROZEN = STATE.replace("8xf32>", "8xf32> {trained = false}", 1)
WRONG = {  # descriptions that the test must refuse, with a part of its message
    "no example": ("Text.", "has no example"),
    "half an example": (f"Before (with `freeze=w`):\n```mlir\n{STATE}\n```\n", "1 examples begin, 0 are whole"),
    "another result": (f"Before (with `freeze=w`):\n```mlir\n{STATE}\n```\nAfter:\n```mlir\n{STATE}\n```\n", "the example becomes"),
    "lines that are not printed": (f"Before (with `freeze=w`):\n```mlir\n{STATE}\n```\nAfter:\n```mlir\n...\nnn.neg\n...\n```\n", "are not those of"),
    "no change": (f"Before (with `freeze=w`):\n```mlir\n{FROZEN}\n```\nAfter:\n```mlir\n{FROZEN}\n```\n", "changes nothing"),
    "an error": (f"Before (with `freeze=x`):\n```mlir\n{STATE}\n```\nAfter:\n```mlir\n{STATE}\n```\n", "shale-opt refuses the example"),
    "an option of no pass": (f"Before (with `no-such=1`):\n```mlir\n{STATE}\n```\nAfter:\n```mlir\n{STATE}\n```\n", "shale-opt refuses the example"),
    "IR that does not parse": ("Refused (with `freeze=w`):\n```mlir\nnn.nothing\n```\nwith \"nn.nothing\"", "without the pass, too"),
    "another message": (f"Refused (with `freeze=x`):\n```mlir\n{STATE}\n```\nwith \"the moon\"", "not 'the moon'"),
}


def check_section(build, flag, text):
    """Checks the examples of one pass. Returns the errors and the number of examples."""
    wrong, found = [], 0
    idle = "build without the target's attention library" in " ".join(text.split()) and not (pathlib.Path(build) / "stubs" / "libcudnn.so.9").exists()
    for pattern, run in ((CHANGE, check_same if idle else check_change), (REFUSAL, check_refusal)):
        for match in pattern.finditer(text):
            found += 1
            try:
                run(build, flag, *match.groups())
            except Deviates as error:
                wrong.append(str(error))
    if (begun := len(BEGIN.findall(text))) != found:
        wrong.append(f"{flag}: {begun} examples begin, {found} are whole")
    if not begun:
        wrong.append(f"{flag}: has no example")
    return wrong, found


def check(a, work):
    for what, (text, answer) in WRONG.items():
        if answer not in "\n".join(check_section(a.build, "shale-freeze", text)[0]):
            raise Deviates(f"a description with {what} is not refused with '{answer}'")
    pages = [ROOT / a.page] if a.page else sorted((ROOT / "docs" / "passes").glob("*.md"))
    count, wrong = 0, []
    for page in pages:
        for flag, text in sections(page, a.td):
            more, found = check_section(a.build, flag, text)
            wrong += more
            count += found
    if wrong:
        raise Deviates("\n".join(wrong))
    return f"{count} examples of {len(pages)} stages"


if __name__ == "__main__":
    main(check, ("--page", {}), ("--td", {"action": "store_true"}), success="hold:")
