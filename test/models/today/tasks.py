"""What people train today: a class per task. `forward` returns the loss. `batch(rng, size)` draws its inputs, by name."""
import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from parts import LINEAR, MLP, NORMS, ConvTrunk, Trunk, linear, norm

VOCABULARY, LENGTH = 40, 8


def tokens(rng, *shape):
    return (rng.geometric(0.1, shape) % VOCABULARY).astype(np.int64)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


class Language(nn.Module):
    """Next tokens; optionally tied, with several heads, soft-capped, or with experts and their balance."""

    def __init__(self, r, width):
        super().__init__()
        self.experts = r.random() < 0.3
        self.trunk = Trunk(r, VOCABULARY, width, True, LENGTH, self.experts)
        self.kind = r.choice(["plain", "tied", "multi", "softcap", "z_loss"])
        if self.kind == "multi":
            self.heads = nn.ModuleList(nn.Linear(width, VOCABULARY, bias=False) for _ in range(2))
            self.weight = 0.3
        elif self.kind != "tied":
            self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, idx, targets):
        x = self.trunk(idx)
        if self.kind == "multi":
            loss = F.cross_entropy(self.heads[0](x).flatten(0, 1), targets.flatten())
            second = self.heads[1](x[:, :-1]).flatten(0, 1)
            loss = loss + self.weight * F.cross_entropy(second, targets[:, 1:].flatten())
        else:
            logits = x @ self.trunk.embed.weight.T if self.kind == "tied" else self.head(x)
            if self.kind == "softcap":
                logits = 15 * torch.tanh(logits / 15)
            loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1), ignore_index=-100)
            if self.kind == "z_loss":
                loss = loss + 1e-3 * torch.logsumexp(logits, -1).pow(2).mean()
        return loss + 0.01 * self.trunk.balance() if self.experts else loss

    @staticmethod
    def batch(rng, size):
        text = tokens(rng, size, LENGTH + 1)
        return {"idx": text[:, :-1], "targets": text[:, 1:]}


class Classification(nn.Module):
    def __init__(self, r, width):
        super().__init__()
        self.trunk, self.head = Trunk(r, VOCABULARY, width, False, LENGTH), linear(r, width, 5)
        self.pool, self.loss = r.choice(["mean", "first", "attention"]), r.choice(["plain", "smoothing", "weights", "focal", "binary"])
        if self.pool == "attention":
            self.query = nn.Parameter(torch.randn(width) * 0.1)
        self.register_buffer("class_weights", torch.linspace(0.5, 1.5, 5))

    def forward(self, idx, label):
        x = self.trunk(idx)
        if self.pool == "attention":
            x = ((x @ self.query).softmax(1)[..., None] * x).sum(1)
        else:
            x = x.mean(1) if self.pool == "mean" else x[:, 0]
        logits = self.head(x)
        if self.loss == "smoothing":
            return F.cross_entropy(logits, label, label_smoothing=0.1)
        if self.loss == "weights":
            return F.cross_entropy(logits, label, weight=self.class_weights)
        if self.loss == "binary":
            return F.binary_cross_entropy_with_logits(logits, F.one_hot(label, 5).float())
        if self.loss == "focal":
            p = logits.softmax(-1).gather(1, label[:, None])
            return (-(1 - p).pow(2) * torch.log(p + 1e-9)).mean()
        return F.cross_entropy(logits, label)

    @staticmethod
    def batch(rng, size):
        return {"idx": tokens(rng, size, LENGTH), "label": rng.integers(0, 5, size)}


class Image(nn.Module):
    def __init__(self, r, width):
        super().__init__()
        self.trunk, self.head, self.task = ConvTrunk(r, width), linear(r, width, 4), r.choice(["classes", "values", "gaussian", "huber"])
        self.log_scale = nn.Parameter(torch.zeros(4)) if self.task == "gaussian" else None

    def forward(self, image, label, value):
        y = self.head(self.trunk(image))
        if self.task == "classes":
            return F.cross_entropy(y, label)
        if self.task == "gaussian":
            return ((y - value).square() * torch.exp(-2 * self.log_scale) / 2 + self.log_scale).sum(-1).mean()
        return F.smooth_l1_loss(y, value) if self.task == "huber" else F.mse_loss(y, value)

    @staticmethod
    def batch(rng, size):
        return {"image": normal(rng, size, 3, 8, 8), "label": rng.integers(0, 4, size), "value": normal(rng, size, 4)}


