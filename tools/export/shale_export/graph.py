"""Exports a module, and writes its file."""
import contextlib
import io
import logging
import os
import re
import traceback
import warnings

import torch

from . import traced, translations
from .build import LABELS, frozen, rewritten
from .cli import DATA, Failure, brief, libraries, note, place_among, place_in
from .written import WrittenSize

DERIVED, TRACED = "derived", "traced"  # who computes the gradients: shalec, or PyTorch
DRAWING = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
ONE_FILE = 1 << 30  # larger weights are written to a separate file


@contextlib.contextmanager
def quiet():
    hidden = io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def export(a, built, values, way):
    """The exported program (torch.onnx.ONNXProgram) with symbolic sizes: of the forward graph, or of the traced step."""
    with libraries():
        import onnxscript  # noqa: F401
    shapes = {one.name: one.symbolic(a.fixed) for one in built.inputs}
    module, names = built.module, ["loss"]
    try:
        with quiet(), rewritten(built):
            if way == TRACED:
                module, names, built.trained, record = traced.joint(built, values, shapes)
            program = torch.onnx.export(module, tuple(value.clone() for value in values.values()), dynamo=True, verbose=False, optimize=a.optimize,
                                        input_names=list(values), output_names=names, dynamic_shapes=shapes,
                                        custom_translation_table=translations.table() if way == TRACED else translations.own())
        translations.complete(program)
        if way == TRACED:
            traced.mark(program, record)
        cast_by_type(program)
        return program
    except Failure:
        raise
    except Exception as error:  # any exception of the exporter
        raise refusal(a, built, shapes, error) from error


def cast_by_type(program):
    """Replaces CastLike by Cast: it would read a parameter, as torch.clamp(parameter, max=1.0) has it, for nothing but its type."""
    import onnx_ir as ir
    for node in program.model.graph.all_nodes():
        if node.op_type == "CastLike" and node.domain == "" and node.inputs[1].dtype is not None:
            node.op_type = "Cast"
            node.attributes["to"] = ir.AttrInt64("to", int(node.inputs[1].dtype))
            node.resize_inputs(1)


def line_of_node(error):
    """The line of the user's files that the node comes from which the exporter was writing."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            text = getattr(frame.f_locals.get("node"), "meta", {}).get("stack_trace") or ""
            lines = re.findall(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)', text)
            if lines:
                return place_among([traceback.FrameSummary(path, int(line), name, line=code) for path, line, name, code in lines])
        error = error.__cause__ or error.__context__
    return ""


def refusal(a, built, shapes, error):
    """The message of torch.export without its own advice, and what to do."""
    cause = error
    while (before := cause.__cause__ or cause.__context__) is not None:
        cause = before
        if isinstance(cause, Failure):
            return cause
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(brief(one, 1 << 20) for one in (error.__cause__ or error, cause)))
    found = re.search(r"inferred a static shape of (\d+) for dimension inputs\['(\w+)'\]\.shape\[(\d+)\]", text)
    if found and int(found[3]) in shapes.get(found[2], {}):
        return WrittenSize(shapes[found[2]][int(found[3])], int(found[1]), [f"'{found[2]}'"])
    found = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>", text)
    if found:
        name, kind = built.modules.get(f"{found[1]}.{found[2]}", ("", ""))
        line = line_of_node(error)
        where = f", which module '{name.partition('.')[2] or name}' ({kind.rpartition('.')[2]}) computes" if kind else f", {line}" if line else ""
        return Failure(DATA, f"neither PyTorch's exporter nor Shale writes the operator {found[1]}{where}: write it in other operations")
    if found := re.search(r"DynamicOutputShapeException: (aten\.\w+)", text):
        return Failure(DATA, f"neither PyTorch's exporter nor Shale writes the operator {found[1]}, {place_in(cause) or place_in(error)}: write it in other operations")
    if re.search(r"data-dependent|DataDependent|\.item\(\)", text):
        place = place_in(cause) or place_in(error) or place_named(text)
        return Failure(DATA, f"torch.export cannot trace the module{f', {place}' if place else ''}: what is computed there depends on values of tensors, as an if, a loop bound, .item() "
                             "or a size. Choose with torch.where(), keep numbers as tensors, and leave out an if that only skips what is empty")
    text = "\n".join(line for line in text.splitlines() if not re.search("For more|For extended|For C|If you suspect|TORCH", line))
    place = place_in(cause) or place_in(error)
    return Failure(DATA, f"torch.export cannot trace the module{f', {place}' if place else ''}: {text[:900]}\n  what depends on values (not shapes) of "
                         "tensors cannot be an if, a loop bound or a Python number")


def place_named(text):
    """The line that torch.export names in a message, which may be a library's."""
    found = re.search(r'The following call raised this error:\s+File "(.+)", line (\d+), in .*\n\s*(.+)', text)
    return f"{found[1]}:{found[2]} '{found[3].strip()}'" if found else ""


