#!/usr/bin/env python3
"""Writes tiny models of `transformers` and of plain torch.nn (own.py), randomly initialised, as ONNX files, with PyTorch's first 20 training
steps. Needs torch, transformers, onnxscript and onnxruntime.

usage: export.py FOLDER [--only NAME,..] [--part 0/2] [--list]

A case is FOLDER/MODEL[-mask][-bf16]: model.onnx as torch.onnx.export writes it by default (in one file), batches.safetensors, and
trajectory.json with shalec's flags, the optimizer, losses (before the update), gradient norms (before clipping), and the bars.
-mask: the model is exported with attention_mask. Rows of the batches are padded, some on the left, with labels of -100. BERT always has
masks and token types. -bf16: parameters are bf16 in the file; the recorded run has the same rounded parameters in f32.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import os
import pathlib
import sys
import warnings

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "modules"), str(HERE.parents[1] / "e2e")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import own  # noqa: E402
import transformers as hf  # noqa: E402
from runner import save_safetensors  # noqa: E402

STEPS, BATCH, SEQUENCE, VOCABULARY = 20, 4, 24, 80
LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
LOSS, NORM, HALF = 2e-5, 1e-4, 0.02
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": VOCABULARY,
         "max_position_embeddings": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPS = {"num_key_value_heads": 2}
MODELS = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**WIDTH, **GROUPS, **TOKENS)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**WIDTH, **GROUPS, **TOKENS)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**WIDTH, **GROUPS, **TOKENS, head_dim=8, tie_word_embeddings=True)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**WIDTH, **GROUPS, **TOKENS, head_dim=8, query_pre_attn_scalar=8, sliding_window=8)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**WIDTH, **GROUPS, **TOKENS)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**WIDTH, **GROUPS, **TOKENS, sliding_window=8)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
                                                  vocab_size=VOCABULARY, max_position_embeddings=64, **TOKENS)),
    "neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**WIDTH, bos_token_id=1, eos_token_id=2)),
    "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, **TOKENS)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**WIDTH, **TOKENS, partial_rotary_factor=0.5)),
    "gptneo": lambda: hf.GPTNeoForCausalLM(hf.GPTNeoConfig(hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64, vocab_size=VOCABULARY,
                                                           max_position_embeddings=64, attention_types=[[["global", "local"], 1]], window_size=8,
                                                           bos_token_id=1, eos_token_id=2)),
    "bigcode": lambda: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=VOCABULARY, bos_token_id=1,
                                                                    eos_token_id=2)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, query_pre_attn_scalar=8, sliding_window=8)),
    "mpt": lambda: hf.MptForCausalLM(hf.MptConfig(d_model=32, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=64, vocab_size=VOCABULARY)),
    "stablelm": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**WIDTH, **GROUPS, **TOKENS, use_qkv_bias=True, qk_layernorm=True)),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**WIDTH, **GROUPS, **TOKENS)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**WIDTH, **GROUPS, bos_token_id=1, eos_token_id=2, residual_dropout=0,
                                                                       embedding_dropout=0)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**WIDTH, **GROUPS, **TOKENS, use_qk_norm=True)),
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**WIDTH, **GROUPS, **TOKENS, residual_multiplier=0.7, attention_multiplier=0.3,
                                                              logits_scaling=2.0)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**WIDTH, **GROUPS, **TOKENS)),
    "glm": lambda: hf.GlmForCausalLM(hf.GlmConfig(**WIDTH, **GROUPS, **TOKENS, head_dim=8, partial_rotary_factor=0.5)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**WIDTH)),
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                             image_size=16, patch_size=4, num_labels=10)),
}
OWN = {"own": own.Own, "encoder": own.Encoder, "prenorm": lambda size: own.Encoder(size, norm_first=True), "decoder": own.Decoder}
DECODERS = [name for name in MODELS if name not in ("bert", "vit")]


class Causal(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


class Logits(Causal):
    """Wraps an own module: returns logits and the loss of the next tokens."""

    def forward(self, tokens, labels):
        return nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), labels.flatten())


class CausalMasked(Causal):
    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, use_cache=False).loss


class Masked(Causal):
    def forward(self, input_ids, attention_mask, token_type_ids, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, labels=labels).loss


class Image(Causal):
    def forward(self, pixel_values, labels):
        return self.model(pixel_values=pixel_values, labels=labels).loss


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


def bert_batches(rng):
    batches = pad(rng, causal_batches(rng), left=False)
    tokens, labels, mask = batches["input_ids"], batches["labels"].copy(), batches["attention_mask"]
    chosen = (rng.random(tokens.shape) < 0.25) & (mask == 1)
    labels[~chosen], tokens[chosen & (rng.random(tokens.shape) < 0.8)] = -100, 1
    types = (np.arange(SEQUENCE) >= rng.integers(4, SEQUENCE, (STEPS, BATCH, 1))).astype(np.int64)
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": types, "labels": labels}


def image_batches(rng):
    labels = rng.integers(0, 10, (STEPS, BATCH))
    pixels = rng.standard_normal((STEPS, BATCH, 3, 16, 16)) + labels[..., None, None, None] / 5
    return {"pixel_values": pixels.astype(np.float32), "labels": labels.astype(np.int64)}


def build(name, masked):
    """The module that is exported, and its batches."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    if name in OWN:
        tokens = text(rng, (STEPS, BATCH, SEQUENCE + 1))
        tokens[..., ::7] = 0  # the encoder's padding row
        return Logits(OWN[name](VOCABULARY).eval()), {"tokens": tokens[..., :-1].copy(), "labels": tokens[..., 1:].copy()}
    model = MODELS[name]().eval()
    if name == "vit":
        return Image(model), image_batches(rng)
    if name == "bert":
        return Masked(model), bert_batches(rng)
    batches = causal_batches(rng)
    if masked:
        return CausalMasked(model), pad(rng, batches, left=True)
    return Causal(model), batches


