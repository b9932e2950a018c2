"""Modules, batches and wrappers as people have them. Each case is exported by shale.export with its first batch, and with nothing else.

A case is a class with `batch(g, step)`, which draws a batch with the generator `g`, and `call(model, batch)`, which calls the module as its user does and
returns the loss. `named(batch)` has the batch's tensors under the names of the file's inputs. `wrap(model)` is what the user exports.
"""
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

BATCH, LENGTH, WIDTH, VOCABULARY = 4, 16, 32, 64


def tokens_of(g, *shape, below=VOCABULARY):
    return torch.randint(0, below, shape or (BATCH, LENGTH), generator=g)


class Case(nn.Module):
    """A user's module with tokens and labels."""
    export = {}  # keywords of shale.export
    dims = ["--dim", f"batch={BATCH}"]  # of shalec
    refused = {}  # parts of messages, by mesh, where shalec rightly refuses one

    @staticmethod
    def batch(g, step):
        return {"tokens": tokens_of(g), "labels": tokens_of(g)}

    @staticmethod
    def named(batch):
        return batch

    @staticmethod
    def call(model, batch):
        return model(**batch)

    @staticmethod
    def given(batch):
        """What is passed as `batch`."""
        return batch

    @staticmethod
    def wrap(model):
        return model

    @staticmethod
    def saved(model):
        """The trained parameters under the names that the user saves."""
        return dict(model.named_parameters())

    @classmethod
    def make(cls):
        return cls()


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.out = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        q, k, v = (heads(one, 4) for one in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Language(Case):
    module_dropout = 0.0  # an attribute that adapters of peft have, too

    def __init__(self, layers=1):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def hidden(self, tokens, mask=None):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)

    def loss(self, x, labels):
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())

    def forward(self, tokens, labels):
        return self.loss(self.hidden(tokens), labels)


# Inputs and results

class Dictionary(Language):
    """forward(batch), of a dictionary with a dictionary in it; returns a dictionary."""

    @staticmethod
    def batch(g, step):
        return {"text": {"tokens": tokens_of(g), "weight": torch.rand(BATCH, LENGTH, generator=g)}, "labels": tokens_of(g), "split": "train", "extra": None}

    @staticmethod
    def named(batch):
        return {"text_tokens": batch["text"]["tokens"], "text_weight": batch["text"]["weight"], "labels": batch["labels"]}

    @staticmethod
    def call(model, batch):
        return model(batch)["loss"]

    def forward(self, batch):
        logits = self.head(self.hidden(batch["text"]["tokens"]))
        each = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none")
        return {"loss": (each * batch["text"]["weight"].flatten()).mean(), "logs": {"most": each.max()}, "logits": logits}


@dataclasses.dataclass
class Sample:
    tokens: torch.Tensor
    labels: torch.Tensor
    scale: float = 0.5


@dataclasses.dataclass
class Result:
    loss: torch.Tensor
    logits: torch.Tensor


class Dataclass(Language):
    """forward takes a dataclass and returns one."""

    @staticmethod
    def batch(g, step):
        return Sample(tokens_of(g), tokens_of(g))

    @staticmethod
    def named(batch):
        return {"tokens": batch.tokens, "labels": batch.labels}

    @staticmethod
    def call(model, batch):
        return model(batch).loss

    def forward(self, sample):
        x = self.hidden(sample.tokens)
        return Result(self.loss(x, sample.labels) * sample.scale, self.head(x))


class Positional(Language):
    """Arguments by position, some of them None and numbers; returns (loss, logs)."""

    @staticmethod
    def batch(g, step):
        return tokens_of(g), None, 0.3, tokens_of(g)

    @staticmethod
    def named(batch):
        return {"tokens": batch[0], "labels": batch[3]}

    @staticmethod
    def call(model, batch):
        return model(*batch)[0]

    def forward(self, tokens, mask, smoothing, labels):
        logits = self.head(self.hidden(tokens, mask))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
        return loss, {"logits": logits, "penalty": logits.square().mean()}


