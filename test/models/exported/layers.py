"""Layers and losses of PyTorch that transformers do not have: of images, of graphs, of sequences in order. Cases as in users.py."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from users import BATCH, Case, Language, Vectors


class Recurrent(Language):
    """Layers that go through the sequence, in both directions."""

    def __init__(self):
        super().__init__()
        width = self.embedding.embedding_dim
        self.forth, self.both = nn.GRU(width, width, batch_first=True), nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, tokens, labels):
        return self.loss(self.both(self.forth(self.hidden(tokens))[0])[0], labels)


class SpectralNormed(Vectors):
    """Weights divided by an estimate of their norm, which buffers keep and each step improves."""

    def __init__(self):
        super().__init__()
        self.one, self.other = parametrizations.spectral_norm(nn.Linear(8, 8)), nn.utils.spectral_norm(nn.Linear(8, 8))

    def middle(self, x, h):
        return self.other(torch.relu(self.one(h)))


class Ordered(Vectors):
    """What is largest, or in the middle, or comes before."""

    def middle(self, x, h):
        near = h.take_along_dim(x.argsort(1), 1)
        return torch.sigmoid(h).cumprod(1) + h - h.median(1, keepdim=True).values + torch.hypot(h, x) + near * h.kthvalue(3, 1, keepdim=True).values


class Averaged(Vectors):
    """Means over the neighbors in a graph."""

    def middle(self, x, h):
        to = torch.tensor([0, 0, 1, 3, 3, 3, 6, 1]).expand_as(h)
        return torch.zeros_like(h).scatter_reduce(1, to, h, "mean", include_self=False) + h.scatter_reduce(1, to, x, "mean")


class Uncertain(Vectors):
    """A loss that learns its variance, some of which is under the least one."""

    def __init__(self):
        super().__init__()
        self.spread = nn.Linear(8, 4)

    def forward(self, x, y):
        h = torch.tanh(self.first(x))
        return F.gaussian_nll_loss(self.last(h), y, F.softplus(self.spread(h)), full=True, eps=0.6)


class Decorrelated(Vectors):
    """The losses of Barlow twins and VICReg."""

    def forward(self, x, y):
        a = self.last(torch.tanh(self.first(x)))
        apart = torch.cov(a.T).fill_diagonal_(0).square().sum() + torch.relu(1 - (a.var(0) + 1e-4).sqrt()).mean()
        return F.mse_loss(a, y) + apart / 4 + (torch.corrcoef(a.T) - torch.eye(4)).square().mean() + torch.hypot(a, y + 3).mean()


class Images(Case):
    @staticmethod
    def batch(g, step):
        return {"image": torch.randn(BATCH, 3, 8, 8, generator=g), "label": torch.randint(0, 5, (BATCH,), generator=g)}


class ChannelDropout(Images):
    """Dropout of whole channels, which is compiled off."""
    dims, refused = [*Case.dims, "--dropout", "off"], {"fsdp=2,tp=2": "would split nothing"}

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Dropout2d(0.4), nn.ReLU(), nn.Dropout2d(0.2, inplace=True), nn.Flatten(2), nn.Dropout1d(0.3), nn.Linear(64, 4))
        self.last = nn.Linear(32, 5)

    @staticmethod
    def call(model, batch):
        return model.eval()(**batch)

    def forward(self, image, label):
        return F.cross_entropy(self.last(self.layers(image).flatten(1)), label)


class Volumes(Images):
    """Convolutions of three dimensions, one of parts as of videos."""

    def __init__(self):
        super().__init__()
        self.parts, self.near, self.last = nn.Conv3d(1, 8, (1, 2, 2), stride=(1, 2, 2)), nn.Conv3d(8, 8, 3, padding=1, groups=2, bias=False), nn.Linear(8, 5)

    def forward(self, image, label):
        x = self.parts(image[:, None])
        return F.cross_entropy(self.last((x + F.silu(self.near(x))).mean((2, 3, 4))), label)


class Warped(Images):
    """A spatial transformer, and pools over unequal parts."""

    def __init__(self):
        super().__init__()
        self.place, self.layer, self.last = nn.Linear(192, 6), nn.Conv2d(3, 8, 3), nn.Linear(200, 5)
        self.place.bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])

    def forward(self, image, label):
        grid = F.affine_grid(self.place(image.flatten(1)).unflatten(1, (2, 3)) / 2, image.shape, align_corners=False)
        seen = F.relu(self.layer(F.grid_sample(image, grid, align_corners=False)))
        pooled = [F.adaptive_avg_pool2d(seen, (4, 5)), F.adaptive_max_pool2d(seen, (1, 5))]
        return F.cross_entropy(self.last(torch.cat([one.flatten(1) for one in pooled], 1)), label)


class Unpooled(Images):
    """Maxima that return to their places, as in SegNet."""
    refused = {"fsdp=2,tp=2": "would split nothing"}

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 5, 3, padding=1)

    def forward(self, image, label):
        found, places = F.max_pool2d(self.down(image), 2, return_indices=True)
        return F.cross_entropy(self.up(F.max_unpool2d(torch.tanh(found), places, 2)).mean((2, 3)), label)


class Heard(Vectors):
    """Speech: a label sequence without places, by connectionist temporal classification."""

    @staticmethod
    def batch(g, step):
        lengths = torch.randint(1, 4, (BATCH,), generator=g)
        return {"x": torch.randn(BATCH, 12, 8, generator=g), "y": torch.randint(1, 4, (BATCH, 3), generator=g), "lengths": lengths, "frames": lengths + 8}

    def forward(self, x, y, lengths, frames):
        logs = self.last(torch.tanh(self.first(x))).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(logs, y, frames, lengths, zero_infinity=True)


class Flow(Vectors):
    """Weights that are inverted, their determinants, and an orthogonal weight by the exponential of a matrix."""

    def __init__(self):
        super().__init__()
        self.mixing, self.cayley, self.spread = (nn.Parameter(torch.eye(8) + 0.1 * torch.randn(8, 8)) for _ in range(3))
        self.turned = parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map="matrix_exp")

    def middle(self, x, h):
        skew, unit = self.cayley - self.cayley.T, torch.eye(8)
        h = self.turned(h) @ torch.linalg.solve(unit + skew, unit - skew)
        root = torch.linalg.cholesky(self.spread @ self.spread.T + unit)
        return h @ torch.linalg.inv(self.mixing) + torch.slogdet(self.mixing)[1] / 8 + h @ root / 4 + torch.matrix_exp(skew / 2).sum() / 9


class Counted(Vectors):
    """The likelihood of counts, by the negative binomial."""

    def forward(self, x, y):
        rate, shape, count = self.last(torch.tanh(self.first(x))).exp(), F.softplus(self.middle_weight) + 0.5, y.abs().round()
        likely = torch.lgamma(count + shape) - torch.lgamma(shape) - torch.lgamma(count + 1) + shape * (shape / (shape + rate)).log() + count * (rate / (shape + rate)).log()
        return -likely.mean() + torch.copysign(rate, y).mean() / 10

    def __init__(self):
        super().__init__()
        self.middle_weight = nn.Parameter(torch.randn(4))


CLASSES = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Case) and one.__module__ == __name__ and one is not Images]
