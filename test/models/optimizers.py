#!/usr/bin/env python3
"""Records PyTorch runs of the fixture gpt2 with further optimizers, from torch.optim or written here from their papers. Needs torch,
transformers, onnx and safetensors from PyPI; the files are in the repository.

usage: optimizers.py [NAME[:FLAG=VALUE,..]...]

Writes gpt2/trajectory-optimizer-NAME.json. ctest follows every such file: "optimizer" holds the value of --optimizer and the flags
of the program. A name without a class here is a class of torch.optim, in lower case, whose arguments are the flags:
optimizers.py rprop:lr=0.01
"""
import json
import re
import sys

import torch
from safetensors.torch import load_file

import gradients

CLIP = 1.0


class Lion(torch.optim.Optimizer):
    """Chen and others, "Symbolic Discovery of Optimization Algorithms", arXiv 2302.06675, program 1.

    The learning rate is small, as the authors advise: where an update is almost 0 rounding decides its sign, and the parameter
    moves by twice the rate."""

    flags = {"lr": 2e-4, "beta1": 0.9, "beta2": 0.98, "weight_decay": 0.1}

    def __init__(self, parameters):
        super().__init__(parameters, self.flags)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(torch.lerp(p.grad, momentum, group["beta1"]))
                p -= group["lr"] * (update + group["weight_decay"] * p)
                momentum.lerp_(p.grad, 1 - group["beta2"])


class Adafactor(torch.optim.Adafactor):
    """PyTorch's Adafactor, with Shale's names for eps and d."""

    flags = {"lr": 1e-2, "beta2_decay": -0.7, "eps1": torch.finfo(torch.float32).eps, "eps2": 1e-3, "clip_threshold": 1.1, "weight_decay": 0.1}

    def __init__(self, parameters):
        flags = dict(self.flags)
        super().__init__(parameters, eps=(flags.pop("eps1"), flags.pop("eps2")), d=flags.pop("clip_threshold"), **flags)


class Adam(torch.optim.Optimizer):
    """Kingma and Ba, "Adam", arXiv 1412.6980, with the order of operations that section 2 ends with: epsilon is added to the root of the
    moment as it is, and the rate is corrected. Both forms of weight decay: in the gradient, and after the update as Transformers' AdamW."""

    flags = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.01, "decoupled_decay": 0.1, "shrink": 1e-4}

    def __init__(self, parameters):
        super().__init__(parameters, self.flags)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
                g = p.grad + group["weight_decay"] * p
                m.lerp_(g, 1 - group["beta1"])
                v.lerp_(g * g, 1 - group["beta2"])
                rate = group["lr"] * (1 - group["beta2"] ** t) ** 0.5 / (1 - group["beta1"] ** t)
                p.addcdiv_(m, v.sqrt() + group["eps"], value=-rate)
                p -= (group["lr"] * group["decoupled_decay"] + group["shrink"]) * p


class Adagrad(torch.optim.Adagrad):
    """PyTorch's Adagrad."""

    flags = {"lr": 1e-2, "lr_decay": 0.1, "eps": 1e-6, "weight_decay": 0.01}

    def __init__(self, parameters):
        super().__init__(parameters, **self.flags)


class Momentum(torch.optim.SGD):
    """PyTorch's SGD with dampening."""

    flags = {"lr": 2e-2, "momentum": 0.9, "gradient_weight": 0.75, "weight_decay": 0.01}

    def __init__(self, parameters):
        super().__init__(parameters, lr=2e-2, momentum=0.9, dampening=0.25, weight_decay=0.01)


class Adamw(torch.optim.AdamW):
    """PyTorch's AdamW."""

    flags = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}

    def __init__(self, parameters):
        flags = dict(self.flags)
        super().__init__(parameters, betas=(flags.pop("beta1"), flags.pop("beta2")), **flags)


class Lamb(torch.optim.Optimizer):
    """You and others, "Large Batch Optimization for Deep Learning", arXiv 1904.00962, algorithm 2, with phi(z) = z. As in NVIDIA's
    FusedLAMB with use_nvlamb, parameters and updates of norm 0 have the ratio 1."""

    flags = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1}

    def __init__(self, parameters):
        super().__init__(parameters, self.flags)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["beta1"], group["beta2"]
            for x in group["params"]:
                state = self.state[x]
                t = state["t"] = state.get("t", 0) + 1
                m, v = state.setdefault("m", torch.zeros_like(x)), state.setdefault("v", torch.zeros_like(x))
                m.mul_(beta1).add_(x.grad, alpha=1 - beta1)
                v.mul_(beta2).add_(x.grad.square(), alpha=1 - beta2)
                r = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
                update = r + group["weight_decay"] * x
                ratio = torch.where((x.norm() > 0) & (update.norm() > 0), x.norm() / update.norm(), 1.0)
                x -= group["lr"] * ratio * update


