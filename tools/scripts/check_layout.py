#!/usr/bin/env python3
"""Checks the layout of the tree against docs/architecture.md. Prints one line for each violation; exits with 1 if there is any.

- The root has no other files and folders than those listed here.
- Each pass has a file, a flag and a test of its name. Each op family has one stem in td, cpp and test.
- Each source file of the compiler is built.
- No source file is longer than LONGEST lines. At most MOST_LONG functions have more than LONGEST_FUNCTION lines (functions.py).
- No class has more than LONGEST_CLASS lines, its methods in all files included (classes.py).
- Includes follow the layers. No folders include each other in a cycle.
- Only lib/Target depends on properties of targets.
- The compiler does not compute with the interpreter, which tests compare it with.
- The description of a dialect names each of its discardable attributes, and C++ takes their names from TableGen.
- No two classes have the same name in the same namespace.
- Each constraint of an op has a negative test.
- Tests are added by shale_test(), which measures them.
- The page that says how to add a target names every virtual function of Target.
- The pages that say how to add an op, an option, a pass or an optimizer list no more files than HOWTOS permits.
- No more files than FACTS permits name one collective, the kinds and roles of axes, an encoding, a flag, or the strategies.
- Each operator that the ONNX importer reads is in a script of test/lib/Frontend/ONNX that imports and runs it, or in a test of
  test/dialects/nn/elementwise, which imports it and runs its op.
"""
import pathlib
import re
import subprocess
import sys

import classes
from functions import LONGEST_FUNCTION, longer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOP = {"CMakeLists.txt", "README.md", "LICENSE", "include", "lib", "dialects", "passes", "runtime", "tools", "test", "docs"}
LONGEST = 600
MOST_LONG = 3
# A layer may include itself and the layers after it.
LAYERS = ["tools", "lib/Planning", "passes", "lib", "dialects/rt", "dialects/mem", "dialects/nn", "dialects/dist", "dialects/interfaces"]
# Headers of include/ whose functions are defined in a layer.
PUBLIC = {"shale/InitAll.h": "passes/", "shale/Plugin.h": "passes/"}

# The file that registers all targets, and so includes their headers.
REGISTRATION = pathlib.PurePosixPath("passes/InitAll.cpp")
# The file that passes plug-ins' evaluators on to the interpreter.
PLUGINS = pathlib.PurePosixPath("passes/Plugins.cpp")
# The most files that a new elementwise op, pass or optimizer may change, tests and generated pages included.
HOWTOS = {"docs/howto/add-an-op.md": 8, "docs/howto/add-an-option.md": 2, "docs/howto/add-a-pass.md": 5, "docs/howto/add-an-optimizer.md": 8,
          "docs/howto/add-a-collective.md": 8, "docs/howto/add-a-strategy.md": 6, "docs/howto/add-an-axis.md": 10, "docs/howto/add-an-encoding.md": 12}
# What names a fact that is decided in one place, and the most files that may do so, and a folder whose files only use it and do not count: those are the
# files that another one of its kind changes. The pages of HOWTOS list the files that were changed when one of each kind was added.
FACTS = {
    "the all-to-all": (r"\bCollectiveKind::AllToAll\b|\bSHALE_ALL_TO_ALL\b|\bALL_TO_ALL\b|\bAllToAllOp\b|\bDist_AllToAllOp\b", 8, "passes"),
    "kinds or roles of axes": (r"\bAxisKind::[A-Z]|\bAxisRole::[A-Z]|\bDist_Axis(Kind|Role)\b", 10),
    "an encoding": (r"\bEncoding::Int8\b|\bSHALE_INT8_BLOCKS\b|\bInt8Blocks\b|\bDist_Encoding :", 12),
    "a flag": (r"\bbufferDtype\b", 2),
    "strategies": (r"\b(Strategy|Sharding)::(Optimizer|Grad|Full|Hybrid)\b|\bDist_Strategy\b|\benum class Sharding\b", 6),
}
NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"]


def tracked():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePosixPath(p) for p in out.splitlines()]


