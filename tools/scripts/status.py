#!/usr/bin/env python3
"""Prints docs/status.md: ONNX operators and the nn ops that they become, nn ops, and models that follow PyTorch.

usage: status.py BUILD   (tools/scripts/docs calls it; llvm-tblgen and ctest are on the PATH)

No list is written by hand. The operators are those that lib/Frontend/ONNX/Ops registers. The nn ops of an operator are those that its
handler, and the functions that it calls, create. The properties of an nn op are its interfaces. The models are those of the build's tests.

Fails if an op of a handler has no way to be compiled, if a differentiable op has no gradient check, or if an op has no evaluator or no test.
"""
import ast
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRONTEND = ROOT / "lib" / "Frontend" / "ONNX"
CREATES = re.compile(r"nn::(\w+Op)::create\b|\b(?!isa|cast|dyn_cast|dyn_cast_or_null|getDefiningOp|hasTrait|is)\w+<nn::(\w+Op)\b")


def dialect():
    """By C++ class of each nn op: mnemonic, interfaces, whether it has operands, whether all results are booleans."""
    include = subprocess.run(["llvm-config", "--includedir"], capture_output=True, text=True, check=True).stdout.strip()
    text = subprocess.run(["llvm-tblgen", "-I", str(ROOT), "-I", include, "--dump-json", str(ROOT / "dialects" / "nn" / "NNOps.td")],
                          capture_output=True, text=True, check=True).stdout
    records = json.loads(text)
    sources = [path.read_text() for path in sorted((ROOT / "lib" / "Target" / "CPU" / "Kernels").glob("*.cpp"))]
    kernels = {name for text in sources for name in re.findall(r"(\w+)::attachInterface<", text)}
    # Interfaces with one kernel for all their ops.
    kernel_interfaces = {name for text in sources for name in re.findall(r"hasInterface<(\w+)>\(\)\)\s*name\.attachInterface<", text)}
    emitter = (ROOT / "passes" / "plan" / "EmitProgram.cpp").read_text()
    products = re.findall(r"Emitter::emitProduct\(nn::(\w+) op\)", emitter)
    calls = re.findall(r"\.Case\(\[&\]\(nn::(\w+) \w+\)", emitter)
    ops = {}
    for name in records["!instanceof"]["NN_Op"]:
        record = records[name]

        def interfaces(traits):
            for trait in traits:
                entry = records[trait["def"]]
                yield from interfaces(entry["traits"]) if "TraitList" in entry["!superclasses"] else [entry.get("cppInterfaceName")]

        has = set(interfaces(record["traits"]))
        has |= {word for word, classes in (("product", products), ("library call", calls), ("own kernel", kernels)) if name.removeprefix("NN_") in classes}
        has |= {"own kernel"} if has & kernel_interfaces else set()
        results = [value["def"] for value, _ in record["results"]["args"]]
        ops[name.removeprefix("NN_")] = {
            "name": record["opName"], "has": has,
            "reads": any(records[value["def"]].get("!superclasses", []).count("TypeConstraint") for value, _ in record["arguments"]["args"] if "def" in value),
            "truth": bool(results) and all(result in ("NN_BoolTensor", "NN_BitsTensor") for result in results)}
    if not products or not kernels or not any("DifferentiableOpInterface" in op["has"] for op in ops.values()):
        sys.exit("status.py: found no products, kernels or gradients; if the form of the sources changed, adapt the patterns in dialect()")
    return ops


SIGNATURE = r"[\w:<>,\* ]+?[ \*&](?:(\w+)::)?(\w+)\([^;{]*\) (?:const )?\{"
TOP = re.compile(r"^(?:template[^\n]*\n)?(?:template[^\n]*> )?(?:static )?" + SIGNATURE + r"(?:[^\n]*\}$|\n.*?^\})", re.M | re.S)
METHOD = re.compile(r"^  (?:template <typename OpT> )?(?:static )?" + SIGNATURE + r"(?:[^\n]*\}$|\n.*?^  \})", re.M | re.S)


# Tensor.h has values, which any function may build ops on.
VALUES = ("Node.h", "Tensor.h", "Tensor.cpp")