class Blocks:
    """A moment in blocks of 256 elements: a scale per block, and the number of the nearest of a table of small floats, with three bits
    of significand. The first moment has signs and 7 bits, the second one, which is not rounded to 0, 8 bits."""

    def __init__(self, like, signed):
        self.like, self.signed, self.top = like, signed, 127 if signed else 255
        numbers = torch.arange(1, self.top + 1) - self.top
        self.table = torch.cat([torch.zeros(1), 2.0 ** torch.floor(numbers / 8) * (1 + torch.remainder(numbers, 8) / 8)])
        # Half a step below the first value, values become 0.
        self.bounds = torch.cat([self.table[1:2] - 2.0 ** torch.floor(torch.log2(self.table[1:2])) / 16, (self.table[1:-1] + self.table[2:]) / 2])
        self.store(torch.zeros_like(like))

    def store(self, value):
        flat = torch.nn.functional.pad(value.flatten(), (0, -value.numel() % 256)).view(-1, 256)
        self.scale = flat.abs().amax(1, keepdim=True)
        codes = torch.bucketize(flat.abs() / torch.where(self.scale > 0, self.scale, 1.0), self.bounds, right=True)
        if not self.signed:
            codes = torch.where(flat > 0, codes.clamp(min=1), codes)
        self.codes = torch.where(flat < 0, -codes, codes).to(torch.int16)

    def load(self):
        values = torch.sign(self.codes) * self.table[self.codes.abs().long()] * self.scale
        return values.flatten()[:self.like.numel()].view_as(self.like)


