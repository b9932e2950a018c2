#!/usr/bin/env python3
"""Installs Shale, builds the plug-in test/e2e/use/plugin against the installed package, and uses both.

usage: e2e plugin --build DIR

- The commands of docs/plugins.md, as they are there but for the folders; they install Shale, build the plug-in, and run its lit tests.
- The operator com.acme Snake: compares its gradient with central differences, its kernel with the interpreter, and training on one and two
  ranks with gradient descent in numpy.
- The pass acme-clip-gradients, inserted after autodiff: follows PyTorch's run with clip_grad_value_, with every strategy.
- Compilation continues from a dump of a module with the plug-in's op.
- Errors: files that are not plug-ins, a plug-in of another build, stages and passes that do not exist.
"""
import os
import pathlib
import re
import shlex
import subprocess

import numpy as np

from runner import MODELS, ROOT, Case, Deviates, largest, main, metrics, read_safetensors, run, save_safetensors

HERE = pathlib.Path(__file__).resolve().parent
from onnx_writer import floats, graph, model, node, value

ALPHA, RATE, STEPS, ROWS, WIDTH = 0.5, 0.1, 5, 4, 6
SNAKE = """func.func @snake(%x: tensor<5x7xTYPE>) -> tensor<5x7xTYPE> {
  %y = acme.snake %x alpha = 0.5 : tensor<5x7xTYPE>
  return %y : tensor<5x7xTYPE>
}
"""
WRONG_ABI = """
struct { const char *abi, *name, *version; void *functions[4]; } info = {"0.0.9 (LLVM 17)", "old", "1", {0}};
const void *shaleGetPlugin() { return &info; }
"""
TAKEN = """
#include "lib/Frontend/ONNX/Node.h"
#include "shale/Plugin.h"
const shale::PluginInfo *shaleGetPlugin() {
  static const shale::PluginInfo info = {SHALE_ABI, "taken", "1", nullptr, nullptr, [](shale::onnx::HandlerRegistry &registry) {
    registry.add("", "Relu", 1, [](shale::onnx::Node &node) -> mlir::LogicalResult { return node.error("never"); });
  }, nullptr};
  return &info;
}
"""


def environment(prefix):
    """The environment of a user of the installed package. CMake reads its defaults from it."""
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if pathlib.Path("/usr/bin/ccache").exists() else {}
    return {**os.environ, **launcher, "CMAKE_BUILD_TYPE": "Release", "PATH": f"{prefix}/bin:/usr/lib/llvm-22/bin:{os.environ['PATH']}"}


def run_page(build, prefix, work):
    """Runs the commands of docs/plugins.md in `work`, with these folders."""
    page = (ROOT / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"<!-- not run: e2e-plugin runs it -->\n```sh\n(.*?)```", page, re.S)
    commands = [line for block in blocks for line in block.splitlines()]
    if len(commands) < 7:
        raise Deviates(f"docs/plugins.md has {len(commands)} commands for this test")
    folders = {"build": build, "/opt/shale": prefix, "-DCMAKE_PREFIX_PATH=/opt/shale": f"-DCMAKE_PREFIX_PATH={prefix}",
               "test/e2e/use/plugin": HERE / "plugin", "test/e2e/use/plugin/test": HERE / "plugin" / "test"}
    for command in commands:
        run([folders.get(word, word) for word in shlex.split(command)], command, environment(prefix), work)


def configure(prefix, source, folder):
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"], "cmake of the plug-in", environment(prefix))
    run(["cmake", "--build", folder], "the plug-in's build")


def fails(command, code, *texts):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    if done.returncode != code or not all(text in done.stderr for text in texts) or len(lines) != 1:
        raise Deviates(f"{command[0]} ends with {done.returncode}, not {code}, or without '{texts}': {done.stderr}")