def functions():
    """Text of functions: ('Node', name) and ('Building', name) of these classes and of values, (file, name) of what a file of handlers has for itself."""
    found = collections.defaultdict(str)
    headers = [FRONTEND / name for name in VALUES if name.endswith(".h")]
    for path in [*sorted((FRONTEND / "Ops").glob("*.cpp")), *sorted(FRONTEND.glob("*.cpp")), *sorted((FRONTEND / "Loss").glob("*.cpp")), *headers]:
        text = path.read_text()
        for match in [*([] if path.suffix == ".h" else TOP.finditer(text)), *METHOD.finditer(text)]:
            place = "Node" if path.name in VALUES else match[1] if match[1] in ("Node", "Building") else path.name
            templated = match[0].lstrip().startswith("template") and (place == "Node" or match[0].startswith("  "))
            found[place, match[2] + ("<>" if templated else "")] += match[0].partition("(")[2]
    return found


# Folds constants, and makes a constant of a number: the ops that they create belong to no operator.
UNLISTED = ("finish", "like")
CALL = re.compile(r"(?<!std::)(?<!llvm::)(?<!\w)(\w+\.|\w+->|(?<=[)\]}])\.)?\b(\w+)(<[^<>;(){}]*>)?\(")


# Functions that the families of handlers share, functions and methods that return a value, and the op of each operator.
SHARED = {name for path in (FRONTEND / "Ops").glob("*.h") for name in re.findall(r"^(?:Tensor |mlir::Value |mlir::Operation \*)(\w+)\(", path.read_text(), re.M)}
MAKERS = {"Tensor"} | set(re.findall(r"\bTensor (?:\w+::)?(\w+)\((?!node\b|value\.)", "".join(path.read_text() for path in FRONTEND.rglob("*.*") if path.suffix in (".h", ".cpp"))))
ON_VALUES = set(re.findall(r"\bTensor (?:Tensor|onnx)::(\w+)\(", (FRONTEND / "Tensor.cpp").read_text())) | {"sum", "equal", "differ"}
OPERATORS = {(sign, two): op for sign, two, op in re.findall(r"onnx::operator(.)\(\w+ \w+(,?).*<nn::(\w+)>", (FRONTEND / "Tensor.cpp").read_text())}
OPERATORS |= {(sign, ","): "CompareOp" for sign in ("<", ">", "<=", ">=")}
NO_VALUE = re.compile(r"\b(?:getShape\(\)|shape\(\)|shape|all)\.slice\(")


def declared(text):
    """Names of the values that a piece of code declares, as arguments or variables."""
    names = set()
    for start in re.finditer(r"\bTensor &?(?=\w)", text):
        at = start.end()
        while name := re.compile(r"(\w+)(?= = |\(|, |[;,)])").match(text, at):
            names.add(name[1])
            at, depth = name.end(), 0
            while at < len(text) and (depth or text[at] not in ",;)"):
                depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text[at], 0)
                at += 1
            at += len(re.compile(r",?\s*").match(text, at)[0])
    return names


def computed(text, values=None):
    """Classes of nn ops of the operators between values."""
    values = declared(text) if values is None else values
    text = re.sub(r"\n\s*", " ", text)

    def left(end):
        """Whether the operand that ends there is a value."""
        if text[end - 1] != ")":
            word = re.search(r"([.\w]*)$", text[:end])[1]
            return word in values
        depth, at = 0, end
        while at and (depth or at == end):
            at -= 1
            depth += {")": 1, "(": -1}.get(text[at], 0)
        name = re.search(r"((?:std::)?\w*)(?:<[\w:]*>)?$", text[:at])[1]
        return name in MAKERS or (not name and bool(computed(text[at + 1:end - 1], values)))

    def right(start):
        word = re.match(r"\(*(?:[\d.]+ [*/] )*((?:node\.)?\w*)(?:<[\w:]*>)?([.(]?)", text[start:])
        return word[1] in values and word[2] != "." or (word[1].removeprefix("node.") in MAKERS and word[2] == "(")

    found = {OPERATORS[sign[1], ","] for sign in re.finditer(r" ([-+*/&|]|[<>]=?) ", text)
             if (sign[1], ",") in OPERATORS and (left(sign.start()) or right(sign.end()))}
    return found | {OPERATORS["-", ""] for sign in re.finditer(r"(?<=[(=,?: ])-(?=[\w(])", text) if right(sign.end())}