class Loaded(Case):
    """A DataLoader of images and classes."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 10))

    @staticmethod
    def batch(g, step):
        return [torch.randn(BATCH, 3, 8, 8, generator=g), torch.randint(0, 10, (BATCH,), generator=g)]

    @staticmethod
    def named(batch):
        return {"images": batch[0], "classes": batch[1]}

    @staticmethod
    def given(batch):
        return DataLoader(TensorDataset(*batch), batch_size=BATCH)

    @staticmethod
    def call(model, batch):
        return model(*batch)

    def forward(self, images, classes):
        return F.cross_entropy(self.net(images), classes)


class Written(Language):
    """The length is a number in the module."""
    export = {"fixed": "auto"}

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(LENGTH * WIDTH) * 0.1)

    @staticmethod
    def given(batch):
        return None

    def forward(self, tokens, labels):
        x = self.embedding(tokens) + self.positions.view(1, 16, WIDTH)
        return self.loss(self.norm(self.blocks[0](x)), labels)


class WrittenBatch(Language):
    """The size of the batch is a number in the module."""
    export, dims = {"fixed": "auto"}, []

    def forward(self, tokens, labels):
        return self.loss(self.hidden(tokens).view(4, 16, WIDTH), labels)


def transformer(name, **settings):
    import transformers
    config = transformers.AutoConfig.for_model(name, **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
                                                        "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **settings})
    return transformers.AutoModelForCausalLM.from_config(config)


class Padded(Case):
    """A model of transformers with model(**batch), and padding on the right."""

    @staticmethod
    def batch(g, step):
        ids = tokens_of(g)
        mask = (torch.arange(LENGTH) < torch.randint(6, LENGTH + 1, (BATCH, 1), generator=g)).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}

    @staticmethod
    def call(model, batch):
        return model(**batch).loss

    @classmethod
    def make(cls):
        return transformer("llama", num_key_value_heads=2)


# Wrappers

class Compiled(Language):
    @staticmethod
    def wrap(model):
        model.blocks[0] = torch.compile(model.blocks[0])
        return torch.compile(model)


class CompiledInPlace(Language):
    @staticmethod
    def wrap(model):
        model.compile()
        return model


class Checkpointed(Language):
    @staticmethod
    def wrap(model):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        model.blocks[0] = checkpoint_wrapper(model.blocks[0])
        return model


def join_group():
    import torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Replicated(Language):
    @staticmethod
    def wrap(model):
        join_group()
        return nn.parallel.DistributedDataParallel(torch.compile(model))


class Accelerated(Language):
    @staticmethod
    def wrap(model):
        from accelerate import Accelerator
        return Accelerator(cpu=True).prepare(model)


class Adapted(Padded):
    """LoRA of peft."""

    @staticmethod
    def saved(model):
        from peft import get_peft_model_state_dict
        return get_peft_model_state_dict(model)

    @classmethod
    def make(cls):
        import peft
        return peft.get_peft_model(transformer("llama"), peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False))


class AdaptedGPT(Adapted):
    """LoRA of peft on GPT-2, whose layers are Conv1D, and whose head is trained whole."""

    @classmethod
    def make(cls):
        import peft
        model = transformer("gpt2", n_embd=WIDTH, n_layer=1, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["c_attn"], modules_to_save=["ln_f"], task_type="CAUSAL_LM"))


class Rotated(Adapted):
    """OFT of peft: rotations that are computed from entries written into zeros."""

    @classmethod
    def make(cls):
        import peft
        return peft.get_peft_model(transformer("llama"), peft.OFTConfig(oft_block_size=8, target_modules=["up_proj", "down_proj"], init_weights=False))


class Hadamard(Adapted):
    """LoHa of peft, which draws whether an adapter takes part, with a probability of 0, and has a backward of its own."""

    @classmethod
    def make(cls):
        import peft
        return peft.get_peft_model(transformer("llama"), peft.LoHaConfig(r=4, target_modules=["q_proj", "down_proj"], init_weights=False))


class Reflected(Adapted):
    """HRA of peft, which reads the .data of a frozen weight: torch.export takes it for a constant without elements."""

    @classmethod
    def make(cls):
        import peft
        return peft.get_peft_model(transformer("llama"), peft.HRAConfig(r=4, target_modules=["q_proj", "v_proj"]))


# Rows that a mask chooses, and operators that PyTorch's exporter lacks

class Chosen(Language):
    """Only masked positions reach the head, and only those with a label the second loss."""

    @staticmethod
    def batch(g, step):
        return {"tokens": tokens_of(g), "labels": tokens_of(g), "masked": torch.rand(BATCH, LENGTH, generator=g) < 0.4}

    def forward(self, tokens, labels, masked):
        x = self.hidden(tokens)
        rows, counts = x[masked], labels != 0
        regression = F.mse_loss(rows.mean(-1), labels[masked].float() / VOCABULARY)
        return F.cross_entropy(self.head(rows), labels[masked]) + regression + 0.1 * self.head(x)[counts].square().mean() + rows[:, 0].sum() * 0.01


class LoopedExperts(Language):
    """The loop over experts of Mixtral, with where() and index_add_()."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 4), nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 48), nn.SiLU(), nn.Linear(48, WIDTH)) for _ in range(4))

    def route(self, x):
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1), 2, dim=-1)
        return weights / weights.sum(-1, keepdim=True), chosen

    def experts_of(self, x):
        weights, chosen = self.route(x)
        out, mask = torch.zeros_like(x), F.one_hot(chosen, 4).permute(2, 1, 0)
        for at, expert in enumerate(self.experts):
            which, token = torch.where(mask[at])
            if token.shape[0] == 0:
                continue
            rows = expert(x[None, token].reshape(-1, WIDTH)) * weights[token, which, None]
            out.index_add_(0, token, rows.to(x.dtype))
        return out

    def forward(self, tokens, labels):
        x = self.hidden(tokens)
        return self.loss(x + self.experts_of(x.flatten(0, 1)).view_as(x), labels)