def kebab(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def layer(path):
    text = str(path)
    found = [l for l in LAYERS if text.startswith(l + "/")]
    return LAYERS.index(max(found, key=len)) if found else None


def check(files):
    have = set(map(str, files))
    for top in sorted({p.parts[0] for p in files}):
        if top not in TOP and not top.startswith("."):
            yield f"{top}: not at the top of the tree"
    for td in (p for p in files if p.parts[0] == "passes" and p.name.endswith("Passes.td")):
        stage = td.parent
        for name, flag in re.findall(r'def (\w+)Pass\s*:\s*Pass<"([\w-]+)"', (ROOT / td).read_text()):
            if f"{stage}/{name}.cpp" not in have:
                yield f"{td}: {name}Pass has no {stage}/{name}.cpp"
            if flag != "shale-" + kebab(name):
                yield f"{td}: {name}Pass has the flag {flag}, not shale-{kebab(name)}"
            if f"test/{stage}/{flag}.mlir" not in have:
                yield f"{td}: {name}Pass has no test/{stage}/{flag}.mlir"
    for td in (p for p in files if len(p.parts) == 4 and p.parts[0] == "dialects" and p.parts[2] == "Ops" and p.suffix == ".td"):
        stem = kebab(td.stem)
        if str(td.with_suffix(".cpp")) not in have:
            yield f"{td}: no {td.with_suffix('.cpp')}"
        for test in (f"test/dialects/{td.parts[1]}/{stem}.mlir", f"test/dialects/{td.parts[1]}/{stem}-invalid.mlir"):
            if test not in have and "hasVerifier = 1" in (ROOT / td).read_text():
                yield f"{td}: no {test}"
    for path in files:
        if path.suffix not in (".cpp", ".h", ".td") or path.parts[0] == "test":
            continue
        text = (ROOT / path).read_text()
        lines = text.count("\n")
        if lines > LONGEST:
            yield f"{path}: {lines} lines; split at {LONGEST}"
        own = layer(path)
        for line in re.findall(r'#include "([\w/.-]+)"', text):
            if path.parts[0] == "runtime" and re.match(r"(dialects|passes|lib|mlir|llvm)/", line):
                yield f"{path}: the runtime includes {line}"
            other = layer(PUBLIC.get(line, line))
            if own is not None and other is not None and other < own:
                yield f"{path}: {line} belongs to a higher layer"


def check_built(files):
    """A source of the compiler that no CMakeLists.txt lists is dead; the sanitized build would compile it."""
    lists = {path.parent: (ROOT / path).read_text() for path in files if path.name == "CMakeLists.txt"}
    for path in files:
        if path.suffix != ".cpp" or path.parts[0] not in ("lib", "dialects", "passes"):
            continue
        above = [folder for folder in path.parents if folder in lists]
        if not any(re.search(rf"(?<![\w/]){re.escape(str(path.relative_to(folder)))}\b|\bGLOB\b|\*\.cpp", lists[folder]) for folder in above):
            yield f"{path}: no CMakeLists.txt lists it"


def check_functions(files):
    """At most MOST_LONG functions are longer than the bar."""
    found = longer(LONGEST_FUNCTION, files)
    if len(found) > MOST_LONG:
        yield f"{len(found)} functions have more than {LONGEST_FUNCTION} lines; at most {MOST_LONG} may: split one of these"
        yield from (f"{path}:{line}: {name} has {lines} lines" for lines, path, line, name in found)


def check_classes(files):
    """No class is longer than the bar, its methods in all files included."""
    for lines, folder, name in classes.longer():
        yield f"{folder}: class {name} has {lines} lines with its methods; at most {classes.LONGEST_CLASS}: split it"


def check_attributes(files):
    """The description of a dialect names its discardable attributes. C++ takes their names from the classes that TableGen makes."""
    for td in (p for p in files if p.name.endswith("Dialect.td")):
        text = (ROOT / td).read_text()
        dialect = re.search(r'let name = "(\w+)"', text)[1]
        listed = re.search(r"let discardableAttrs = \(ins(.*?)\);", text, re.S)
        names = re.findall(r'":\$(\w+)', listed[1]) if listed else []
        for name in names:
            if not re.search(rf"`{dialect}\.{name}\b", text):
                yield f"{td}: the description does not name {dialect}.{name}"
        for path in (p for p in files if p.suffix in (".cpp", ".h") and p.parts[0] in ("dialects", "lib", "passes", "tools")):
            for name in re.findall(rf'"{dialect}\.(\w+)"', (ROOT / path).read_text()):
                if name in names:
                    yield f"{path}: has \"{dialect}.{name}\"; take the name from {td}"


def check_targets(files):
    """Only lib/Target may name libraries and instruction sets."""
    for path in files:
        if path.suffix in (".cpp", ".h", ".td") and path.parts[0] in ("dialects", "include", "lib", "passes", "tools") and path.parts[:2] != ("lib", "Target"):
            # Examples in descriptions may name a target.
            text = re.sub(r"^ *Before \(with[^\n]*$|^ *```mlir\n.*?```$", lambda m: "\n" * m[0].count("\n"), (ROOT / path).read_text(), flags=re.M | re.S)
            for number, line in enumerate(text.splitlines(), 1):
                if found := re.search(r"oneDNN|dnnl|gloo|cudnn|cublas|nccl|nvptx|cuda:|sm_\d|avx\d?|x86|lib/Target/\w+/", line, re.I):
                    if path == REGISTRATION and found[0].startswith("lib/Target/"):
                        continue
                    yield f"{path}:{number}: '{found[0]}' belongs to lib/Target"


def check_interpreter(files):
    """An error of the interpreter would hide if the compiler computed with it, since tests take it as the reference."""
    for path in files:
        if path.suffix in (".cpp", ".h", ".td") and path.parts[0] in ("dialects", "lib", "passes", "runtime") and path.parts[:2] != ("lib", "Interpreter") and path != PLUGINS:
            for line in re.findall(r'#include "(lib/Interpreter/[\w/.-]+)"', (ROOT / path).read_text()):
                yield f"{path}: includes {line}; constants are computed by lib/Folding"


def folder(path):
    """The first two levels of a path: dialects/nn for dialects/nn/Ops."""
    return "/".join(pathlib.PurePosixPath(path).parts[:2])


def check_cycles(files):
    """Folders must not include each other in a cycle."""
    arrows = {}
    for path in files:
        if path.suffix in (".cpp", ".h", ".td") and path.parts[0] in ("dialects", "lib", "passes", "tools", "runtime"):
            for line in re.findall(r'#include "((?:dialects|lib|passes|tools|runtime)/[\w/.-]+)"', (ROOT / path).read_text()):
                if folder(line) != folder(path):
                    arrows.setdefault(folder(path), {}).setdefault(folder(line), f"{path} includes {line}")
    done = set()

    def walk(at, way):
        if at in way:
            circle = way[way.index(at):] + [at]
            yield "folders include each other in a cycle: " + "; ".join(arrows[a][b] for a, b in zip(circle, circle[1:]))
        elif at not in done:
            for to in sorted(arrows.get(at, {})):
                yield from walk(to, way + [at])
            done.add(at)

    for start in sorted(arrows):
        yield from walk(start, [])


def definitions(text):
    """(namespace, class) of the classes that a file defines outside anonymous namespaces."""
    namespace = ""
    anonymous = False
    for line in text.splitlines():
        opened = re.match(r"namespace ([\w:]*) ?\{", line)
        if opened:
            anonymous = not opened.group(1)
            namespace = opened.group(1) or namespace
        elif re.match(r"\} // (end )?(anonymous )?namespace$", line):
            anonymous = False
        elif not anonymous:
            found = re.match(r"(?:struct|class) (\w+)[^;]*\{", line)
            if found:
                yield namespace, found.group(1)


def check_twins(files):
    """Two classes must not have the same name in one namespace: the linker would keep one, without an error."""
    seen = {}
    for path in files:
        if path.suffix in (".cpp", ".h") and path.parts[0] in ("dialects", "passes", "lib", "tools"):
            for name in definitions((ROOT / path).read_text()):
                other = seen.setdefault(name, path)
                if other != path:
                    yield f"{path}: defines {name[0]}::{name[1]}, as {other} does"


def check_handlers(files):
    """Each registered operator needs a test that writes a node of it, in a file that names its domain, or by one_node.py."""
    tests = [(ROOT / path).read_text() for path in files if path.parent == pathlib.PurePosixPath("test/lib/Frontend/ONNX") and path.suffix == ".py"]
    ops = "".join((ROOT / path).read_text() for path in files if path.parent == pathlib.PurePosixPath("test/dialects/nn/elementwise"))
    single = {("", name) for name in re.findall(r"one_node\.py (\w+) ", ops)}
    for path in (p for p in files if p.parts[:4] == ("lib", "Frontend", "ONNX", "Ops") and p.suffix == ".cpp"):
        for domain, name in sorted(set(re.findall(r'\br\.add\("([^"]*)", "(\w+)"', (ROOT / path).read_text()))):
            if (domain, name) not in single and not any(f'"{name}"' in text and domain in text for text in tests):
                yield f"{path}: no test of test/lib/Frontend/ONNX or test/dialects/nn/elementwise has a node {domain + '.' if domain else ''}{name}"


def check_constraints(files):
    """Each constraint of an op needs a negative test of its dialect that names it: copy_c2 for (C2) of `copy`. Those of a class, or of a
    trait that an op or its class names, are of each op."""
    texts = {td: (ROOT / td).read_text() for td in files if td.parts[0] == "dialects" and td.suffix == ".td"}
    tests = {path: (ROOT / path).read_text() for path in files if path.parts[:2] == ("test", "dialects") and path.suffix == ".mlir"}
    op_head = re.compile(r'def \w+ : (\w+)<"([a-z]\w*)"')
    records = {td: re.findall(r"^((?:class|def) (\w+)\b.*?)(?=^(?:class|def) |\Z)", text, re.M | re.S) for td, text in texts.items()}
    shared = {name: body for all_of in records.values() for body, name in all_of if not op_head.match(body)}

    def numbers(body, seen):
        """The constraints in a record and in the classes and traits that it names."""
        yield from re.findall(r"^ *- \(C(\d+)\)", body, re.M)
        for name in dict.fromkeys(re.findall(r"\b\w+_\w+\b", body)):
            if name in shared and name not in seen:
                seen.add(name)
                yield from numbers(shared[name], seen)

    for td, all_of in records.items():
        own = "".join(test for path, test in tests.items() if path.parts[2] == td.parts[1])
        for body, op in ((body, op_head.match(body)[2]) for body, _ in all_of if op_head.match(body)):
            for number in numbers(body, set()):
                if not re.search(rf"\b{op}_c{number}(?![0-9a-z])", own):
                    yield f"{td}: no test of test/dialects/{td.parts[1]} cites {op}_c{number}"


def check_tests(files):
    """The time of each test is measured."""
    for path in files:
        if path.parts[0] == "test" and path.name == "CMakeLists.txt" and str(path) != "test/CMakeLists.txt":
            if re.search(r"^ *add_test\(", (ROOT / path).read_text(), re.M):
                yield f"{path}: calls add_test(); shale_test() has the same arguments and measures the test"


def check_trajectories(files):
    """Each recorded run of PyTorch is named by a table or script of the end-to-end tests, or is the default one of its folder."""
    named = "".join((ROOT / p).read_text() for p in files if p.parts[:2] == ("test", "e2e") and p.suffix in (".py", ".txt"))
    for path in files:
        run = path.stem.removeprefix("trajectory-")
        if path.match("test/models/*/trajectory-*.json") and path.name not in named and f"--optimizer {run}" not in named:
            yield f"{path}: no test of test/e2e follows it; add a row to test/e2e/follow.txt"


def check_howtos(files):
    """The first table of a page of HOWTOS lists the files that change: no more than its bar, and as many as the text says."""
    for page, most in HOWTOS.items():
        text = (ROOT / page).read_text()
        table = re.search(r"^\| file \| what \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.M)
        count = sum(len(re.findall(r"`[^`]+`", row.split("|")[1])) for row in table[1].splitlines()) if table else 0
        if not 0 < count <= most:
            yield f"{page}: the table lists {count} files; at most {most} may change"
        elif f"{NUMBERS[count].lower()} files change" not in text.lower():
            yield f"{page}: the table lists {count} files, and the text does not say '{NUMBERS[count]} files change'"


def check_facts(files):
    """No more files than FACTS permits name a fact."""
    for what, (pattern, most, *users) in FACTS.items():
        found = [str(p) for p in files if p.suffix in (".h", ".cpp", ".td", ".def") and p.parts[0] not in ("test", "docs")
                 and p.parts[0] not in users and re.search(pattern, (ROOT / p).read_text())]
        if not 0 < len(found) <= most:
            yield f"{len(found)} files name {what}, at most {most} may: {', '.join(found)}"


def check_target_page():
    """The page about targets names every virtual function of Target."""
    page = (ROOT / "docs/howto/add-a-target.md").read_text()
    for name in re.findall(r"virtual [^;{]*?(\w+)\(", (ROOT / "lib/Target/Target.h").read_text()):
        if name != "Target" and f"`{name}`" not in page:
            yield f"docs/howto/add-a-target.md: does not name {name} of lib/Target/Target.h"


def main():
    files = tracked()
    breaches = [*check(files), *check_built(files), *check_cycles(files), *check_targets(files), *check_interpreter(files), *check_functions(files), *check_classes(files), *check_attributes(files), *check_twins(files), *check_constraints(files), *check_handlers(files), *check_tests(files), *check_trajectories(files), *check_howtos(files), *check_facts(files), *check_target_page()]
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