def train(model, batches, kind):
    model = copy.deepcopy(model).to(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    steps = []
    for index in range(STEPS):
        feeds = [torch.from_numpy(value[index]) for value in batches.values()]
        feeds = [value.to(kind) if value.is_floating_point() else value for value in feeds]
        optimizer.zero_grad()
        loss = model(*feeds)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        steps.append({"loss": loss.item(), "grad_norm": norm.item()})
    return steps


def export(model, batches, path):
    feeds = tuple(torch.from_numpy(value[0].copy()) for value in batches.values())
    half = next(model.parameters()).dtype
    feeds = tuple(value.to(half) if value.is_floating_point() else value for value in feeds)
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence")
    shapes = tuple({0: batch, 1: sequence} if value.dim() == 2 else {0: batch} for value in feeds)
    hidden = io.StringIO()
    with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
        torch.onnx.export(model, feeds, path, dynamo=True, dynamic_shapes=shapes, external_data=False)


def check_file(path, batches, wanted):
    """The first loss of the file under ONNX Runtime, or None if that cannot run it."""
    import onnxruntime
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception:  # no kernels for bf16
        return None
    got = session.run(None, {one.name: batches[one.name][0] for one in session.get_inputs()})[0]
    return abs(float(got) - wanted)


def make(folder, case):
    """Writes one case. Returns a line for the log."""
    words = case.split("-")
    half = "bf16" in words
    model, batches = build(words[0], "mask" in words)
    if half:
        model = model.to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    export(model, batches, path)
    steps, exact = train(model, batches, torch.float32), train(model, batches, torch.float64)
    drift = max(abs(got["loss"] - want["loss"]) for got, want in zip(steps, exact))
    off = None if half else check_file(path, batches, steps[0]["loss"])
    flags = ["--dim", f"batch={BATCH}"] + ([] if words[0] == "vit" else ["--dim", f"sequence={SEQUENCE}"])
    save_safetensors(folder / "batches.safetensors", batches)
    (folder / "trajectory.json").write_text(json.dumps({
        "flags": flags, "optimizer": {"name": "AdamW", "lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": DECAY}, "clip_grad_norm": CLIP,
        "loss_bar": HALF if half else LOSS, "norm_bar": None if half else NORM, "steps": steps}, indent=1) + "\n")
    said = f"loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}, f32 and f64 differ by {drift:.1e}, ONNX Runtime by {off if off is None else format(off, '.1e')}"
    if off is not None and off > LOSS:
        (folder / "aside.txt").write_text(said + "\n")
        (folder / "trajectory.json").unlink()
        return f"set aside: {said}"
    return f"{path.stat().st_size} bytes, {said}"


def all_cases():
    plain = [name for model in DECODERS for name in (model, f"{model}-mask")] + ["bert", "vit", *OWN]
    return plain + [f"{name}-bf16" for name in plain]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path, nargs="?")
    p.add_argument("--only", type=lambda text: text.split(","))
    p.add_argument("--part", default="0/1", help="N/OF: every OF-th case from the N-th on")
    p.add_argument("--list", action="store_true", help="print the names of all cases")
    a = p.parse_args()
    part, of = map(int, a.part.split("/"))
    cases = (a.only or all_cases())[part::of]
    if a.list or not a.folder:
        print("\n".join(cases))
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    failed = 0
    for case in cases:
        try:
            print(f"{case}: {make(a.folder / case, case)}", flush=True)
        except Exception as error:  # any exception of the exporter
            failed += 1
            print(f"{case}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
