"""Rows that a mask chooses, such as x[mask], torch.where(mask) and nonzero(): how many there are depends on values, which no file can have.

While a module is exported, such an expression gives all rows, and a mask of the chosen ones goes with them. What computes each row by itself leaves the
others alone. Where rows are summed, averaged or written back, only the chosen ones count. Anything else is refused.
"""
import itertools
import math
import traceback

import torch
from torch.overrides import TorchFunctionMode

from .cli import DATA, Failure, place_among
from .operators import writer, written

SHAPES = {"__get__", "dim", "size", "numel", "__len__", "is_floating_point", "stride", "ndimension", "element_size", "register_hook"}
EACH = set("""abs add alpha_dropout bitwise_and bitwise_or bitwise_not bfloat16 celu ceil clamp clamp_max clamp_min clone contiguous cos detach div dropout elu embedding eq erf
exp expm1 float floor fmod ge gelu gt half hardsigmoid hardswish hardtanh invert le leaky_relu linear log log1p logaddexp logical_and logical_not logical_or logsigmoid long lt
masked_fill matmul maximum minimum mish mul ne neg normalize pow prelu reciprocal relu relu6 requires_grad rms_norm layer_norm round rsqrt rsub selu sigmoid sign silu sin
softplus softsign sqrt square sub tanh to truediv type type_as where xor and or zeros_like ones_like full_like new_zeros int bool""".split())
ALONG = set("amax amin argmax argmin chunk cumsum gather log_softmax logsumexp max mean min norm prod softmax split std sum topk unbind var vector_norm".split())
SHAPED = set("flatten reshape squeeze unflatten unsqueeze view".split())
LOSSES = set("binary_cross_entropy binary_cross_entropy_with_logits huber_loss l1_loss mse_loss smooth_l1_loss".split())
LABELED = set("cross_entropy nll_loss".split())
CHOOSING = set("nonzero argwhere masked_select".split())
MOST = 256  # rows over which a loop runs


class Rows:
    """Rows of `value` along `dim`, of which `chosen` has the chosen ones. `first`: their positions, where these are known."""

    def __init__(self, value, chosen, dim, first=None):
        self.value, self.chosen, self.dim, self.first = value, chosen, dim, first

    def mask(self):
        """The mask in a shape that broadcasts with the value."""
        return self.chosen.reshape([-1] + [1] * (self.value.dim() - 1 - self.dim))


class Count:
    """How many rows there are: nothing can be computed of it. An `if` that skips what has none takes the other way, in which they change nothing."""

    def __init__(self, refuse):
        self.refuse = refuse

    def __eq__(self, other):
        return False if type(other) is int and other == 0 else self.refuse("shape")

    def __gt__(self, other):
        return True if type(other) is int and other == 0 else self.refuse("shape")

    def __ne__(self, other):
        return not self == other

    def other(self, *_):
        return self.refuse("shape")

    __hash__ = None
    __index__ = __bool__ = __int__ = __float__ = __lt__ = __le__ = __ge__ = other
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = __pow__ = __rpow__ = other


class Sizes(tuple):
    """The shape of rows. view() and the like read the sizes themselves."""

    def of(self, dim, count):
        self.dim, self.count = dim, count
        return self

    def __getitem__(self, at):
        found = [self.count if dim == self.dim else size for dim, size in enumerate(super().__iter__())][at]
        return tuple(found) if isinstance(found, list) else found

    def __iter__(self):
        return iter(self[:])


def is_mask(index):
    return torch.is_tensor(index) and index.dtype == torch.bool and index.dim() > 0


def listed(index):
    return list(index) if isinstance(index, tuple) else [index]


def chooses(name, arguments):
    """Whether a function chooses rows by a mask."""
    if name in ("__getitem__", "__setitem__"):
        value = arguments[2] if name == "__setitem__" else None
        return any(map(is_mask, listed(arguments[1]))) and (name == "__getitem__" or (torch.is_tensor(value) and value.dim() > 0))
    return name in CHOOSING or (name == "where" and len(arguments) == 1)


def tensors_in(values):
    for value in values:
        if torch.is_tensor(value):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_in(value)


