"""The traced way: a module whose outputs are the loss and the gradients that PyTorch's own autograd computes.

A forward graph does not have the gradients of a torch.autograd.Function, of hooks, of torch.no_grad() and of .detach(). The trace of one step
in eager mode, forward and backward, has them. It is made once, of fake tensors with symbolic sizes, and torch.onnx.export exports its graph.
"""
import bisect
import builtins
import contextlib
import operator
import pathlib

import sympy
import torch
from torch import nn
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from . import backward, translations
from .build import names_of, wrap
from .cli import DATA, Failure, place_of

KEY = "shale"  # of the entry of a node's metadata that this file writes

aten = torch.ops.aten


def decompositions():
    """What the exporter has no operators for, or wrong ones: its nll_loss_forward returns a total weight that is not one, and a
    BatchNormalization would change running statistics that the step itself computes."""
    kept = {aten.native_dropout_backward.default, *translations.table()}
    batch_norms = (aten.native_batch_norm, aten._native_batch_norm_legit)
    known = {**core_aten_decompositions(), **get_decompositions(batch_norms), **backward.TABLE}
    return {**{kind: known[kind] for kind in known if kind not in kept}, **translations.decompositions()}


def multiply_by_noise(graph):
    """Makes dropout a product with a tensor of noise, by which the backward pass multiplies as well. So '--dropout off' changes both."""
    noises = {}

    def insert(node, kind, *arguments):
        with graph.inserting_before(node):
            made = graph.call_function(kind, arguments)
        made.meta["custom"] = node.meta.get("custom", {})
        return made

    for node in list(graph.nodes):
        if node.target is aten.native_dropout.default:
            values, *settings = node.args
            noise = insert(node, operator.getitem, insert(node, aten.native_dropout.default, insert(node, aten.ones_like.default, values), *settings), 0)
            product = insert(node, aten.mul.Tensor, values, noise)
            for part in list(node.users):
                if part.args[1] == 0:
                    part.replace_all_uses_with(product)
                else:
                    noises[part] = noise
        elif node.target is aten.native_dropout_backward.default:
            gradient, mask, _ = node.args
            node.replace_all_uses_with(insert(node, aten.mul.Tensor, gradient, noises[mask]))
    graph.eliminate_dead_code()


def without_out(graph):
    """Writes functions with `out=` as the functions without it, and a copy: the first have no gradient, and torch.export refuses them beside
    parameters that need one."""
    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        names = [one.name for one in schema.arguments if one.is_out] if schema else []
        if len(names) != 1 or names[0] not in node.kwargs:
            continue
        wanted = [(one.name, str(one.type)) for one in schema.arguments if not one.is_out]
        overloads = (getattr(node.target.overloadpacket, name) for name in node.target.overloadpacket.overloads())
        plain = next((one for one in overloads if [(part.name, str(part.type)) for part in one._schema.arguments] == wanted), None)
        if plain is None:
            continue
        with graph.inserting_before(node):
            made = graph.call_function(plain, node.args, {name: value for name, value in node.kwargs.items() if name != names[0]})
            copied = graph.call_function(aten.copy_.default, (node.kwargs[names[0]], made))
        for one in (made, copied):
            one.meta.update({key: node.meta[key] for key in ("custom", "val") if key in node.meta})
        node.replace_all_uses_with(copied)
        graph.erase_node(node)


class Scopes:
    """Gives traced nodes the modules that they belong to. A node of the backward pass belongs to the module of the operation that it
    differentiates: autograd numbers operations in their order, and `changes` lists the numbers at which modules begin and end."""

    def __init__(self, module):
        self.names = {id(one): name for name, one in module.named_modules()}
        self.stack, self.changes, self.is_forward = [], [(-1, ())], True

    def mark(self, stack, is_seed=False):
        traceback.current_meta["custom"] = {KEY: (stack, is_seed)}

    def change(self):
        stack = tuple(self.stack)
        if self.is_forward:
            self.changes.append((torch.autograd._get_sequence_nr(), stack))
        self.mark(stack)

    def enter(self, module, _):
        self.stack.append((self.names.get(id(module), ""), f"{type(module).__module__}.{type(module).__qualname__}"))
        self.change()

    def leave(self, *_):
        self.stack.pop()
        self.change()

    @contextlib.contextmanager
    def recorded(self):
        hooks = [register_module_forward_pre_hook(self.enter), register_module_forward_hook(self.leave, always_call=True)]
        try:
            with traceback.preserve_node_meta():
                self.change()
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def follow(self, loss):
        """Marks what each function of the backward pass of `loss` computes."""
        self.is_forward, seen, left = False, set(), [loss.grad_fn]
        while left:
            function = left.pop()
            if function is None or function in seen:
                continue
            seen.add(function)
            at = bisect.bisect_right(self.changes, function._sequence_nr(), key=lambda change: change[0])
            function.register_prehook(lambda _, stack=self.changes[at - 1][1]: self.mark(stack))
            left += [before for before, _ in function.next_functions]