class Contrastive(nn.Module):
    """Pairs of texts and images, or two views by one tower."""

    def __init__(self, r, width):
        super().__init__()
        self.text, self.kind = Trunk(r, VOCABULARY, width, False, LENGTH), r.choice(["clip", "siglip", "siamese", "triplet", "cosine"])
        self.image = ConvTrunk(r, width) if self.kind in ("clip", "siglip") else None
        self.project = linear(r, width, 16)
        if self.image:
            self.logit_scale, self.logit_bias = nn.Parameter(torch.tensor(2.6593)), nn.Parameter(torch.tensor(-2.0))

    def encode(self, idx):
        return F.normalize(self.project(self.text(idx).mean(1)), dim=-1)

    def forward(self, idx, other, image):
        a = self.encode(idx)
        if self.kind in ("clip", "siglip"):
            b = F.normalize(self.image(image)[:, :16], dim=-1)
            if self.kind == "siglip":
                logits = a @ b.T * self.logit_scale.exp() + self.logit_bias
                sign = 2 * torch.eye(a.shape[0], device=a.device) - 1
                return -F.logsigmoid(sign * logits).sum(-1).mean()
            logits = self.logit_scale.clamp(max=4.6052).exp() * a @ b.T
            label = torch.arange(a.shape[0], device=a.device)
            return (F.cross_entropy(logits, label) + F.cross_entropy(logits.T, label)) / 2
        b = self.encode(other)
        if self.kind == "triplet":
            return F.triplet_margin_loss(a, b, b.flip(0), margin=0.5)
        if self.kind == "cosine":
            return (1 - F.cosine_similarity(a, b)).mean() + 0.1 * (a @ b.T).pow(2).mean()
        return F.cross_entropy(a @ b.T / 0.1, torch.arange(a.shape[0], device=a.device))

    @staticmethod
    def batch(rng, size):
        return {"idx": tokens(rng, size, LENGTH), "other": tokens(rng, size, LENGTH), "image": normal(rng, size, 3, 8, 8)}


class Preference(nn.Module):
    """Pairs of answers: a reward model, or DPO and its kin with a frozen reference."""

    def __init__(self, r, width):
        super().__init__()
        self.kind = r.choice(["reward", "dpo", "ipo", "orpo"])
        self.trunk = Trunk(r, VOCABULARY, width, True, LENGTH)
        self.head = nn.Linear(width, 1 if self.kind == "reward" else VOCABULARY, bias=False)
        if self.kind in ("dpo", "ipo"):
            self.reference, self.reference_head = copy.deepcopy(self.trunk), copy.deepcopy(self.head)
            self.reference.requires_grad_(False)
            self.reference_head.requires_grad_(False)
            for p in self.reference_head.parameters():
                p.mul_(0.9)
        self.guard = r.choice(["no_grad", "detach", "frozen"])

    def score(self, trunk, head, idx):
        logs = head(trunk(idx))[:, :-1].log_softmax(-1)
        return logs.gather(-1, idx[:, 1:, None]).squeeze(-1).sum(-1)

    def references(self, chosen, rejected):
        return tuple(self.score(self.reference, self.reference_head, idx) for idx in (chosen, rejected))

    def forward(self, chosen, rejected):
        if self.kind == "reward":
            a, b = self.head(self.trunk(chosen))[:, -1, 0], self.head(self.trunk(rejected))[:, -1, 0]
            return -F.logsigmoid(a - b).mean() + 0.01 * (a + b).square().mean()
        a, b = self.score(self.trunk, self.head, chosen), self.score(self.trunk, self.head, rejected)
        if self.kind == "orpo":
            a, b = a / (LENGTH - 1), b / (LENGTH - 1)
            odds = (a - b) - (torch.log1p(-torch.exp(a)) - torch.log1p(-torch.exp(b)))
            return (-a - 0.1 * F.logsigmoid(odds)).mean()
        if self.guard == "no_grad":
            with torch.no_grad():
                ref_a, ref_b = self.references(chosen, rejected)
        else:
            ref_a, ref_b = self.references(chosen, rejected)
            if self.guard == "detach":
                ref_a, ref_b = ref_a.detach(), ref_b.detach()
        margin = (a - ref_a) - (b - ref_b)
        return (margin - 5).square().mean() if self.kind == "ipo" else -F.logsigmoid(0.1 * margin).mean()

    @staticmethod
    def batch(rng, size):
        return {"chosen": tokens(rng, size, LENGTH), "rejected": tokens(rng, size, LENGTH)}