class Rewriting(TorchFunctionMode):
    """Writes what chooses rows by a mask, and operators that the exporter lacks, in other operations."""

    def __init__(self):
        super().__init__()
        self.rows = {}  # by the tensor's id; a tensor stays alive in its entry

    def of(self, value):
        found = self.rows.get(id(value)) if torch.is_tensor(value) else None
        return found if found and found.value is value else None

    def mark(self, value, chosen, dim, first=None):
        self.rows[id(value)] = Rows(value, chosen, dim, first)
        return value

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords, name = keywords or {}, getattr(function, "__name__", "")
        plain = name.strip("_") if name not in SHAPES else name
        inputs = [one for value in tensors_in([*arguments, *keywords.values()]) if (one := self.of(value))]
        if not inputs and (found := written(name, arguments, keywords)) is not None:
            return found
        if name in SHAPES and inputs:
            return self.shape_of(inputs[0], name, function(*arguments, **keywords), arguments)
        if not (inputs or chooses(name, arguments)):
            return function(*arguments, **keywords)
        own = getattr(self, f"do_{plain}", None)
        if own is None and plain in LOSSES:
            own = self.do_loss
        elif own is None and plain in LABELED:
            own = self.do_labeled
        elif own is None and plain == "argwhere":
            own = self.do_nonzero
        if own:
            return own(function, *arguments, **keywords)
        return self.carry(function, plain, inputs, arguments, keywords)

    def shape_of(self, one, name, found, arguments):
        """What is known about a shape: all but the number of rows."""
        count = Count(self.refuse)
        if name in ("numel", "__len__") and (name == "numel" or one.dim == 0):
            return count
        if name == "size" and len(arguments) > 1:
            return count if arguments[1] % one.value.dim() == one.dim else found
        return Sizes(found).of(one.dim, count) if isinstance(found, torch.Size) else found

    def refuse(self, name):
        place = place_among(traceback.extract_stack())
        raise Failure(DATA, f"rows that a mask chooses go through '{name}', which may depend on how many there are{f', {place}' if place else ''}: compute it for all rows, and choose with torch.where()")

    def chosen_of(self, inputs):
        chosen = inputs[0].chosen
        for one in inputs[1:]:
            chosen = chosen if one.chosen is chosen else chosen & one.chosen
        return chosen

    def carry(self, function, name, inputs, arguments, keywords):
        """A function of each row."""
        one, chosen = inputs[0], self.chosen_of(inputs)
        name = name[1:] if name not in EACH and name[:1] in ("r", "i") and name[1:] in EACH else name
        if name not in EACH | ALONG | SHAPED or (name == "matmul" and (self.of(arguments[0]) is None or self.of(arguments[1]))):
            self.refuse(name)
        if name in ALONG and one.dim in self.dims_of(name, one.value, arguments, keywords):
            self.refuse(name)
        found = function(*arguments, **keywords)
        for part in found if isinstance(found, (tuple, list)) else [found]:
            if torch.is_tensor(part):
                self.mark(part, chosen, self.dim_after(name, one, inputs, part, arguments, keywords))
        return found

    def dims_of(self, name, value, arguments, keywords):
        """The dimensions along which a function computes."""
        at = 2 if name in ("chunk", "split", "norm", "topk", "vector_norm") else 1
        dims = keywords.get("dim", arguments[at] if len(arguments) > at else {"chunk": 0, "split": 0, "unbind": 0, "topk": -1}.get(name))
        if dims is None:
            return range(value.dim())
        return [dim % value.dim() for dim in (dims if isinstance(dims, (tuple, list)) else [dims])]

    def dim_after(self, name, one, inputs, found, arguments, keywords):
        """The dimension of the rows in the result."""
        if name in SHAPED:
            before, size = math.prod(one.value.shape[:one.dim]), one.value.shape[one.dim]
            at = next((at for at in range(found.dim()) if found.shape[at] == size and math.prod(found.shape[:at]) == before), None)
            return self.refuse(name) if at is None else at
        if name in ALONG:
            less = one.value.dim() != found.dim()
            return one.dim - sum(dim < one.dim for dim in self.dims_of(name, one.value, arguments, keywords)) * less
        if name in ("linear", "matmul", "embedding"):
            return one.dim
        places = {one.dim + found.dim() - one.value.dim() for one in inputs}
        return places.pop() if len(places) == 1 else self.refuse(name)

    def do_nonzero(self, function, mask, as_tuple=False):
        sizes = list(mask.shape)
        places = [torch.arange(size, device=mask.device).view([-1] + [1] * (len(sizes) - 1 - at)).expand(sizes).reshape(-1) for at, size in enumerate(sizes)]
        chosen = (mask if mask.dtype == torch.bool else mask != 0).reshape(-1)
        if as_tuple:
            return tuple(self.mark(one, chosen, 0) for one in places)
        known = all(type(size) is int for size in sizes) and math.prod(sizes) <= MOST
        first = [list(place) for place in itertools.product(*map(range, sizes))] if known else None
        return self.mark(torch.stack(places, -1), chosen, 0, first)

    def do_where(self, function, mask, *others):
        if not others:
            return self.do_nonzero(function, mask, True)
        inputs = [one for value in (mask, *others) if (one := self.of(value))]
        return self.carry(function, "where", inputs, (mask, *others), {})

    def do_unbind(self, function, value, dim=0):
        one = self.of(value)
        if dim % value.dim() == one.dim:
            if one.first is None:
                self.refuse("for")
            return tuple(torch.tensor(place) for place in one.first)  # a loop runs for all of them
        return self.carry(function, "unbind", [one], (value, dim), {})

    def do_getitem(self, function, value, index):
        items, own = listed(index), self.of(value)
        tensors = [one for one in items if torch.is_tensor(one)]
        if any(map(is_mask, items)):
            mask = items[0]
            if not is_mask(mask) or len(tensors) > 1:
                self.refuse("[]")
            if own:
                return self.mark(value.clone(), own.chosen & mask, 0) if own.dim == 0 and mask.dim() == 1 and len(items) == 1 else self.refuse("[]")
            flat = value.flatten(0, mask.dim() - 1) if mask.dim() > 1 else value.clone()
            return self.mark(flat[(slice(None), *items[1:])] if items[1:] else flat, mask.reshape(-1), 0)
        inputs = [one for item in items if (one := self.of(item))]
        found = function(value, index)
        if inputs:
            at = next(at for at, item in enumerate(items) if torch.is_tensor(item))
            if any(item is Ellipsis for item in items[:at]):
                self.refuse("[]")
            return self.mark(found, self.chosen_of(inputs), sum(not isinstance(item, int) for item in items[:at]))
        if tensors or Ellipsis in items[:-1]:
            self.refuse("[]")
        seen = new = 0
        for item in items:
            if item is None:
                new += 1
            elif item is Ellipsis or seen == own.dim:
                break
            else:
                new, seen = new + (not isinstance(item, int)), seen + 1
        if seen == own.dim and items and item is not None and item is not Ellipsis and item != slice(None):
            self.refuse("[]")
        return self.mark(found, own.chosen, new + own.dim - seen)

    def do_setitem(self, function, value, index, new):
        items = listed(index)
        if any(map(is_mask, items)):
            mask = items[0]
            if len(items) > 1 or not is_mask(mask) or self.of(value):
                self.refuse("[] =")
            shape = list(mask.shape) + [1] * (value.dim() - mask.dim())
            new = new.reshape(value.shape) if self.of(new) else new
            value.copy_(torch.where(mask.reshape(shape), new.to(value.dtype), value))
            return
        self.put(value, items, new)

    def put(self, value, items, new):
        """Writes chosen rows: adds what they change."""
        inputs = [one for item in items if (one := self.of(item))]
        if not inputs or not all(map(torch.is_tensor, items)):
            self.refuse("[] =")
        old = value[tuple(items)]
        chosen = self.chosen_of(inputs).reshape([-1] + [1] * (old.dim() - 1))
        value.index_put_(tuple(items), torch.where(chosen, new - old, torch.zeros_like(old)), accumulate=True)

    def do_index_add(self, function, value, dim, index, source, *, alpha=1):
        inputs = [one for one in (self.of(index), self.of(source)) if one]
        chosen = self.chosen_of(inputs).reshape([-1] + [1] * (source.dim() - 1 - dim % value.dim()))
        return function(value, dim, index, torch.where(chosen, source, torch.zeros_like(source)), alpha=alpha)

    def do_masked_select(self, function, value, mask):
        value, mask = torch.broadcast_tensors(value, mask)
        return self.mark(value.flatten(), mask.flatten(), 0)

    def do_sum(self, function, value, dim=None, keepdim=False, **more):
        one = self.of(value)
        dims = self.dims_of("sum", value, (value, dim), {})
        if one.dim not in dims:
            return self.carry(function, "sum", [one], (value, dim, keepdim), more)
        value = torch.where(one.mask(), value, torch.zeros_like(value))
        return value.sum(list(dims), keepdim, **more)

    def do_mean(self, function, value, dim=None, keepdim=False, **more):
        one = self.of(value)
        dims = self.dims_of("mean", value, (value, dim), {})
        if one.dim not in dims:
            return self.carry(function, "mean", [one], (value, dim, keepdim), more)
        count = one.chosen.sum() * math.prod(value.shape[at] for at in dims if at != one.dim)
        return self.do_sum(torch.Tensor.sum, value, dim, keepdim) / count

    def do_loss(self, function, input, target, *more, reduction="mean", **words):
        if more:
            self.refuse(function.__name__)
        inputs = [one for one in (self.of(input), self.of(target)) if one]
        each = self.mark(function(input, target, reduction="none", **words), self.chosen_of(inputs), inputs[0].dim)
        return each if reduction == "none" else getattr(self, f"do_{reduction}")(None, each)

    def do_labeled(self, function, input, target, *more, ignore_index=-100, **words):
        one = self.of(input) or self.of(target)
        if more or one.dim != 0 or target.is_floating_point():
            self.refuse(function.__name__)
        inputs = [one for one in (self.of(input), self.of(target)) if one]
        return function(input, torch.where(self.chosen_of(inputs), target, ignore_index), ignore_index=ignore_index, **words)


class Watching(TorchFunctionMode):
    """Finds what a module calls that `Rewriting` writes otherwise. `found`: names of functions, in their order."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        name = getattr(function, "__name__", "")
        if chooses(name, arguments) or writer(name, arguments):
            self.found[{"__getitem__": "[mask]", "__setitem__": "[mask] ="}.get(name, name)] = True
        return function(*arguments, **(keywords or {}))