def places(module, kind):
    """Where the module has its parameters or buffers: {tensor: [(dictionary of a submodule, name)]}."""
    found = {}
    for one in module.modules():
        for name, value in getattr(one, kind).items():
            if value is not None:
                found.setdefault(value, []).append((getattr(one, kind), name))
    return found


@contextlib.contextmanager
def replaced(spots, values):
    """Puts values in the places of tensors."""
    try:
        for of, value in zip(spots.values(), values):
            for entries, name in of:
                entries[name] = value
        yield
    finally:
        for kept, of in spots.items():
            for entries, name in of:
                entries[name] = kept


def leaf_of(parameter, value):
    """A parameter with this value, and with the hooks of another one."""
    leaf = nn.Parameter(value, requires_grad=parameter.requires_grad)
    for hook in (parameter._backward_hooks or {}).values():
        leaf.register_hook(hook)
    for hook in (parameter._post_accumulate_grad_hooks or {}).values():
        leaf.register_post_accumulate_grad_hook(hook)
    return leaf


@contextlib.contextmanager
def open_len():
    """Lets len(tensor) be an open size, like tensor.shape[0]. Python makes it a number otherwise, which the trace then has for all batches."""
    known = builtins.len
    builtins.len = lambda of: of.shape[0] if isinstance(of, torch.Tensor) and of.dim() else known(of)
    try:
        yield
    finally:
        builtins.len = known


def names_of_sizes(inputs, shapes):
    """The dimension that each symbol of the inputs' sizes stands for."""
    return {value.shape[at].node.expr: sympy.Symbol(dim, integer=True, positive=True)
            for name, value in inputs.items() for at, dim in shapes[name].items() if isinstance(value.shape[at], torch.SymInt)}


def check_branches(environment, names):
    """Reports code that does one thing or another by an open size: the trace has only what it does for that of the example. Fake tensors ask
    about sizes for reasons of their own, such as the layout in memory."""
    framework = pathlib.Path(torch.__file__).parent
    for guard in environment.guards:
        condition, frame = guard.expr.xreplace(names), guard.sloc.framework_loc
        is_known = hasattr(frame, "filename")  # PyTorch has a text, or nothing, where it knows no line
        if condition == sympy.true or not condition.free_symbols or (is_known and framework / "_subclasses" in pathlib.Path(frame.filename).parents):
            continue
        dim = sorted(map(str, condition.free_symbols))[0]
        raise Failure(DATA, f"what the module does depends on the size '{dim}'{f', {place_of(frame)}' if is_known else ''}: the trace has what it does "
                            f"where {condition}. Write it without the branch, or pass --fixed {dim} if every batch has the size of the example")


