"""Makes the file of a module, and compares it with the module."""
from . import batch, build, check, given, gradients, graph, rows
from .cli import DATA, USAGE, Failure, note, whole_files
from .written import WrittenSize, find

WAYS = {graph.DERIVED: "derived by shalec", graph.TRACED: "traced by PyTorch"}


def example_sizes(a, built):
    """Sizes of the example: those of the caller's batch. A position table bounds the sequence."""
    known = given.sizes_of(built.inputs, built.given, a.fixed)
    sizes = {"batch": 3, "sequence": min(12, built.positions or 12)}
    names = {dim for one in built.inputs for dim in one.dims if isinstance(dim, str)}
    sizes = {name: known.get(name, sizes.get(name, 4)) for name in names}
    for name, size in a.size:
        if name not in sizes:
            raise Failure(USAGE, f"--size {name}: no input has this dimension; there are {', '.join(sorted(sizes))}")
        if known.get(name, size) != size:
            raise Failure(USAGE, f"--size {name}={size}: the batch has {known[name]}")
        sizes[name] = size
    for name in a.fixed:
        if name not in sizes:
            raise Failure(USAGE, f"--fixed {name}: no input has this dimension; there are {', '.join(sorted(sizes))}")
    return sizes


def make(a, built, output, shalec):
    """Writes the file `output` of a module with the settings `a` (those of export.py). It appears only if it is the module."""
    build.check_renormalized(built.model)
    build.set_mode(a, built)
    takes_written, a.fixed = "auto" in a.fixed, [dim for dim in a.fixed if dim != "auto"]
    with whole_files(output) as folder:
        while True:
            try:
                total = make_for_sizes(a, built, folder / output.name, shalec)
                break
            except WrittenSize as error:
                if not takes_written:
                    raise
                note(f"dimension '{error.dim}' is fixed to {error.size}, the only size that the module takes")
                a.fixed, a.size = [*a.fixed, error.dim], [*a.size, (error.dim, error.size)]
    print(f"written     {output}: {sum(p.numel() for p in built.model.parameters()):,} parameters, {total:,} bytes of weights"
          f"{', none in the file' if a.shapes_only else ''}", flush=True)


def make_for_sizes(a, built, path, shalec):
    """Writes the file for the present sizes of the example."""
    sizes, vocabulary = example_sizes(a, built), a.vocabulary or built.vocabulary or 2
    batches = batch.Batches(a, built, sizes, vocabulary)
    values = batches.first()
    built.rewrites = a.shapes_only  # nothing is computed that could be watched
    if not a.shapes_only:
        try:
            with rows.Watching() as watching:
                built.without_grad = batch.uses_no_grad(built.module, values, built.values)
            built.rewrites = bool(watching.found)
        except Failure as error:
            if built.given or not (written := find(built, sizes, a.fixed, vocabulary, error)):
                raise
            raise written from error
        if built.rewrites:
            note(f"written in other operations: {', '.join(watching.found)}. Where a mask chooses rows, the file computes all rows")
    print(f"inputs      {', '.join(map(str, built.inputs))}", flush=True)
    return choose(a, built, path, shalec, batches)


def choose(a, built, path, shalec, batches):
    """Writes the file with gradients that shalec derives. If it is not the module, writes it with those that PyTorch traced."""
    if a.gradients != "auto":
        total = attempt(a, built, path, shalec, batches, a.gradients)
        print(f"gradients   {WAYS[a.gradients]}, as --gradients says", flush=True)
        return total
    try:
        total = attempt(a, built, path, shalec, batches, graph.DERIVED)
        print(f"gradients   {WAYS[graph.DERIVED]}", flush=True)
        return total
    except WrittenSize:
        raise
    except Failure as error:
        if error.code != DATA:
            raise
        why = error
    try:
        total = attempt(a, built, path, shalec, batches, graph.TRACED)
    except WrittenSize:
        raise
    except Failure as error:
        if error.code != DATA:
            raise
        if str(error) == str(why):
            raise why from error
        raise Failure(DATA, f"{why}\n  PyTorch's own gradients (--gradients traced) cannot be exported either: {error}") from error
    print(f"gradients   {WAYS[graph.TRACED]}; with derived ones {reason(why)}", flush=True)
    return total


def reason(error):
    """The first sentence of a failure: shalec's, where it refuses the file."""
    lines = str(error).splitlines()
    refused = [line.partition("shalec: error: ")[2] for line in lines if line.startswith("shalec: error: ")]
    return f"shalec refuses the file: {refused[0].partition('.onnx: ')[2] or refused[0]}" if refused else lines[0]


def attempt(a, built, path, shalec, batches, way):
    """Writes the file, and compares it. Returns the bytes of its weights."""
    built.trained = None
    program = graph.export(a, built, batches.first(), way)
    built.has_dropout, built.has_draws = graph.has_nodes(program, ("Dropout",)), graph.has_nodes(program, graph.DRAWING)
    built.has_halves = graph.has_halves(program)
    graph.check_symbolic(a, built, program)
    graph.say_trainable(program, built)
    total = graph.write(a, program, built, path.parent, path.name)
    if a.check and not a.shapes_only:
        if not (shalec and gradients.compare(a, built, path, shalec, batches)):
            check.compare(a, built, path, total, batches)
    elif not a.shapes_only:
        note("the file was not compared with the module (--no-check)")
    return total