def write_model(path, weight):
    body = [node("MatMul", ["x", "weight"], ["p"]), node("Snake", ["p"], ["y"], "wave", "com.acme", alpha=ALPHA)]
    path.write_bytes(model(graph(body, [value("x", ["batch", WIDTH])], [value("y", ["batch", WIDTH])],
                                 [floats("weight", [WIDTH, WIDTH], weight.ravel().tolist())]), opsets=(("", 18), ("com.acme", 1))))


def descend(weight, x, target):
    """Losses of gradient descent on mse(snake(x w), target)."""
    w, losses = weight.astype(np.float64), []
    for step in range(STEPS):
        p = x[step] @ w
        error = p + np.sin(ALPHA * p) ** 2 / ALPHA - target[step]
        losses.append(np.mean(error**2))
        w -= RATE * (x[step].T @ (2 * error / error.size * (1 + np.sin(2 * ALPHA * p))))
    return losses


def check_operator(tools, plugin, work):
    load = f"--load-pass-plugin={plugin}"
    for kind in ("f64", "f32"):
        (work / f"snake-{kind}.mlir").write_text(SNAKE.replace("TYPE", kind))
    said = run([tools / "shale-run", load, "--check-gradient", work / "snake-f64.mlir"], "shale-run --check-gradient").stdout
    worst = float(re.search(r"largest error ([\d.e+-]+)", said)[1])
    if worst > 1e-6:
        raise Deviates(f"the gradient of acme.snake is off by {worst}")
    # shale-reduce reads the dialect, and its shale-opt has the pass.
    run([tools / "shale-reduce", load, work / "snake-f32.mlir", "--opt=--acme-clip-gradients=limit=-1", "--expect=limit must be positive",
         "-o", work / "reduced.mlir"], "shale-reduce")
    if "acme.snake" in (work / "reduced.mlir").read_text():
        raise Deviates("shale-reduce kept an op that the fault does not need")
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
    x, target = (rng.standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32) for _ in range(2))
    write_model(work / "model.onnx", weight)
    save_safetensors(work / "batches.safetensors", {"x": x, "target": target})
    want = descend(weight, x.astype(np.float64), target.astype(np.float64))
    flags = ["--loss", "mse:y,target", "--dim", f"batch={ROWS}"]
    text = run([tools / "shale-translate", load, "--import-onnx", work / "model.onnx", *flags], "shale-translate").stdout
    if "acme.snake" not in text:
        raise Deviates("the imported module has no acme.snake")
    for ranks in (1, 2):
        run([tools / "shalec", work / "model.onnx", *flags, load, "--optimizer", "sgd", "--mesh", f"fsdp={ranks}", "-o", work / "train",
             "--save-temps", work / f"dumps{ranks}"], "shalec")
        train = [work / "train", "--data", work / "batches.safetensors", "--steps", STEPS, "--lr", RATE, "--momentum", 0, "--weight-decay", 0,
                 "--clip-grad-norm", 0, "--schedule", "constant"]
        run([*train, "--out", work / f"run{ranks}"], "the program")
        got = [line["loss"] for line in metrics(work / f"run{ranks}")]
        if len(got) != STEPS or not np.allclose(got, want, rtol=0, atol=2e-5):
            raise Deviates(f"losses on {ranks} ranks are {got}, numpy's are {want}")
    # The first line of a dump is the command that continues from it.
    dump = next((work / "dumps2").glob("*-autodiff.mlir"))
    words = dump.read_text().splitlines()[0].removeprefix("// To continue: shalec ").replace("PROGRAM", str(work / "again")).split()
    run([tools / "shalec", *words], "shalec --compile-from")
    run([work / "again", *train[1:], "--out", work / "again-run"], "the program of a dump")
    first, second = (read_safetensors(work / name / "model.safetensors") for name in ("run2", "again-run"))
    if any(not np.array_equal(first[name], second[name]) for name in first):
        raise Deviates("the program of a dump trains to other weights")
    return largest(abs(a - b) for a, b in zip(got, want))