class Adamw8bit(torch.optim.Optimizer):
    """Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, with moments that are stored in blocks (Dettmers and others, arXiv 2110.02861).

    Rounding decides between two codes where a moment is half way between them, and the moment then moves by a sixteenth. Epsilon is above
    the gradients that are rounding alone, and the learning rate is small: such differences grow with it."""

    flags = {"lr": 2e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1}

    def __init__(self, parameters):
        super().__init__(parameters, self.flags)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["beta1"], group["beta2"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=Blocks(p, True), v=Blocks(p, False))
                t = state["t"] = state["t"] + 1
                m, v = state["m"].load(), state["v"].load()
                m.lerp_(p.grad, 1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.addcdiv_(m / (1 - beta1**t), (v / (1 - beta2**t)).sqrt() + group["eps"], value=-group["lr"])
                state["m"].store(m)
                state["v"].store(v)


class Muon(torch.optim.Optimizer):
    """Jordan and others, "Muon: An optimizer for hidden layers in neural networks", https://kellerjordan.github.io/posts/muon, with the
    momentum, the factors on the rate and the defaults of torch.optim.Muon. AdamW updates what is no matrix of a hidden layer.

    torch.optim.Muon computes the iteration in bf16. Here it is in f32, as the rest of these runs is, and each step is written as the
    page has it."""

    flags = {"lr": 2e-2, "weight_decay": 0.1, "adamw_lr": 3e-3, "adamw_weight_decay": 0.01, "beta2": 0.95}
    named = True  # wants the names of the parameters
    rest = "wte|wpe"  # matrices that AdamW updates
    factors = staticmethod(lambda name: 1)  # on the learning rate, by name
    decays = staticmethod(lambda name: 1)  # on the weight decay

    def __init__(self, parameters):
        parameters = dict(parameters)
        self.hidden = [(name, p) for name, p in parameters.items() if p.ndim == 2 and not re.search(self.rest, name)]
        hidden = {name for name, _ in self.hidden}
        flags = {"momentum": 0.95, "nesterov": 1, "match_rms_adamw": 0, **self.flags}
        rest = [{"params": [p], "lr": flags["adamw_lr"] * self.factors(name), "weight_decay": flags["adamw_weight_decay"] * self.decays(name)}
                for name, p in parameters.items() if name not in hidden]
        self.adamw = torch.optim.AdamW(rest, betas=(0.9, flags["beta2"]))
        super().__init__([p for _, p in self.hidden], flags)

    @staticmethod
    def orthogonalized(x):
        x = x / x.square().sum().sqrt().clamp(min=1e-7)
        wide = x if x.shape[0] <= x.shape[1] else x.T
        for _ in range(5):
            gram = wide @ wide.T
            wide = 3.4445 * wide + (-4.7750 * gram + 2.0315 * gram @ gram) @ wide
        return wide if x.shape[0] <= x.shape[1] else wide.T

    @torch.no_grad()
    def step(self):
        self.adamw.step()
        group = self.param_groups[0]
        for name, p in self.hidden:
            rows, columns = p.shape
            momentum = self.state[p].setdefault("m", torch.zeros_like(p)).lerp_(p.grad, 1 - group["momentum"])
            update = self.orthogonalized(p.grad.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum)
            factor = 0.2 * max(rows, columns) ** 0.5 if group["match_rms_adamw"] else max(1, rows / columns) ** 0.5
            lr = group["lr"] * self.factors(name)
            p.mul_(1 - lr * group["weight_decay"] * self.decays(name))
            p -= lr * factor * update


KNOWN = {"adafactor": Adafactor, "adagrad": Adagrad, "adam": Adam, "adamw8bit": Adamw8bit, "lamb": Lamb, "lion": Lion, "momentum": Momentum, "muon": Muon}
# Runs whose parameters are in groups with learning rates of their own, which SCALES gives as factors by regular expression.
SCALED = {"adamw-scaled": Adamw, "adafactor-scaled": Adafactor, "lion-scaled": Lion, "lamb-scaled": Lamb}
SCALES = {"wte|ln_": 0.25, "mlp": 2, "attn": 0.5}


def factor_of(name):
    return next((factor for regex, factor in SCALES.items() if re.search(regex, name)), 1)


class MuonMatched(Muon):
    """Muon with rates of AdamW's size, without Nesterov's momentum."""

    flags = {"lr": 2e-3, "momentum": 0.9, "nesterov": 0, "match_rms_adamw": 1, "weight_decay": 0.1, "adamw_lr": 3e-3, "beta2": 0.95,
             "adamw_weight_decay": 0.1}
    factors = staticmethod(factor_of)


SCALED["muon-scaled"] = MuonMatched

# Parameters without weight decay: of each optimizer some.
NO_DECAY = "attn|wpe|bias"


class MuonSomeDecay(Muon):
    """Muon with a large decay, which some matrices and some parameters of AdamW do not have."""

    flags = {"lr": 2e-2, "weight_decay": 1, "adamw_lr": 3e-3, "adamw_weight_decay": 2, "beta2": 0.95}
    decays = staticmethod(lambda name: 0 if re.search(NO_DECAY, name) else 1)


DECAYED = {"muon-no-decay": MuonSomeDecay}


def grouped(model, lr):
    """The parameters of a model in groups by learning rate."""
    groups = {}
    for name, parameter in model.named_parameters():
        groups.setdefault(factor_of(name), []).append(parameter)
    return [{"params": parameters, "lr": lr * factor} for factor, parameters in groups.items()]


def named(name, flags):
    """A class of this file, or one of torch.optim with these flags."""
    if name in KNOWN or name in SCALED or name in DECAYED:
        return {**KNOWN, **SCALED, **DECAYED}[name]
    found = [value for key, value in vars(torch.optim).items() if key.lower() == name and isinstance(value, type)]
    if not found or not flags:
        sys.exit(f"optimizers.py: '{name}' is not one of {', '.join(KNOWN)}; for a class of torch.optim, give its flags: {name}:lr=0.01")

    class Given(found[0]):
        def __init__(self, parameters):
            super().__init__(parameters, **flags)
            self.flags = flags

    return Given


def record(word):
    name, _, flags = word.partition(":")
    kind = named(name, {key: float(value) for key, _, value in (flag.partition("=") for flag in flags.split(",") if flag)})
    folder = gradients.HERE / "gpt2"
    weights, batches = gradients.weights_of(folder / "model.onnx"), load_file(folder / "batches.safetensors")
    model = gradients.build("gpt2", weights).eval()
    with torch.no_grad():
        for one, value in model.named_parameters():
            value.copy_(weights[one])
    if getattr(kind, "named", False):
        parameters = model.named_parameters()
    else:
        parameters = grouped(model, kind.flags["lr"]) if name in SCALED else model.parameters()
    optimizer, steps = kind(parameters), []
    for step in range(len(batches["input_ids"])):
        model.zero_grad()
        loss = model(input_ids=batches["input_ids"][step], labels=batches["labels"][step], use_cache=False).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        steps.append({"step": step, "loss": loss.item(), "grad_norm": norm.item()})
    said = {"torch": torch.__version__, "optimizer": {"name": re.sub("-.*", "", name), "flags": optimizer.flags}, "clip_grad_norm": CLIP,
            **({"lr_scale": ",".join(f"{regex}={factor}" for regex, factor in SCALES.items())} if name in SCALED else {}),
            **({"no_decay": NO_DECAY} if name in DECAYED else {}), "batches": "batches.safetensors", "steps": steps}
    (folder / f"trajectory-optimizer-{name}.json").write_text(json.dumps(said, indent=1) + "\n")
    print(name, steps[0]["loss"], "->", steps[-1]["loss"])


if __name__ == "__main__":
    for name in sys.argv[1:] or [*KNOWN, *SCALED, *DECAYED]:
        record(name)
