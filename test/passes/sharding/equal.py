"""Checks that a sharded program computes the same as the unsharded one.

usage: equal.py MESH STRATEGY [FLAG]...

FLAGs are those of make_tiny.py, and

  optimizer=NAME, units=POLICY, batch=N
  scales=REGEX=X,..   factors on learning rates
  import=ARGUMENTS    imports a model with these arguments of shale-translate, instead of make_tiny.py's
  accumulate=K        K micro-batches per step
  recover             attention and norms are one op
  plan                pads vocabularies, repeats key heads, and finds what tensor axes split; the unsharded program has neither
  experts             splits experts over their axis
  tensor=PLAN         as `plan`, and splits some parameters as PLAN says
  sync=false          whole accumulators
  memory              makes gathers explicit
  chunk=ROWS          with `memory`: the loss is computed in chunks of rows
  recompute=POLICY    recomputation as well
  packed              no gradient may be summed on its own
  seed=N              of random inputs
  mutate              deletes every collective in turn, which must change the results
"""
import os
import re
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
mesh, strategy, *flags = sys.argv[1:]
settings = dict(flag.split("=", 1) for flag in flags if "=" in flag)
model = [flag for flag in flags if "=" not in flag and flag not in ("memory", "mutate", "packed", "plan", "recover", "experts")]


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def equal(folder, name):
    return run("shale-run", "--as=f64", f"--seed={settings.get('seed', '0')}", f"{folder}/before.mlir", f"--compare={folder}/{name}", check=False)


def mutants(text):
    """The program without its i-th collective; an exchange that changes the type
    becomes one that moves nothing between ranks."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        found = re.match(r"(\s*)(%\S+) = dist\.(all_reduce|reduce_scatter|all_gather|unit_gather|all_to_all)\s", line)
        if not found:
            continue
        indent, result, kind = found.groups()
        operand = re.search(r"(%[\w.#-]+)", line.split("=", 1)[1]).group(1)
        axis = re.search(r'over "([\w+]+)"', line).group(1)
        types = line.rsplit(" : ", 1)[1].split(" -> ")
        dim = re.search(r"dim = (\d+)", line)
        if kind == "all_reduce":
            new = [f"{indent}{result} = mem.barrier {operand} : {types[0]}"]
        elif kind == "reduce_scatter":
            new = [f'{indent}{result} = dist.slice {operand} over "{axis}" dim = {dim.group(1)} : {types[0]} -> {types[1]}']
        else:
            # The rank's own piece, repeated.
            along = dim.group(1) if dim else (re.search(r"concat = (\d+)", line).group(1) if kind == "all_to_all" else "0")
            if kind == "all_to_all":
                split = re.search(r"split = (\d+)", line).group(1)
                a = [int(d) for d in types[0][7:].split("x")[:-1]]
                b = [int(d) for d in types[1][7:].split("x")[:-1]]
                factor = b[int(along)] // a[int(along)]
                middle = list(a)
                middle[int(split)] //= factor
                mid = "tensor<" + "x".join(map(str, middle)) + "x" + types[0].rsplit("x", 1)[1]
                new = [f'{indent}{result}s = dist.slice {operand} over "{axis}" dim = {split} : {types[0]} -> {mid}']
                copies = ", ".join([f"{result}s"] * factor)
                new.append(f"{indent}{result} = nn.concat {copies} dim = {along} : ({', '.join([mid] * factor)}) -> {types[1]}")
            else:
                a = int(types[0][7:].split("x")[int(along)])
                b = int(types[1][7:].split("x")[int(along)])
                copies = ", ".join([operand] * (b // a))
                new = [f"{indent}{result} = nn.concat {copies} dim = {along} : ({', '.join([types[0]] * (b // a))}) -> {types[1]}"]
        yield i + 1, line.strip()[:100], "\n".join(lines[:i] + new + lines[i + 1:])


with tempfile.TemporaryDirectory() as folder:
    if "import" in settings:
        tiny = run("shale-translate", "--quiet", "--import-onnx", *settings["import"].split()).stdout
    else:
        tiny = run(sys.executable, f"{here}/Inputs/make_tiny.py", settings.get("batch", "12"), *model).stdout
    with open(f"{folder}/forward.mlir", "w") as out:
        out.write(tiny)
    def step(name, *padding):
        recover = ["--shale-stage-recover"] if "recover" in flags else []
        run("shale-opt", f"{folder}/forward.mlir", *recover, f"--shale-annotate-mesh=mesh={mesh} shard={strategy} sync-every-microbatch={settings.get('sync', 'true')}",
            f"--shale-annotate-units=unit={settings.get('units', 'block')}", f"--shale-scale-updates=factor=lr_scale values={settings.get('scales', '')}",
            f"--shale-assign-optimizers=optimizer={settings.get('optimizer', 'adamw')}", *padding,
            f"--shale-autodiff=optimizer={settings.get('optimizer', 'adamw')} accumulate={settings.get('accumulate', '1')}", "-o", f"{folder}/{name}.mlir")

    step("before")
    passes = ["--shale-propagate", "--shale-verify-sharded", "--shale-partition", "--shale-delay-sums"]
    if "plan" in flags or "tensor" in settings:
        typed = [f"--shale-annotate-tensor=tensor={settings['tensor']}"] if "tensor" in settings else []
        step("padded", *typed, "--shale-pad-parameters", "--shale-repeat-heads")
        passes = ["--shale-group-sums", "--shale-plan-sharding", *passes]
    padded = len(passes) > 4
    if "experts" in flags:
        passes = ["--shale-split-experts", *passes]
    run("shale-opt", f"{folder}/{'padded' if padded else 'before'}.mlir", *passes, "-o", f"{folder}/local.mlir")
    done = equal(folder, "local.mlir")
    if done.returncode:
        sys.exit(f"not equal after --shale-delay-sums\n{done.stdout}{done.stderr}")
    passes = ["--shale-materialize-units", "--shale-lower-collectives"]
    if "memory" in flags:
        if "chunk" in settings:
            passes += [f"--shale-chunk-losses=loss-chunk={settings['chunk']}"]
        passes += [f"--shale-annotate-recompute=recompute={settings.get('recompute', 'none')}",
                   "--shale-materialize-recompute", "--shale-verify-memory"]
    run("shale-opt", f"{folder}/local.mlir", *passes, "-o", f"{folder}/after.mlir")
    done = equal(folder, "after.mlir")
    print(done.stdout, done.stderr)
    if done.returncode:
        sys.exit("not equal")
    text = open(f"{folder}/after.mlir").read()
    if "packed" in flags and (single := re.search(r"dist\.all_reduce \w+ .* : tensor<\d.*", text)):
        sys.exit(f"a gradient is summed on its own: {single.group(0)}")
    if "mutate" in flags:
        count = 0
        for line, what, mutant in mutants(text):
            with open(f"{folder}/mutant.mlir", "w") as out:
                out.write(mutant)
            run("shale-opt", f"{folder}/mutant.mlir", "-o", os.devnull)
            if equal(folder, "mutant.mlir").returncode == 0:
                sys.exit(f"line {line} can be dropped and nobody notices: {what}")
            count += 1
        if count == 0:
            sys.exit("there is no collective to drop")
        print(f"each of {count} collectives is needed")
    print("collectives:", len(re.findall(r"dist\.(?:all_reduce|reduce_scatter|all_gather|unit_gather|all_to_all) ", text)))
print("equal")
