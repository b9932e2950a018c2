#!/usr/bin/env python3
"""Prints docs/status.md: ONNX operators, nn ops, and models that follow PyTorch.

usage: status.py BUILD   (tools/scripts/docs calls it; llvm-tblgen and ctest are on the PATH)

No list is written by hand. The operators are those that lib/Frontend/ONNX/Ops registers. The properties of an nn op are its interfaces. The
models are those of the build's tests.

Fails if a differentiable op has no gradient check, or if an op has no evaluator or no test.
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


def dialect():
    """By C++ class of each nn op: mnemonic and interfaces."""
    include = subprocess.run(["llvm-config", "--includedir"], capture_output=True, text=True, check=True).stdout.strip()
    text = subprocess.run(["llvm-tblgen", "-I", str(ROOT), "-I", include, "--dump-json", str(ROOT / "dialects" / "nn" / "NNOps.td")],
                          capture_output=True, text=True, check=True).stdout
    records = json.loads(text)
    sources = [path.read_text() for path in sorted((ROOT / "lib" / "Target" / "CPU" / "Kernels").glob("*.cpp"))]
    kernels = {name for text in sources for name in re.findall(r"(\w+)::attachInterface<", text)}
    # Interfaces with one kernel for all their ops.
    kernel_interfaces = {name for text in sources for name in re.findall(r"hasInterface<(\w+)>\(\)\)\s*name\.attachInterface<", text)}
    emitter = (ROOT / "passes" / "plan" / "EmitProgram.cpp").read_text()
    matmuls = re.findall(r"Emitter::emitMatmul\(nn::(\w+) op\)", emitter)
    calls = re.findall(r"\.Case\(\[&\]\(nn::(\w+) \w+\)", emitter)
    ops = {}
    for name in records["!instanceof"]["NN_Op"]:
        record = records[name]

        def interfaces(traits):
            for trait in traits:
                entry = records[trait["def"]]
                yield from interfaces(entry["traits"]) if "TraitList" in entry["!superclasses"] else [entry.get("cppInterfaceName")]

        has = set(interfaces(record["traits"]))
        has |= {word for word, classes in (("matmul", matmuls), ("library call", calls), ("own kernel", kernels)) if name.removeprefix("NN_") in classes}
        has |= {"own kernel"} if has & kernel_interfaces else set()
        ops[name.removeprefix("NN_")] = {"name": record["opName"], "has": has}
    if not matmuls or not kernels or not any("DifferentiableOpInterface" in op["has"] for op in ops.values()):
        sys.exit("status.py: found no matmuls, kernels or gradients; if the form of the sources changed, adapt the patterns in dialect()")
    return ops


def operators():
    """(domain, name, since) of each operator that has a handler."""
    rows = []
    for path in sorted((FRONTEND / "Ops").glob("*.cpp")):
        rows += [(domain, name, int(since)) for domain, name, since in re.findall(r'\br\.add\("([^"]*)", "(\w+)", (\d+),', path.read_text())]
    return sorted(rows)


def compiled(op):
    has = op["has"]
    words = [word for word, interface in (("library matmul", "matmul"), ("own kernel", "own kernel"), ("decomposed", "DecomposableOpInterface"),
                                            ("ops on flat groups", "GroupUpdateOpInterface")) if interface in has]
    if has & {"ElementwiseOpInterface", "IndexedOpInterface"}:
        words.append("generated kernel")
    return words


def bounds():
    low, high = re.search(r"kOldestOpset = (\d+), kNewestOpset = (\d+);", (FRONTEND / "Reader/Scope.cpp").read_text()).groups()
    return int(low), int(high)


def print_operators():
    low, high = bounds()
    print(f"""## ONNX operators

Operator sets {low} to {high} are read. *From* is the operator set from which on a handler takes the operator. What depends on shapes and constants alone is
computed at import. `shale-translate --import-onnx` prints the ops that a model's nodes become. Operators of other names are refused, each with its first node.

| operator | from |
|---|---|""")
    for domain, name, since in operators():
        print(f"| {domain + '.' if domain else ''}{name} | {max(since, low) if not domain else since} |")


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


def print_ops(ops):
    folder = ROOT / "test" / "dialects" / "nn"
    tests = {path: path.read_text() for path in sorted(folder.rglob("*.mlir")) if not path.stem.endswith("-invalid")}
    evaluators = evaluated()
    print("""
## nn ops

*Gradient*: the op has one of its own (`DifferentiableOpInterface`). *Sharding*: it has a rule for how
its dimensions may be split. *Compiled to*: a matmul of the target's library, a kernel of its own, simpler ops, ops on flat groups that `shale-materialize-units`
builds, or part of a generated kernel. *Test*: a file of `test/dialects/nn`; for an op with a gradient, the one that compares it with central differences.
The interpreter has an evaluator for every op.

| op | gradient | sharding | compiled to | test |
|---|---|---|---|---|""")
    for each, op in sorted(ops.items(), key=lambda item: item[1]["name"]):
        if not compiled(op):
            continue
        if each not in evaluators:
            sys.exit(f"status.py: the interpreter has no evaluator for nn.{op['name']}")
        print(f"| `{op['name']}` | {'yes' if 'DifferentiableOpInterface' in op['has'] else '-'} | "
              f"{'yes' if 'ShardingRuleOpInterface' in op['has'] else '-'} | {', '.join(compiled(op))} | `{test_of(op, tests).relative_to(folder)}` |")


def option(command, name, default):
    return command[command.index(name) + 1] if name in command else default


def print_models(build):
    tests = json.loads(subprocess.run(["ctest", "-C", "whole", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)["tests"]
    about = dict(re.findall(r"^\| `([\w-]+)` \| (.*?) \|$", (ROOT / "test" / "models" / "README.md").read_text(), re.M))
    runner = (ROOT / "test" / "e2e" / "lib" / "runner.py").read_text()
    loss, norm, weight = re.search(r"^LOSS, NORM, WEIGHT = (\S+), (\S+), (\S+)$", runner, re.M).groups()
    runs = collections.defaultdict(lambda: collections.defaultdict(set))
    for test in tests:
        command = test.get("command", [])  # none if another test builds the program
        script = next((word for runner, word in zip(command, command[1:]) if runner.endswith("/e2e")), "")
        case = option(command, "--case", None)
        if script not in ("follow", "precision") or not case or "--combine" in command:
            continue
        folder, file = pathlib.Path(case), option(command, "--model", "model.onnx")
        trajectory = option(command, "--trajectory", "trajectory.json")
        if not (folder / trajectory).exists() or not (folder / file).exists():
            sys.exit(f"status.py: test {test['name']} has no {folder / trajectory}")
        flags = next((word.removeprefix("--flags=") for word in command if word.startswith("--flags=")), None)
        if script == "precision":
            flags = "--param-dtype bf16" if flags is None else flags or "types of the file"
        what = (trajectory.removeprefix("trajectory").removesuffix(".json").strip("-"), flags or "")
        for strategy in option(command, "--shard", "none").split(","):
            for ranks in option(command, "--ranks", "2" if script == "precision" else "1").split(","):
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
            if kind == "EXPORTED":
                print(f"| {prefix}`{called[0]}` | `{key.value}-traced` | none (`shale.export`, f32) |")
                continue
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
    print_operators()
    print_ops(ops)
    print_models(pathlib.Path(sys.argv[1]))
    print_exported()


if __name__ == "__main__":
    main()