class HitExperts(LoopedExperts):
    """A loop over the experts that have tokens."""

    def experts_of(self, x):
        weights, chosen = self.route(x)
        out, mask = torch.zeros_like(x), F.one_hot(chosen, 4).permute(2, 1, 0)
        for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            which, token = torch.where(mask[expert[0]])
            out.index_add_(0, token, self.experts[expert[0]](x[token]) * weights[token, which, None])
        return out


class WrittenExperts(LoopedExperts):
    """Each token goes to one expert, whose result is written to its place."""

    def experts_of(self, x):
        best, chosen = F.softmax(self.gate(x), dim=1).max(-1)
        out, other = torch.zeros_like(x), torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            mine = chosen == at
            out[mine] = expert(x[mine]) * best[mine, None]
            token, = torch.where(mine)
            other[token] = torch.tanh(expert(x[token]))
        return out + other


class GroupedExperts(LoopedExperts):
    """Matmuls of grouped experts, of rows in the order of their experts."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(4, WIDTH, 48) * 0.1), nn.Parameter(torch.randn(4, 48, WIDTH) * 0.1)
        self.experts = None

    def experts_of(self, x):
        weights, chosen = self.route(x)
        order = chosen.flatten().argsort(stable=True)
        ends = torch.bincount(chosen.flatten(), minlength=4).cumsum(0).to(torch.int32)
        rows = torch._grouped_mm(F.silu(torch._grouped_mm(x[order // 2], self.up, offs=ends)), self.down, offs=ends)
        return torch.zeros_like(x).index_add(0, order // 2, rows * weights.flatten()[order, None])


class GatedExperts(LoopedExperts):
    """Experts as in transformers: gate and up in one matrix, biases, a histogram, and rows that are put back by the inverse of the order."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(4, 96, WIDTH) * 0.1), nn.Parameter(torch.randn(4, WIDTH, 48) * 0.1)
        self.up_bias, self.down_bias = nn.Parameter(torch.randn(4, 96) * 0.1), nn.Parameter(torch.randn(4, WIDTH) * 0.1)
        self.experts = None

    def experts_of(self, x):
        weights, chosen = self.route(x)
        order = chosen.flatten().argsort()
        experts = chosen.flatten()[order]
        ends = torch.histc(experts.float(), bins=4, min=0, max=3).cumsum(0, dtype=torch.int32)
        gate, up = (torch._grouped_mm(x[order // 2], self.up.transpose(1, 2), offs=ends) + self.up_bias[experts]).chunk(2, -1)
        rows = torch._grouped_mm(F.silu(gate) * up, self.down.transpose(1, 2), offs=ends) + self.down_bias[experts]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return (rows * weights.flatten()[order, None])[back].view(-1, 2, WIDTH).sum(1)


class Mixtral(Padded):
    @classmethod
    def make(cls):
        return transformer("mixtral", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True)


class MixtralEager(Padded):
    """The loop over experts of transformers."""

    @classmethod
    def make(cls):
        model = Mixtral.make()
        model.config._experts_implementation = "eager"
        return model


class Ranked(Language):
    """A stable sort, and positions that start again with each document of a row."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(LENGTH, WIDTH)

    @staticmethod
    def batch(g, step):
        return {"tokens": tokens_of(g), "documents": (torch.rand(BATCH, LENGTH, generator=g) < 0.2).long().cumsum(-1), "labels": tokens_of(g)}

    def forward(self, tokens, documents, labels):
        place = torch.arange(LENGTH)
        starts = torch.cat([torch.ones_like(documents[:, :1], dtype=torch.bool), documents[:, 1:] != documents[:, :-1]], 1)
        x = self.embedding(tokens) + self.positions(place - torch.where(starts, place, 0).cummax(-1).values)
        for block in self.blocks:
            x = block(x, (documents[:, None, :] == documents[:, :, None]).tril()[:, None])
        scores, order = torch.sort(self.head(x).mean(-1), dim=-1, descending=True, stable=True)
        return self.loss(self.norm(x), labels) + ((scores - labels.gather(1, order) / VOCABULARY).square() / (place + 1)).mean()


class Rotated(Language):
    """Rotary positions as complex numbers."""

    def __init__(self):
        super().__init__(0)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def rotated(self, x):
        angles = torch.outer(torch.arange(x.shape[1]).float(), 1e4 ** (-torch.arange(4) / 4))
        turned = torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)[None, :, None]
        return torch.view_as_real(turned).flatten(3).type_as(x).transpose(1, 2)

    def forward(self, tokens, labels):
        q, k, v = (one.unflatten(-1, (4, 8)) for one in self.qkv(self.embedding(tokens)).chunk(3, -1))
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v.transpose(1, 2), is_causal=True)
        return self.loss(self.norm(y.transpose(1, 2).flatten(2)), labels)


class Itemized(Language):
    """Divides by the value of the loss."""

    def forward(self, tokens, labels):
        loss = super().forward(tokens, labels)
        return loss / loss.item() + loss


class Penalized(Case):
    """A loss with a gradient in it."""
    refused = {"fsdp=2,tp=2": "would split nothing"}

    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(8, 16), nn.Softplus(), nn.Linear(16, 1))

    @staticmethod
    def batch(g, step):
        return {"real": torch.randn(BATCH, 8, generator=g), "made": torch.randn(BATCH, 8, generator=g)}

    def forward(self, real, made):
        x = ((real + made) / 2).requires_grad_(True)
        gradient, = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        return self.critic(made).mean() - self.critic(real).mean() + 10 * (gradient.norm(dim=1) - 1).square().mean()


# Computations that the default export folds or drops at the first values

class Vectors(Case):
    """A layer, something of its own, and a layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    @staticmethod
    def batch(g, step):
        return {"x": torch.randn(BATCH, 8, generator=g), "y": torch.randn(BATCH, 4, generator=g)}

    def forward(self, x, y):
        return F.mse_loss(self.last(self.middle(x, self.first(x))), y)


class OneTensor(Language):
    """The labels are the tokens, one tensor, as transformers takes them."""

    @staticmethod
    def batch(g, step):
        tokens = tokens_of(g)
        return {"tokens": tokens, "labels": tokens}

    def forward(self, tokens, labels):
        return self.loss(self.hidden(tokens)[:, :-1], labels[:, 1:])


class ClampedScale(Vectors):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((8,), 2.0))

    def middle(self, x, h):
        return h * torch.clamp(self.scale, max=4.6).exp()


class DetachedCopy(Vectors):
    def middle(self, x, h):
        target = h.detach().clone()
        return h * target.sigmoid()


class RootOfMasked(Vectors):
    """The root of a sum that is zero but for a small number."""

    @staticmethod
    def batch(g, step):
        return {**Vectors.batch(g, step), "mask": (torch.rand(BATCH, 1, generator=g) < 0.5).float()}

    def forward(self, x, y, mask):
        h = self.first(x) * mask
        return F.mse_loss(self.last(h + (h.pow(2).sum(dim=-1, keepdim=True) + 1e-12).sqrt()), y)


class Lambdas(Vectors):
    """Two numbers of one parameter, of which the first is one at first."""

    def __init__(self):
        super().__init__()
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.5]))

    def middle(self, x, h):
        return self.lambdas[0] * h + self.lambdas[1] * x


class SmallEpsilon(Language):
    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        x = x / (x.pow(2).mean(-1, keepdim=True) + 1e-8).sqrt()
        return self.loss(self.norm(self.blocks[0](x)), labels)


class EqualLayers(Language):
    """Layers with equal first values, one of them used twice."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.mix = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        for one in (self.a, self.b):
            nn.init.zeros_(one.weight)
            nn.init.zeros_(one.bias)

    def forward(self, tokens, labels):
        x = self.hidden(tokens)
        g = self.mix(x)
        return self.loss(x + self.a(x) + torch.tanh(self.b(g)) * 2 + torch.sigmoid(self.a(g)) * g, labels)


class Multiplied(nn.Module):
    def __init__(self):
        super().__init__()
        self.log, self.shift, self.scale, self.layer = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.ones(1)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.layer(x) * torch.exp(self.log * 10) * self.scale + self.shift


class SmallParameters(Language):
    """Two modules whose small parameters are equal at first."""

    def __init__(self):
        super().__init__()
        self.one, self.two = Multiplied(), Multiplied()

    def forward(self, tokens, labels):
        x = self.hidden(tokens)
        return self.loss(x + self.two(self.one(x)), labels)


CLASSES = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Case) and one not in (Case, Language, Vectors)]
