"""Makes the file of a module, and compares it with the module."""
from . import batch, build, check, given, gradients, graph
from .cli import USAGE, Failure, note, whole_files


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
    sizes, vocabulary = example_sizes(a, built), a.vocabulary or built.vocabulary or 2
    batches = batch.Batches(a, built, sizes, vocabulary)
    values = batches.first()
    if a.check and not a.shapes_only:
        batch.loss_of(built.module, values, built.values)
    print(f"inputs      {', '.join(map(str, built.inputs))}", flush=True)
    program = graph.export(a, built, values)
    built.has_dropout, built.has_draws = graph.has_nodes(program, ("Dropout",)), graph.has_nodes(program, graph.DRAWING)
    graph.check_symbolic(a, built, program)
    graph.say_trainable(program, built)
    with whole_files(output) as folder:
        total = graph.write(a, program, built, folder, output.name)
        if a.check and not a.shapes_only:
            if not (shalec and gradients.compare(a, built, folder / output.name, shalec, batches)):
                check.compare(a, built, folder / output.name, total, batches)
        elif not a.shapes_only:
            note("the file was not compared with the module (--no-check)")
    print(f"written     {output}: {sum(p.numel() for p in built.model.parameters()):,} parameters, {total:,} bytes of weights"
          f"{', none in the file' if a.shapes_only else ''}", flush=True)