class Distillation(nn.Module):
    def __init__(self, r, width):
        super().__init__()
        self.student, self.teacher = (Trunk(r, VOCABULARY, width, True, LENGTH) for _ in range(2))
        self.head, self.teacher_head = linear(r, width, VOCABULARY), nn.Linear(width, VOCABULARY)
        self.teacher.requires_grad_(False)
        self.teacher_head.requires_grad_(False)
        self.temperature, self.guard = 2.0, r.choice(["no_grad", "detach", "frozen"])
        self.hidden = r.random() < 0.4

    def forward(self, idx, targets):
        x = self.student(idx)
        logits = self.head(x)
        if self.guard == "no_grad":
            with torch.no_grad():
                hidden = self.teacher(idx)
                wanted = self.teacher_head(hidden)
        else:
            hidden = self.teacher(idx)
            wanted = self.teacher_head(hidden)
            if self.guard == "detach":
                wanted = wanted.detach()
        t = self.temperature
        soft = F.kl_div(F.log_softmax(logits / t, -1), F.softmax(wanted / t, -1), reduction="batchmean") * t * t / LENGTH
        loss = 0.5 * soft + 0.5 * F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return loss + 0.1 * F.mse_loss(x, hidden.detach()) if self.hidden else loss

    batch = staticmethod(Language.batch)


class SelfSupervised(nn.Module):
    """Two views with a stop-gradient, masked reconstruction, or a quantized bottleneck."""

    def __init__(self, r, width):
        super().__init__()
        self.kind = r.choice(["simsiam", "masked", "vq", "denoise", "vae"])
        self.trunk = Trunk(r, VOCABULARY, width, False, LENGTH)
        self.project, self.predict = MLP(r, width), MLP(r, width)
        if self.kind == "vq":
            self.codebook = nn.Embedding(12, width)
        if self.kind == "masked":
            self.mask_token = nn.Parameter(torch.randn(width) * 0.1)
        self.decode = nn.Linear(width, VOCABULARY)

    def forward(self, idx, other, noise):
        x = self.trunk(idx)
        if self.kind == "simsiam":
            z1, z2 = self.project(x.mean(1)), self.project(self.trunk(other).mean(1))
            p1, p2 = self.predict(z1), self.predict(z2)
            loss = -(F.cosine_similarity(p1, z2.detach(), dim=-1).mean() + F.cosine_similarity(p2, z1.detach(), dim=-1).mean()) / 2
            return loss + 0 * self.decode(x).sum()
        if self.kind == "masked":
            hidden = (noise[..., :1] > 0.5)
            x = torch.where(hidden, self.mask_token, x)
        elif self.kind == "vq":
            distance = x.square().sum(-1, keepdim=True) - 2 * x @ self.codebook.weight.T + self.codebook.weight.square().sum(-1)
            q = self.codebook(distance.argmin(-1))
            loss = F.mse_loss(q, x.detach()) + 0.25 * F.mse_loss(x, q.detach())
            q = x + (q - x).detach()
            return loss + F.cross_entropy(self.decode(self.predict(q)).flatten(0, 1), idx.flatten())
        elif self.kind == "denoise":
            x = x + 0.1 * noise
        elif self.kind == "vae":
            mean, log_var = self.project(x), self.predict(x).clamp(-8, 8)
            z = mean + torch.exp(0.5 * log_var) * noise
            kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum(-1).mean()
            return F.cross_entropy(self.decode(z).flatten(0, 1), idx.flatten()) + 0.01 * kl
        return F.cross_entropy(self.decode(self.predict(self.project(x))).flatten(0, 1), idx.flatten())

    @classmethod
    def batch(cls, rng, size):
        return {"idx": tokens(rng, size, LENGTH), "other": tokens(rng, size, LENGTH), "noise": normal(rng, size, LENGTH, 32)}