def check_pass(a, tools, plugin, work):
    case = Case(a.build, MODELS / "gpt2", "trajectory-clip-value.json")
    case.bin = tools
    passes = f"acme-clip-gradients{{limit={case.trajectory['clip_grad_value']}}}"
    worst = 0
    for shard in ("none", "optimizer", "grad", "full"):
        case.shalec(work / "train", shard, 2, ["--load-pass-plugin", plugin, "--insert-pass", f"after:autodiff:{passes}"])
        case.train(work / "train", work / f"clipped-{shard}")
        worst = largest([worst, case.check_metrics(work / f"clipped-{shard}")[0]])
    return worst


def check_errors(tools, prefix, plugin, work):
    shalec = [tools / "shalec", work / "model.onnx", "--loss", "mse:y,target", "--dim", f"batch={ROWS}"]
    fails(shalec, 65, "com.acme Snake", "'wave'")
    (work / "text.so").write_text("no library")
    (work / "old.c").write_text(WRONG_ABI)
    run(["cc", "-shared", "-fPIC", "-o", work / "old.so", work / "old.c"], "cc")
    (work / "none.c").write_text("int nothing;")
    run(["cc", "-shared", "-fPIC", "-o", work / "none.so", work / "none.c"], "cc")
    for name, text in (("gone.so", "there is no such file"), ("text.so", "cannot be loaded"), ("none.so", "does not export shaleGetPlugin"),
                       ("old.so", "it was built for Shale 0.0.9 (LLVM 17)"), ("taken/taken.so", "operator ::Relu has a handler already")):
        for command in (shalec, [tools / "shale-opt"], [tools / "shale-reduce", work / "snake-f32.mlir"], [tools / "shale-run"], [tools / "shale-translate"]):
            fails([*command, f"--load-pass-plugin={work / name}"], 69, text)
    load = [*shalec, "--load-pass-plugin", plugin]
    fails([*load, "--insert-pass", "autodiff"], 64, "expects after:STAGE:PASSES; got 'autodiff'")
    fails([*load, "--insert-pass", "after:lunch:acme-clip-gradients"], 64, "stage 'lunch' is not one of import, recover")
    fails([*load, "--insert-pass", "after:autodiff:acme-clip"], 64, "'acme-clip' does not refer to a registered pass")
    fails([*shalec, "--insert-pass", "after:autodiff:acme-clip-gradients"], 64, "--load-pass-plugin=FILE adds passes")
    fails([*load, "--insert-pass", "after:autodiff:acme-clip-gradients{limit=-1}"], 65, "limit must be positive")
    (work / "bad.mlir").write_text(SNAKE.replace("TYPE", "f32").replace("0.5", "-0.5"))
    fails([tools / "shale-opt", f"--load-pass-plugin={plugin}", work / "bad.mlir"], 1, "(C1) needs a positive alpha")


def check(a, work):
    prefix = work / "prefix"
    (work / "snake.mlir").write_text(SNAKE.replace("TYPE", "f64"))
    write_model(work / "model.onnx", np.eye(WIDTH, dtype=np.float32))
    run_page(pathlib.Path(a.build).resolve(), prefix, work)
    tools = prefix / "bin"
    # A plug-in that takes an operator of Shale; its source includes all public headers.
    headers = sorted(str(path.relative_to(prefix / "include" / "Shale")) for path in (prefix / "include" / "Shale").rglob("*.h"))
    (work / "source").mkdir()
    (work / "source" / "taken.cpp").write_text("".join(f'#include "{header}"\n' for header in headers) + TAKEN)
    (work / "source" / "CMakeLists.txt").write_text((HERE / "plugin" / "CMakeLists.txt").read_text().split("shale_add_plugin")[0]
                                                    + "shale_add_plugin(taken taken.cpp)\n")
    configure(prefix, work / "source", work / "taken")
    plugin = work / "acme" / "acme.so"
    loss = check_operator(tools, plugin, work)
    clipped = check_pass(a, tools, plugin, work)
    check_errors(tools, prefix, plugin, work)
    return f"{len(headers)} headers; the operator's loss within {loss:.1e}, the clipped runs' within {clipped:.1e}"


if __name__ == "__main__":
    main(check)
