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


CLASSES = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Case) and one.__module__ == __name__ and one is not Images]