def created(place, text, known, ops, seen):
    """Classes of nn ops that a piece of code creates, directly or in functions that it calls."""
    text = NO_VALUE.sub("", re.sub(r"\n\s+\.", ".", text))
    result = ({a or b for a, b in CREATES.findall(text)} | computed(text)) & set(ops)
    if computed(text) or "binary<" in text:
        text += " broadcast("
    if re.search(r"(?<!:)\b(equal|differ)\(", text):
        text += " compare( broadcast("
    for receiver, name, typed in sorted(set(CALL.findall(text))):
        # A receiver must be a node, its building, a value or a class of this file.
        if name in ON_VALUES and receiver not in ("this->",):
            places = ["Node"]
        elif receiver in ("node.", "this->", ".") or (not receiver and (place in ("Node", "Building") or typed)):
            places = ["Node", place]
        elif receiver == "building.":
            places = ["Building"]
        else:
            places = [place] + [other for other, function in known if function == name and name in SHARED]
        key = next((key for where in places for key in ((where, name + "<>"), (where, name)) if key in known and (bool(typed) == key[1].endswith("<>") or where not in ("Node", "Building"))), None)
        if key and key not in seen and name not in UNLISTED:
            seen.add(key)
            result |= created(key[0], known[key], known, ops, seen)
    return result


def operators(ops):
    """(domain, operator, first version, classes of nn ops) of each registered handler."""
    known, rows = functions(), []
    for path in sorted((FRONTEND / "Ops").glob("*.cpp")):
        source = path.read_text()
        for domain, name, since, handler in re.findall(r'\br\.add\("([^"]*)", "(\w+)", (\d+),\s+(.*?)\);(?: \})?$', source, re.M | re.S):
            function = (re.match(r"\w+", handler) or [""])[0]  # "" for a function in place
            local = re.search(r"^  auto %s = (\[[^\n]*\};$|\[.*?^  \};$)" % function, source, re.M | re.S) if function else None
            own = [key for key in ((path.name, function), *((other, function) for other, _ in known if function in SHARED), ("Node", function), ("Node", function + "<>")) if key in known]
            if function and function not in ("unary", "binary", "equal") and not local and not own:
                sys.exit(f"status.py: finds no {function} in {path.name}")
            given = "".join(f" {name}(" for name in re.findall(r"\w+", handler)[1:] if (path.name, name) in known)  # functions as arguments of a template
            given += "".join(re.findall(r"constexpr Reduction (?:%s) = (.*?);$" % "|".join(re.findall(r"\w+", handler)), source, re.M | re.S))
            body = local[1] if local else known[own[0]] if own else ""
            classes = created(path.name, f"{handler} {function}(; {given}", known, ops, set(own[:1])) | created(own[0][0] if own and not local else path.name, body, known, ops, set(own[:1]))
            if missing := [ops[c]["name"] for c in classes if not compiled(ops[c])]:
                sys.exit(f"status.py: {name} becomes {', '.join(missing)}, which nothing compiles")
            rows.append((domain, name, int(since), classes))
    return sorted(rows)


NO_FLOATS = {"ArgMax", "ArgMin", "IsInf", "NonZero"}  # of results that are integers or truth values, computed from floats


def gradient(operator, classes, ops):
    if operator in NO_FLOATS:
        return "-"
    if not classes:
        return "handed on"
    through = [ops[c] for c in classes if ops[c]["reads"] and not ops[c]["truth"]]
    missing = sorted(op["name"] for op in through if "DifferentiableOpInterface" not in op["has"])
    truth = any(ops[c]["truth"] for c in classes)
    if not through or (truth and all("ElementMoveOpInterface" in op["has"] and "ElementwiseOpInterface" not in op["has"] for op in through)):
        return "-"
    return "yes" if not missing else "no" if len(missing) == len(through) else "yes, but for " + ", ".join(f"`{name}`" for name in missing)


def compiled(op):
    has = op["has"]
    words = [word for word, interface in (("library product", "product"), ("own kernel", "own kernel"), ("decomposed", "DecomposableOpInterface"),
                                            ("ops on flat groups", "GroupUpdateOpInterface")) if interface in has]
    if has & {"ElementwiseOpInterface", "IndexedOpInterface"}:
        words.append("generated kernel")
    return words


def bounds():
    low, high = re.search(r"kOldestOpset = (\d+), kNewestOpset = (\d+);", (FRONTEND / "Scope.cpp").read_text()).groups()
    return int(low), int(high)


