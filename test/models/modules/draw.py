"""Draws a random transformer module from a seed.

A module is a dict with the keys of CHOICES. The first choice of a key is the plain one, which --plain selects. A choice that is listed
several times is drawn more often.
"""
import random

CHOICES = {
    # Sizes. The width is `heads` x `head`.
    "layers": (1, 1, 2, 2, 3),
    "heads": (2, 4, 4, 6),
    "head": (8, 4, 6, 12),
    "sequence": (8, 9, 12, 16, 21, 24),
    "vocabulary": (48, 50, 53),
    "batch": (4, 4, 8),
    # Settings of the export.
    "loss_in_graph": (True, True, True, False),
    "names": ("tokens,labels", "input_ids,labels", "x,y", "idx,targets"),
    "bind": (False, False, True),
    "init": ("torch", "torch", "gpt2"),
    "training": (False, False, False, True),
    # Embedding and positions.
    "embedding": ("plain", "plain", "plain", "scaled", "normed", "factored"),
    "positions": ("none", "none", "arange", "arange", "parameter", "parameter_whole", "arange_expand", "position_ids", "sinusoid", "cumsum"),
    "where": ("none", "none", "none", "none", "tokens", "relu", "clamp"),
    # Blocks.
    "norm": ("layer", "layer", "layer_nobias", "layer_manual", "layer_plain", "rms", "rms_manual", "rms_manual", "rms_gemma", "scale"),
    "residual": ("pre", "pre", "pre", "post", "parallel", "parallel_two", "sandwich", "layerscale", "scalar", "depth"),
    "container": ("list", "list", "sequential", "dict", "shared"),
    "mixer": ("attention",) * 10 + ("linear_cumsum", "mean_cumsum"),
    "qkv": ("separate", "separate", "chunk", "split", "view_permute", "view_unbind", "heads_first", "neox", "einsum"),
    "qkv_bias": (False, True),
    "groups": (1, 1, 1, 2, "all"),
    "repeat": ("repeat_interleave", "expand", "enable_gqa", "five_dims", "stack"),
    "qk_norm": ("none", "none", "none", "rms", "layer", "l2"),
    "rope": ("none", "none", "half", "half", "interleaved", "interleaved_stack", "partial", "in_forward", "matrix"),
    "kernel": ("sdpa", "sdpa", "manual", "manual", "manual_einsum"),
    "mask": ("causal", "causal", "bool", "additive", "window", "alibi", "alibi_window", "padding", "none"),
    "masked_by": ("masked_fill_inf", "masked_fill_min", "where", "add"),
    "mask_from": ("buffer", "tril", "arange"),
    "scores": ("plain", "plain", "plain", "softcap", "float", "scaled_q"),
    "gate": ("none", "none", "none", "sigmoid", "headwise"),
    "mlp": ("gelu", "gelu_tanh", "gelu_new", "relu", "relu2", "swiglu", "swiglu_chunk", "geglu_split", "glu", "quick_gelu", "experts", "mish"),
    "mlp_bias": (True, False),
    "shift": ("none", "none", "none", "none", "pad", "concat", "roll", "roll_zero", "slice"),
    "shift_mix": ("mu", "one_minus", "sigmoid", "half_channels"),
    "dropout": (False, False, True),
    # Head and loss.
    "final_norm": (True, True, True, False),
    "head_form": ("untied", "untied", "untied_bias", "tied", "tied", "tied_functional", "tied_transposed", "tied_einsum"),
    "logits": ("plain", "plain", "plain", "softcap", "temperature"),
    "loss": ("mean", "mean", "mean", "shifted", "shifted", "shifted_contiguous", "transposed", "gather", "log_softmax_nll", "masked_mean", "row_mean",
             "sum_over_count", "smoothing", "smoothing_manual", "z_loss", "ignore_pad", "one_hot", "weighted"),
    "ignored": (False, False, True),
    # Training.
    "lr": (1e-3, 3e-4, 3e-3),
    "clip": (1.0, 0.0, 0.5),
    "weight_decay": (0.1, 0.0),
}

# Parts that the exporter folds without a trace: elements of a small parameter, functions of it, repetitions of zeros.
# shalec refuses the file, and follows the one exported with optimize=False. Every hundredth seed has one of these parts.
LOST = {"residual": ("mix",), "mask": ("relative",), "scores": ("sink",), "logits": ("scaled",)}
LOST_EVERY = 100

ATTENTION = ("qkv", "qkv_bias", "groups", "repeat", "qk_norm", "rope", "kernel", "mask", "masked_by", "mask_from", "scores", "gate")


def reset(c, *keys):
    for key in keys:
        c[key] = CHOICES[key][0]


def constrain(c):
    """Replaces choices that cannot be combined, and sets choices without effect to their plain value."""
    if c["mask"] == "relative" and c["kernel"] == "sdpa":  # torch.onnx.export fails if SDPA's mask is trained
        c["kernel"] = "manual"
    manual = c["kernel"] != "sdpa"
    if c["mixer"] != "attention":
        reset(c, *ATTENTION)
    if c["rope"] == "partial" and c["head"] % 4:
        c["rope"] = "half"
    if c["qkv"] in ("view_permute", "view_unbind", "heads_first", "neox"):
        reset(c, "groups")
    if c["groups"] == 1:
        reset(c, "repeat")
    elif manual and c["repeat"] == "enable_gqa" or c["kernel"] != "manual" and c["repeat"] == "five_dims":
        c["repeat"] = "expand"
    if manual:
        if c["mask"] in ("bool", "additive"):
            c["masked_by"] = "add" if c["mask"] == "additive" else c["masked_by"]
            reset(c, "mask")
    else:
        reset(c, "scores")
        if c["mask"] in ("causal", "bool", "window", "padding"):
            reset(c, "masked_by")
        elif c["masked_by"] != "masked_fill_inf":
            c["masked_by"] = "add"
    if c["mask"] == "none" or c["mask"] == "causal" and not manual:
        reset(c, "masked_by", "mask_from")
    if c["shift"] == "none":
        reset(c, "shift_mix")
    if c["mlp"] == "experts":
        reset(c, "mlp_bias")
    if not c["loss_in_graph"]:
        reset(c, "loss", "bind")
    if c["loss"] in ("gather", "one_hot", "smoothing_manual"):
        c["ignored"] = False
    elif c["loss"] in ("masked_mean", "sum_over_count", "ignore_pad"):
        c["ignored"] = True
    if c["embedding"] == "factored" and c["head_form"].startswith("tied"):
        c["head_form"] = "untied"
    return c


def draw(seed):
    rng = random.Random(seed)
    c = {key: rng.choice(values) for key, values in CHOICES.items()}
    if seed % LOST_EVERY == 0:
        key = rng.choice(sorted(LOST))
        c[key] = rng.choice(LOST[key])
    return constrain(c)


def plain():
    return constrain({key: values[0] for key, values in CHOICES.items()})