class Trace:
    """One step of a module in eager mode. `graph` takes the values of `parameters`, of `buffers` and of the inputs, and returns the loss, the
    gradients of `trained` and the new values of `changed` buffers."""

    def __init__(self, module, values, shapes):
        self.module, self.scopes = module, Scopes(module)
        self.parameters, self.buffers = places(module, "_parameters"), places(module, "_buffers")
        self.trained, self.changed = [], []
        environment = ShapeEnv()
        mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)

        def fake(value, open_dims=()):
            sizes = [DimDynamic.DYNAMIC if at in open_dims else DimDynamic.STATIC for at in range(value.dim())]
            return mode.from_tensor(value.detach(), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

        inputs = {name: fake(value, shapes[name]) for name, value in values.items()}
        names = names_of_sizes(inputs, shapes)  # before the trace, which makes equal sizes one symbol
        fakes = [*map(fake, (*self.parameters, *self.buffers)), *inputs.values()]
        with mode, enable_python_dispatcher(), open_len(), self.scopes.recorded():
            self.graph = make_fx(self.step, decomposition_table=decompositions(), _allow_non_fake_inputs=True)(*fakes)
        check_branches(environment, names)
        for node in self.graph.graph.find_nodes(op="call_function", target=aten.alias.default):
            node.replace_all_uses_with(node.args[0])  # nodes read parameters themselves, as in a forward graph
        self.drop_unchanged()
        multiply_by_noise(self.graph.graph)
        without_out(self.graph.graph)
        self.graph.recompile()

    def step(self, *given):
        first, second = len(self.parameters), len(self.parameters) + len(self.buffers)
        leaves = [leaf_of(*pair) for pair in zip(self.parameters, given[:first])]
        states = [value.clone() for value in given[first:second]]
        with replaced(self.parameters, leaves), replaced(self.buffers, states):
            loss = self.module(*given[second:])
            after = [entries[name] for (entries, name), *_ in self.buffers.values()]
            if loss.requires_grad:
                self.scopes.follow(loss)
                self.scopes.mark((), is_seed=True)
                seed = torch.ones_like(loss)
                self.scopes.mark(())
                loss.backward(seed)
        self.trained = [of for of, leaf in zip(self.parameters, leaves) if leaf.grad is not None]
        return [loss, *(leaf.grad for leaf in leaves if leaf.grad is not None), *after]

    def drop_unchanged(self):
        """Leaves the new values of the buffers that the step changes. Versions of tensors do not tell: batch normalization changes its running
        statistics without a new version."""
        output = self.graph.graph.output_node()
        results = output.args[0]
        first = len(results) - len(self.buffers)

        def is_changed(of, node):
            is_copy = node.op == "call_function" and node.target is aten.clone.default and node.args[0].op == "placeholder"
            return of.is_floating_point() and not is_copy

        kept = {of: node for of, node in zip(self.buffers, results[first:]) if is_changed(of, node)}
        self.changed = list(kept)
        output.args = ([*results[:first], *kept.values()],)

    def modules(self):
        """The module of the first node of each operator, by the operator's name."""
        found = {}
        for node in self.graph.graph.nodes:
            stack = node.meta.get("custom", {}).get(KEY, ((), False))[0]
            found.setdefault(str(node.target), stack[-1] if stack else ("", ""))
        return found

    def run(self, values):
        """The loss, the gradients and the new values of buffers for these inputs."""
        spots = [of[0] for places in (self.parameters, self.buffers) for of in places.values()]
        with traceback.preserve_node_meta():
            found = torch.fx.Interpreter(self.graph).run(*(entries[name] for entries, name in spots), *values)
        return tuple(found)


def joint(built, values, shapes):
    """Traces one step with these values. Returns the module to export, the names of its outputs, the parameters that have gradients, and what
    the file records: which outputs are new values of buffers."""
    trace = Trace(built.module, values, shapes)
    if not trace.trained:
        raise Failure(DATA, "the loss depends on no parameter that requires a gradient: there is nothing to train")
    names = {one: of[0] for one, of in names_of(built).items()}
    changed = [names[one] for one in trace.changed]
    built.modules = trace.modules()
    module = wrap(built.model, list(values), lambda _, inputs: trace.run(list(inputs.values())))
    record = {"shale.buffers": "\n".join(f"{name}\tnext.{name}" for name in changed)} if changed else {}
    return module, ["loss", *(f"grad.{names[one]}" for one in trace.trained), *(f"next.{name}" for name in changed)], trace.trained, record


def mark(program, record):
    """Writes the scopes of traced nodes, and the seed of the backward pass, into the exported nodes, and the record into the graph."""
    for node in program.model.graph.all_nodes():
        source = node.meta.get("node")
        stack, is_seed = (source.meta.get("custom") or {}).get(KEY, ((), False)) if source is not None else ((), False)
        if is_seed and node.name == f"node_{source.name}":
            node.metadata_props["shale.seed"] = "loss"
        if stack and source.op == "call_function":
            node.metadata_props["pkg.torch.onnx.name_scopes"] = repr([name for name, _ in stack] + [source.name])
            node.metadata_props["pkg.torch.onnx.class_hierarchy"] = repr([kind for _, kind in stack] + [str(source.target)])
    program.model.graph.metadata_props.update(record)