def print_operators(ops, handlers):
    low, high = bounds()
    print(f"""## ONNX operators

Operator sets {low} to {high} are read. *From* is the operator set from which on a handler takes the operator. *Becomes* are the `nn` ops that it may create, but for
numbers as constants; what depends on shapes and constants alone is computed at import. *Gradient*: `-` where nothing is differentiable (constants,
truth values); *handed on* where a tensor stays what it is. Operators of other names are refused, each with its first node.

| operator | from | becomes | gradient | compiled to |
|---|---|---|---|---|""")
    for domain, name, since, classes in handlers:
        names = ", ".join(f"`{ops[c]['name']}`" for c in sorted(classes, key=lambda c: ops[c]["name"]))
        words = sorted({word for c in classes for word in compiled(ops[c])})
        since = f"{max(since, low)}" if not domain else f"{since}"
        print(f"| {domain + '.' if domain else ''}{name} | {since} | {names or 'nothing'} | {gradient(name, classes, ops)} | {', '.join(words) or '-'} |")


def evaluated():
    """Classes of nn ops with an evaluator in the interpreter."""
    text = "".join(path.read_text() for path in sorted((ROOT / "lib" / "Interpreter" / "NN").glob("*.cpp")))
    return set(re.findall(r"\b(?:add|addLockstep|addUpdate|unary|binary)<nn::(\w+)>", text))


def test_of(op, tests):
    """The file that tests an op: its gradient check, which a differentiable op must have in a file of its name, or one that has the op."""
    uses = {path: text for path, text in tests.items() if re.search(rf"\bnn\.{op['name']}\b", text)}
    checks = [path for path, text in uses.items() if path.stem == op["name"] and re.search(r"^// RUN: .*--check-gradient", text, re.M)]
    if "DifferentiableOpInterface" in op["has"] and not checks:
        sys.exit(f"status.py: nn.{op['name']} is differentiable, but no {op['name']}.mlir under test/dialects/nn checks its gradient "
                 "(shale-run --check-gradient)")
    if not uses:
        sys.exit(f"status.py: no file under test/dialects/nn has nn.{op['name']}")
    return (checks or sorted(uses, key=lambda path: (path.stem != op["name"], path)))[0]


def print_ops(ops, handlers):
    folder = ROOT / "test" / "dialects" / "nn"
    tests = {path: path.read_text() for path in sorted(folder.rglob("*.mlir")) if not path.stem.endswith("-invalid")}
    evaluators = evaluated()
    imported = collections.defaultdict(list)
    for domain, name, _, classes in handlers:
        for each in classes:
            imported[each].append(f"{domain}.{name}" if domain else name)
    print("""
## nn ops

*Imported from*: ONNX operators that may become the op. *Gradient*: the op has one of its own (`DifferentiableOpInterface`). *Sharding*: it has a rule for how
its dimensions may be split. *Compiled to*: a product of the target's library, a kernel of its own, simpler ops, ops on flat groups that `shale-materialize-units`
builds, or part of a generated kernel. *Test*: a file of `test/dialects/nn`; for an op with a gradient, the one that compares it with central differences.
The interpreter has an evaluator for every op.

| op | imported from | gradient | sharding | compiled to | test |
|---|---|---|---|---|---|""")
    for each, op in sorted(ops.items(), key=lambda item: item[1]["name"]):
        if not compiled(op):
            continue
        if each not in evaluators:
            sys.exit(f"status.py: the interpreter has no evaluator for nn.{op['name']}")
        names = sorted(set(imported[each]))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"| `{op['name']}` | {shown or '-'} | {'yes' if 'DifferentiableOpInterface' in op['has'] else '-'} | "
              f"{'yes' if 'ShardingRuleOpInterface' in op['has'] else '-'} | {', '.join(compiled(op))} | `{test_of(op, tests).relative_to(folder)}` |")


def option(command, name, default):
    return command[command.index(name) + 1] if name in command else default


