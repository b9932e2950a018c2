"""Modules whose result is the loss of a model of models.py or own.py, and their random batches."""
import numpy as np
import torch
from torch import nn

import models
import own
from models import CLASSES, FRAMES, IMAGE, MELS, SEQUENCE, VOCABULARY

STEPS, BATCH, TARGETS = 20, 4, 16
OWN = {"own": own.Own, "encoder": own.Encoder, "prenorm": lambda size: own.Encoder(size, norm_first=True), "decoder": own.Decoder}


class Wrapped(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model


class Causal(Wrapped):
    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


class CausalMasked(Wrapped):
    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, use_cache=False).loss


class Logits(Wrapped):
    """Wraps an own module: returns the loss of the next tokens."""

    def forward(self, tokens, labels):
        return nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), labels.flatten())


class Encoder(Wrapped):
    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


class EncoderMasked(Wrapped):
    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss


class Typed(Wrapped):
    def forward(self, input_ids, attention_mask, token_type_ids, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, labels=labels).loss


class Image(Wrapped):
    def forward(self, pixel_values, labels):
        return self.model(pixel_values=pixel_values, labels=labels).loss


class Resized(Wrapped):
    """Images are larger than those of the model's table of positions, which it interpolates."""

    def forward(self, pixel_values, labels):
        return self.model(pixel_values=pixel_values, labels=labels, interpolate_pos_encoding=True).loss


class Audio(Wrapped):
    def forward(self, input_features, labels):
        return self.model(input_features=input_features, labels=labels).loss


class Towers(Wrapped):
    def forward(self, input_ids, pixel_values):
        return self.model(input_ids=input_ids, pixel_values=pixel_values, return_loss=True).loss


class TowersMasked(Wrapped):
    def forward(self, input_ids, attention_mask, pixel_values):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values, return_loss=True).loss


def text(rng, size):
    """Random tokens with unequal frequencies, so that losses fall."""
    return (rng.geometric(0.06, size) % (VOCABULARY - 4) + 3).astype(np.int64)


def causal_batches(rng):
    tokens = text(rng, (STEPS, BATCH, SEQUENCE))
    return {"input_ids": tokens, "labels": tokens}


def pad(rng, batches, left):
    """Masks for rows of different lengths. Every fourth row is padded on the left if the model supports it."""
    mask = np.arange(SEQUENCE) < rng.integers(SEQUENCE // 3, SEQUENCE + 1, (STEPS, BATCH, 1))
    if left:
        mask[:, 3] = mask[:, 3, ::-1]
    mask[:, 0] = True
    batches = {name: value.copy() for name, value in batches.items()}
    batches["input_ids"][~mask], batches["labels"][~mask] = 0, -100
    return {"input_ids": batches["input_ids"], "attention_mask": mask.astype(np.int64), "labels": batches["labels"]}


def choose(rng, batches):
    """Labels of masked tokens: a quarter of the tokens that are not padding. Most of them become the token 2; 1 is MPNet's padding."""
    tokens, labels = batches["input_ids"].copy(), batches["labels"].copy()
    chosen = (rng.random(tokens.shape) < 0.25) & (labels != -100)
    labels[~chosen], tokens[chosen & (rng.random(tokens.shape) < 0.8)] = -100, 2
    return {**batches, "input_ids": tokens, "labels": labels}


def typed_batches(rng):
    batches = choose(rng, pad(rng, causal_batches(rng), left=False))
    labels = batches.pop("labels")
    types = (np.arange(SEQUENCE) >= rng.integers(4, SEQUENCE, (STEPS, BATCH, 1))).astype(np.int64)
    return {**batches, "token_type_ids": types, "labels": labels}


def pair_batches(rng, masked):
    """Targets are the first tokens of the source, with labels of -100 at the end if the sources are padded."""
    batches = causal_batches(rng)
    batches = pad(rng, batches, left=False) if masked else batches
    labels = text(rng, (STEPS, BATCH, TARGETS))
    labels[..., : TARGETS // 2] = np.maximum(batches["input_ids"][..., : TARGETS // 2], 3)
    if masked:
        labels[:, 1:, TARGETS - 3:] = -100
    return {**batches, "labels": labels}


def image_batches(rng):
    labels = rng.integers(0, CLASSES, (STEPS, BATCH))
    pixels = rng.standard_normal((STEPS, BATCH, 3, IMAGE, IMAGE)) + labels[..., None, None, None] / 5
    return {"pixel_values": pixels.astype(np.float32), "labels": labels.astype(np.int64)}


def audio_batches(rng):
    labels = rng.integers(0, CLASSES, (STEPS, BATCH))
    features = rng.standard_normal((STEPS, BATCH, MELS, FRAMES)) + labels[..., None, None] / 5
    return {"input_features": features.astype(np.float32), "labels": labels.astype(np.int64)}


def tower_batches(rng, masked):
    """CLIP takes the end-of-text token 2 for the row's summary."""
    batches = causal_batches(rng)
    batches = pad(rng, batches, left=False) if masked else batches
    batches.pop("labels")
    batches["input_ids"] = batches["input_ids"].copy()
    ends = batches["attention_mask"].sum(-1) if masked else np.full((STEPS, BATCH), SEQUENCE)
    np.put_along_axis(batches["input_ids"], ends[..., None] - 1, 2, axis=-1)
    return {**batches, "pixel_values": image_batches(rng)["pixel_values"]}


def build(name, masked, left=True):
    """The module that is exported, and its batches. `left`: some rows of masked batches of decoders are padded on the left."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    if name in OWN:
        tokens = text(rng, (STEPS, BATCH, SEQUENCE + 1))
        tokens[..., ::7] = 0  # the encoder's padding row
        return Logits(OWN[name](VOCABULARY).eval()), {"tokens": tokens[..., :-1].copy(), "labels": tokens[..., 1:].copy()}
    if name in models.CAUSAL or name in models.EXPORTED:
        module = CausalMasked if masked else Causal
        batches = pad(rng, causal_batches(rng), left) if masked else causal_batches(rng)
    elif name in models.ENCODERS:
        module = EncoderMasked if masked else Encoder
        batches = choose(rng, pad(rng, causal_batches(rng), left=False) if masked else causal_batches(rng))
    elif name in models.PAIRS:
        module, batches = EncoderMasked if masked else Encoder, pair_batches(rng, masked)
    elif name in models.TOWERS:
        module, batches = TowersMasked if masked else Towers, tower_batches(rng, masked)
    else:
        kinds = ((models.TYPED, Typed, typed_batches), (models.IMAGES, Image, image_batches), (models.AUDIO, Audio, audio_batches))
        _, module, make = next(kind for kind in kinds if name in kind[0])
        module, batches = Resized if name == "vitresized" else module, make(rng)
    table = next(table for table in models.KINDS if name in table)
    return module(table[name]().eval()), batches


def sizes(batches):
    """Names of dimensions by input. Rows of tokens have a sequence, those of labels beside shorter targets one of their own."""
    names = {}
    for name, value in batches.items():
        names[name] = {0: "batch"}
        if value.ndim == 3:
            names[name][1] = "sequence" if value.shape[2] == SEQUENCE else "targets"
    return names
