"""Modules whose gradients a forward graph does not show: PyTorch's autograd alone computes them. Each is a class whose forward takes tokens and
targets and returns the loss.
"""
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, VOCABULARY = 32, 80


class Base(nn.Module):
    """Two layers with `middle` between them."""

    def __init__(self):
        super().__init__()
        self.embedding, self.first, self.second = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def middle(self, x):
        return torch.tanh(x)

    def layers(self, x):
        return x + self.second(self.middle(self.first(x)))

    def forward(self, tokens, targets):
        hidden = self.norm(self.layers(self.embedding(tokens)))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())


class Halved(torch.autograd.Function):
    """Saves nothing."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return 0.5 * gradient


class Scaled(torch.autograd.Function):
    """Keeps a number in its context; gets a number, which has no gradient."""

    @staticmethod
    def forward(context, x, scale):
        context.scale = scale
        return x * 1.0

    @staticmethod
    def backward(context, gradient):
        return gradient * context.scale, None


class Squashed(torch.autograd.Function):
    """Saves its output."""

    @staticmethod
    def forward(context, x):
        y = torch.tanh(x)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context, gradient):
        y, = context.saved_tensors
        return gradient * (1 - y * y) + 0.1 * y


class Late(torch.autograd.Function):
    """Has setup_context."""

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        return gradient * torch.cos(x).clamp(-0.5, 0.5)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return F.relu(x)

    @staticmethod
    @once_differentiable
    def backward(context, gradient):
        return gradient.clamp(-1e-3, 1e-3)


class Paired(torch.autograd.Function):
    """Has two outputs."""

    @staticmethod
    def forward(context, x):
        return x * 2, x * x

    @staticmethod
    def backward(context, first, second):
        return first + 0.3 * second


class Marked(torch.autograd.Function):
    """Has an output without a gradient."""

    @staticmethod
    def forward(context, x):
        signs = (x > 0).to(x.dtype)
        context.mark_non_differentiable(signs)
        return x + 0.0, signs

    @staticmethod
    def backward(context, gradient, _):
        return 2 * gradient


class Changed(torch.autograd.Function):
    """Changes its input in place."""

    @staticmethod
    def forward(context, x):
        context.mark_dirty(x)
        return x.mul_(0.5)

    @staticmethod
    def backward(context, gradient):
        return gradient * 0.25


class Outer(torch.autograd.Function):
    """Differentiates another computation in its backward."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return Halved.apply(x)

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = torch.sigmoid(x)
            inner, = torch.autograd.grad(y, x, gradient)
        return inner


def of_function(name, middle):
    return type(name, (Base,), {"middle": lambda self, x: middle(x), "__doc__": f"Has {name}'s backward."})


squash = Squashed.apply
FunctionPlain = of_function("FunctionPlain", Halved.apply)
FunctionNumber = of_function("FunctionNumber", lambda x: Scaled.apply(x, 0.3))
FunctionSaved = of_function("FunctionSaved", lambda x: squash(x))
FunctionLate = of_function("FunctionLate", Late.apply)
FunctionOnce = of_function("FunctionOnce", Once.apply)
FunctionPaired = of_function("FunctionPaired", lambda x: sum(Paired.apply(x)))
FunctionMarked = of_function("FunctionMarked", lambda x: torch.mul(*Marked.apply(x)))
FunctionChanged = of_function("FunctionChanged", lambda x: Changed.apply(x.clone()))
FunctionOuter = of_function("FunctionOuter", Outer.apply)
StraightThrough = of_function("StraightThrough", lambda x: x + (torch.round(x * 4) / 4 - x).detach())
DetachedPart = of_function("DetachedPart", lambda x: torch.tanh(x) * torch.sigmoid(x).detach())


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