class Translation(nn.Module):
    """An encoder and a decoder with cross-attention."""

    def __init__(self, r, width):
        super().__init__()
        self.encoder, self.decoder = Trunk(r, VOCABULARY, width, False, LENGTH), Trunk(r, VOCABULARY, width, True, LENGTH)
        self.cross, self.norm = nn.MultiheadAttention(width, 4, batch_first=True), norm(r, width)
        self.head, self.padding = linear(r, width, VOCABULARY), r.random() < 0.5

    def forward(self, source, target, labels):
        memory, x = self.encoder(source), self.decoder(target)
        mask = source == 0 if self.padding else None
        attended, _ = self.cross(x, memory, memory, key_padding_mask=mask, need_weights=False)
        return F.cross_entropy(self.head(self.norm(x + attended)).transpose(1, 2), labels, label_smoothing=0.1 if self.padding else 0.0)

    @staticmethod
    def batch(rng, size):
        text = tokens(rng, size, LENGTH + 1)
        source = tokens(rng, size, LENGTH)
        source[:, 0] = 1
        return {"source": source, "target": text[:, :-1], "labels": text[:, 1:]}


class Policy(nn.Module):
    """An actor and a critic: a clipped ratio, an advantage that is detached, and an entropy."""

    def __init__(self, r, width):
        super().__init__()
        self.trunk = Trunk(r, VOCABULARY, width, True, LENGTH)
        self.actor, self.critic, self.kind = linear(r, width, 6), linear(r, width, 1), r.choice(["ppo", "a2c", "awr"])

    def forward(self, idx, action, old, value):
        x = self.trunk(idx)[:, -1]
        logs = F.log_softmax(self.actor(x), -1)
        chosen, estimate = logs.gather(1, action[:, None]).squeeze(1), self.critic(x).squeeze(-1)
        advantage = value - estimate.detach()
        if self.kind == "ppo":
            ratio = torch.exp(chosen - old)
            actor = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        elif self.kind == "a2c":
            actor = -(chosen * advantage).mean()
        else:
            weight = torch.exp(advantage / 2).clamp(max=20.0)
            actor = -(weight * chosen).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return actor + 0.5 * F.mse_loss(estimate, value) - 0.01 * entropy

    @staticmethod
    def batch(rng, size):
        return {"idx": tokens(rng, size, LENGTH), "action": rng.integers(0, 6, size), "old": np.float32(-1.8) + 0.1 * normal(rng, size),
                "value": normal(rng, size)}


TASKS = [Language, Language, Classification, Image, Contrastive, Preference, Distillation, SelfSupervised, Translation, Policy]


def draw(r):
    """A module and what was drawn, by the random generator `r`."""
    task = r.choice(TASKS)
    width = 32 if task is SelfSupervised else r.choice([32, 64, 128])
    r.linear, r.norm, r.merged = r.choice(LINEAR), r.choice(["layer", *NORMS]), r.random() < 0.2
    with torch.no_grad():
        model = task(r, width)
    # A label that is an input, too, is usually a mistake of the export: shalec asks.
    rebuilds = task is SelfSupervised and model.kind in ("masked", "vq", "denoise", "vae")
    model.flags = ["--bind", "idx=tokens"] if rebuilds else []
    choices = {name: value for name in ("kind", "guard", "loss", "pool") if isinstance(value := getattr(model, name, None), str)}
    return model, {"task": task.__name__, "width": width, "linear": r.linear, "norm": r.norm, **choices}