def check_values(graph):
    """Reports constants without elements: torch.export reads `parameter.data` as one."""
    for name, one in graph.initializers.items():
        if type(getattr(one.const_value, "raw", None)).__name__ == "FakeTensor":
            raise Failure(DATA, f"torch.export has no elements of the constant '{name}': the module reads .data of a parameter there. Read the parameter itself, or its detach()")


def check_symbolic(a, built, program):
    """Reports inputs that the loss does not depend on, and sizes that the exporter fixed silently."""
    found = {value.name: value for value in program.model.graph.inputs}
    for one in list(built.inputs):
        if one.name not in found or not found[one.name].uses():
            if one.name in built.given:
                leave_out_input(program, built, one, found.get(one.name))
                continue
            raise Failure(DATA, f"the loss does not depend on '{one.name}': {'is it computed of the labels?' if one.name in LABELS else 'take it out of forward'}")
        for at, dim in one.symbolic(a.fixed).items():
            if isinstance(found[one.name].shape[at], int):
                raise WrittenSize(dim, found[one.name].shape[at], [f"'{one.name}'"])


def leave_out_input(program, built, one, value):
    note(f"'{one.name}' is not an input of the file, since the loss does not depend on it")
    if value is not None:
        program.model.graph.inputs.remove(value)


def write(a, program, built, folder, name):
    """Writes the graph as folder/name, and large weights to a separate file. Returns the bytes of weights."""
    import onnx_ir as ir
    # Names in programs are those of the user's module.
    wrapper = next(name for name, child in built.module.named_children() if child is built.model)
    program.model.graph.metadata_props["shale.wrapper"] = wrapper
    rename(program.model.graph, {f"{wrapper}.{name}": f"{wrapper}.{new}" for name, new in built.renamed.items()})
    if built.given:
        program.model.graph.metadata_props["shale.batch"] = "given"
    if not built.without_grad:
        program.model.graph.metadata_props["shale.blocks"] = "autocast"
    if names := frozen(built):
        program.model.graph.metadata_props["shale.frozen"] = "\n".join(map("\t".join, names))
        note(f"'{names[0][0]}'{f' and {len(names) - 1} more do' if names[1:] else ' does'} not require a gradient: the file records it, and shalec does not train what it records")
    check_values(program.model.graph)
    parameters = list(program.model.graph.initializers.values())
    total = sum(one.const_value.nbytes for one in parameters)
    path = folder / name
    if a.shapes_only:
        names = {f"{wrapper}.{built.renamed.get(name, name)}" for name, _ in built.model.named_parameters(remove_duplicate=False)}
        leave_out(ir, [one for one in parameters if one.name in names], f"{name}.data")
        ir.save(program.model, str(path))
    else:
        with quiet():
            program.save(str(path), external_data=a.external_data or total > ONE_FILE)
    if os.path.getsize(path) >= 1 << 31:
        raise Failure(DATA, f"the graph alone has {os.path.getsize(path)} bytes, and a file of this format at most 2 GiB")
    return total


def rename(graph, names):
    """Gives parameters other names, in the graph and in its record."""
    signature = "pkg.torch.export.ExportedProgram.graph_signature"
    for name, new in names.items():
        if (value := graph.initializers.pop(name, None)) is not None:
            value.name = value.const_value.name = new
            graph.initializers[new] = value
        if signature in graph.metadata_props:
            graph.metadata_props[signature] = graph.metadata_props[signature].replace(f"target='{name}'", f"target='{new}'")


def has_nodes(program, kinds):
    return any(node.op_type in kinds for part in [program.model.graph, *program.model.functions.values()] for node in part.all_nodes())


def has_halves(program):
    """Whether the graph computes with 16-bit floats."""
    return any(str(value.dtype) in ("BFLOAT16", "FLOAT16") for part in [program.model.graph, *program.model.functions.values()]
               for node in part.all_nodes() for value in node.outputs)


def leave_out(ir, parameters, data):
    """Replaces parameters by references into a file that does not exist. Tables and other constants stay, since plans need them."""
    offset = 0
    for one in parameters:
        value = one.const_value
        one.const_value = ir.ExternalTensor(data, offset, value.nbytes, value.dtype, shape=value.shape, name=value.name)
        offset += -(-value.nbytes // 64) * 64


def say_trainable(program, built):
    """Prints a note if a parameter is not in the file under its name."""
    have = set(program.model.graph.initializers)
    shared = {id(parameter) for name, parameter in built.module.named_parameters(remove_duplicate=False) if name in have}
    lost = [name for name, parameter in built.module.named_parameters() if name not in have and id(parameter) not in shared]
    if lost:
        note(f"{len(lost)} parameters are not in the file, as the loss does not depend on them or the exporter folded them: {', '.join(lost[:3])}"
             f"{' ..' if len(lost) > 3 else ''}")