class ReversedGradient(Base):
    """Domain-adversarial: a second head whose gradient is reversed."""

    def __init__(self):
        super().__init__()
        self.domain = nn.Linear(WIDTH, 2)

    def forward(self, tokens, targets):
        hidden = self.norm(self.layers(self.embedding(tokens)))
        domain = self.domain(Reversal.apply(hidden).mean(1))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten()) + F.cross_entropy(domain, targets[:, 0] % 2)


class TensorHook(Base):
    def middle(self, x):
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient * 3)
        return torch.tanh(x)


class ForwardHook(Base):
    def __init__(self):
        super().__init__()
        self.first.register_forward_hook(lambda module, inputs, output: Halved.apply(output))


class BackwardHook(Base):
    def __init__(self):
        super().__init__()
        self.second.register_full_backward_hook(lambda module, incoming, outgoing: tuple(one * 0.5 for one in incoming))


class BackwardPreHook(Base):
    def __init__(self):
        super().__init__()
        self.second.register_full_backward_pre_hook(lambda module, outgoing: tuple(one * 0.25 for one in outgoing))


class ParameterHook(Base):
    """Masks the gradient of a parameter."""

    def __init__(self):
        super().__init__()
        self.first.weight.register_hook(lambda gradient: gradient * (torch.arange(WIDTH) % 2))


def shrink(parameter):
    parameter.grad.mul_(0.1)


class AccumulatedHook(Base):
    def __init__(self):
        super().__init__()
        self.first.weight.register_post_accumulate_grad_hook(shrink)


class NoGrad(Base):
    def layers(self, x):
        with torch.no_grad():
            fixed = self.first.weight.t() @ self.first.weight * 0.1
        return super().layers(x) + x @ fixed


class NoGradFunction(Base):
    @torch.no_grad()
    def gate(self, x):
        return torch.sigmoid(self.second(torch.tanh(self.first(x))))

    def layers(self, x):
        return super().layers(x) * self.gate(x)


class InferenceMode(Base):
    def layers(self, x):
        with torch.inference_mode():
            scale = self.first.weight.square().mean()
        return super().layers(x) * scale.clone()


class GradDisabled(Base):
    def layers(self, x):
        torch.set_grad_enabled(False)
        scale = self.second.weight.abs().mean() * 10
        torch.set_grad_enabled(True)
        return super().layers(x) * scale


class DetachedLine(Base):
    def layers(self, x):
        y = super().layers(x)
        scale = y.square().mean()
        scale = scale.detach()
        return y / (scale + 1)


class Checkpointed(Base):
    def layers(self, x):
        return checkpoint(super().layers, x, use_reentrant=False)


class CheckpointedReentrant(Base):
    def layers(self, x):
        return checkpoint(super().layers, x, use_reentrant=True)


class Autocast(Base):
    def layers(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = super().layers(x)
        return y.float()


class DoubleUse(Base):
    """A parameter with a gradient on one of its two ways."""

    def layers(self, x):
        return super().layers(x) + F.linear(x, self.first.weight.detach()[:WIDTH]) * 0.5


class FunctionalCall(Base):
    """Calls a layer with changed weights."""

    def layers(self, x):
        moved = {name: value * 0.5 + value.detach() * 0.5 for name, value in self.second.named_parameters()}
        return x + functional_call(self.second, moved, (torch.tanh(self.first(x)),))


class Teacher(Base):
    """Follows a teacher whose weights are buffers that an average moves."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", self.first.weight.detach().clone())

    def layers(self, x):
        if self.training:
            with torch.no_grad():
                self.average.mul_(0.9).add_(self.first.weight, alpha=0.1)
        return super().layers(x) + 0.1 * F.linear(x, self.average)[..., :WIDTH]


class Contrast(Base):
    """Tells the rows of a batch apart, whose number it takes by len()."""

    def layers(self, x):
        y = super().layers(Halved.apply(x))
        alike = y.mean(1) @ x.mean(1).T
        return y + F.cross_entropy(alike, torch.arange(len(alike)))


CLASSES = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Base) and one is not Base]