def print_models(build):
    tests = json.loads(subprocess.run(["ctest", "-C", "whole", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)["tests"]
    about = dict(re.findall(r"^\| `([\w-]+)` \| (.*?) \|$", (ROOT / "test" / "models" / "README.md").read_text(), re.M))
    runner = (ROOT / "test" / "e2e" / "runner.py").read_text()
    loss, norm, weight = re.search(r"^LOSS, NORM, WEIGHT = (\S+), (\S+), (\S+)$", runner, re.M).groups()
    runs = collections.defaultdict(lambda: collections.defaultdict(set))
    for test in tests:
        command = test.get("command", [])  # none if another test builds the program
        script = next((pathlib.Path(word).name for word in command if word.endswith(".py")), "")
        case = option(command, "--case", None)
        if script not in ("follow.py", "precision.py") or not case or "--combine" in command:
            continue
        folder, file = pathlib.Path(case), option(command, "--model", "model.onnx")
        trajectory = option(command, "--trajectory", "trajectory.json")
        if not (folder / trajectory).exists() or not (folder / file).exists():
            sys.exit(f"status.py: test {test['name']} has no {folder / trajectory}")
        flags = next((word.removeprefix("--flags=") for word in command if word.startswith("--flags=")), None)
        if script == "precision.py":
            flags = "--param-dtype bf16" if flags is None else flags or "types of the file"
        what = (trajectory.removeprefix("trajectory").removesuffix(".json").strip("-"), flags or "")
        for strategy in option(command, "--shard", "none").split(","):
            for ranks in option(command, "--ranks", "2" if script == "precision.py" else "1").split(","):
                runs[folder.name, file][strategy].add((int(ranks), what))
    print(f"""
## Models that follow PyTorch

Each is trained for as many steps as PyTorch's run was recorded, with each strategy on so many ranks, by the tests of this build. In f32 the loss of each step is
within {loss} of PyTorch's, the gradient norm within {norm} (relative), final weights within {weight}. In 16-bit floats the loss alone is held.

| model | file | strategy: ranks |
|---|---|---|""")
    order = ["none", "optimizer", "grad", "full", "hybrid"]
    said = set()
    for (folder, file), strategies in sorted(runs.items()):
        text = "; ".join(f"{s}: {', '.join(map(str, sorted({ranks for ranks, _ in strategies[s]})))}" for s in order if s in strategies)
        print(f"| {about.get(folder, folder) if folder not in said else 'the same'} | `{folder}/{file}` | {text} |")
        said.add(folder)
    cases = sorted(p.parent.name for p in (ROOT / "test" / "models" / "modules" / "cases").glob("*/model.onnx"))
    if cases:
        print(f"\nBeside them there are {len(cases)} random modules with PyTorch's first steps (`test/models/modules`); "
              "`tools/check --all` draws and runs 300.")


def assignments(path):
    """The values of a script's top-level names, as syntax."""
    return {node.targets[0].id: node.value for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}


def print_exported():
    """The models of test/models/hf, read from the scripts' sources, since running them needs PyTorch."""
    folder = ROOT / "test" / "models" / "hf"
    tables, own = assignments(folder / "models.py"), assignments(folder / "batches.py")["OWN"]
    kinds = [(name.id, tables[name.id], "transformers' ") for name in tables["KINDS"].elts]
    maskable = {name.id for name in tables["MASKABLE"].elts}
    words = ast.literal_eval(tables["ALWAYS"])
    print("""
## Models followed by `tools/check --all`

Small models of these classes are exported with the default settings of `torch.onnx.export`, in f32 and in bf16, and trained for 20 steps beside PyTorch, on one
rank and fully sharded on two (`test/models/hf`; raw: exported with `optimize=False`). Most models of text are exported with and without `attention_mask`; with
it, rows are padded, those of decoders on both sides.

| class | name of the case | attention mask |
|---|---|---|""")
    for kind, table, prefix in [*kinds, ("OWN", own, "")]:
        for key, value in zip(table.keys, table.values):
            called = [node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("hf", "own")]
            mask = {"OWN": "as written", "TYPED": "with"}.get(kind, "with and without" if kind in maskable else "none")
            name = "-".join([key.value, *filter(None, [words.get(key.value)])])
            print(f"| {prefix}`{called[0]}`{' (`own.py`)' if kind == 'OWN' else ''} | `{name}` | {mask} |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ops = dialect()
    print("""# Status

<!-- Written by tools/scripts/status.py; don't edit -->

What Shale reads, differentiates and compiles, and which models it trains as PyTorch does. The page is made from the sources and the tests.
""")
    handlers = operators(ops)
    print_operators(ops, handlers)
    print_ops(ops, handlers)
    print_models(pathlib.Path(sys.argv[1]))
    print_exported()


if __name__ == "__main__":
    main()
