#!/usr/bin/env python3
"""A program that starts from given weights has exactly these weights.

usage: e2e weights --build DIR --case test/models/gpt2

The weights come from one file or from a folder of shards with an index, in 16-bit floats for f32 parameters and the other way round, or under
other names. One error lists everything that does not fit. Random weights (--init random:SEED) are the same for any number of ranks.
"""
import json
import shutil
import subprocess

import numpy as np

import runner
from bits import bf16, widened
from runner import Case, Deviates, main, read_safetensors, run

runner.TYPES.update({"F16": np.float16, "BF16": np.uint16, "U8": np.uint8})


class Weights:
    def __init__(self, a, work):
        self.case, self.work, self.count = Case(a.build, a.case), work, 0
        self.programs = {}
        for ranks in (1, 2):
            self.programs[ranks] = work / f"train{ranks}"
            self.case.shalec(self.programs[ranks], "full" if ranks > 1 else "none", ranks)
        self.half = work / "half"
        self.case.shalec(self.half, "full", 2, ["--param-dtype", "bf16"])
        self.bare = work / "bare"
        self.case.shalec(self.bare, "full", 2, ["--param-dtype", "bf16", "--master-dtype", "none"])
        names = self.start(self.programs[1])
        rng = np.random.default_rng(7)
        self.values = {name: rng.standard_normal(value.shape).astype(np.float32) for name, value in names.items()}
        if "lm_head.weight" in self.values:
            self.values["lm_head.weight"] = self.values["transformer.wte.weight"]

    def start(self, program, *flags):
        """The parameters with which the program starts, bf16 widened to f32."""
        self.count += 1
        out = self.work / f"out{self.count}"
        self.text = run([program, "--data", self.case.batches, "--steps", 0, "--out", out, *flags], "the program").stdout
        return read_safetensors(out / "model.safetensors")

    def noted(self, what):
        lines = [line for line in self.text.splitlines() if line.startswith("initial weights: from ") and what in line]
        if len(lines) != 1:
            raise Deviates(f"the program does not say once: {what}: {self.text[-800:]}")

    def refused(self, code, words, *flags):
        out = self.work / "refused"
        done = subprocess.run([str(word) for word in (self.programs[2], "--data", self.case.batches, "--steps", 0, "--out", out, *flags)],
                              capture_output=True, text=True, timeout=120)
        missing = [word for word in words if word not in done.stderr]
        if done.returncode != code or missing or done.stderr.count("error:") != 1:
            raise Deviates(f"{flags}: exit {done.returncode}, not {code}; without {missing}: {done.stderr[-800:]}")
        if (out / "model.safetensors").exists():
            raise Deviates(f"{flags}: weights were written nonetheless")

    def save(self, name, values):
        runner.save_safetensors(self.work / name, values)
        return self.work / name

    def same(self, got, want, what):
        for name, value in want.items():
            if not np.array_equal(got[name], value):
                raise Deviates(f"{what}: {name} is not what was given")

    def given(self):
        path = self.save("all.safetensors", self.values)
        for ranks, program in self.programs.items():
            self.same(self.start(program, "--init", path), self.values, f"one file, {ranks} ranks")
        once = {name: value for name, value in self.values.items() if name != "lm_head.weight"}
        self.same(self.start(self.programs[2], "--init", self.save("once.safetensors", once)), once, "a tied parameter once")
        other = {("lm_head.weight" if name == "transformer.wte.weight" else name): value for name, value in once.items()}
        self.same(self.start(self.programs[2], "--init", self.save("second.safetensors", other)), once, "under its second name")

        folder = self.work / "folder"
        folder.mkdir()
        names = sorted(self.values)
        weight_map = {}
        for i in range(3):
            file = f"model-0000{i + 1}-of-00003.safetensors"
            runner.save_safetensors(folder / file, {name: self.values[name] for name in names[i::3]})
            weight_map.update({name: file for name in names[i::3]})
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
        self.same(self.start(self.programs[2], "--init", folder), self.values, "a folder of shards")
        self.same(self.start(self.programs[1], "--init", index), self.values, "an index")
        index.write_text(json.dumps({"weight_map": {**weight_map, names[0]: "../all.safetensors"}}))
        self.refused(65, ["outside its folder"], "--init", folder)
        index.write_text(json.dumps({"weight_map": {**weight_map, "more": file}}))
        self.refused(65, ["no tensor 'more'"], "--init", folder)
        index.write_text("{\"weight_map\": [")
        self.refused(65, ["not an index"], "--init", folder)
        self.refused(66, ["nowhere"], "--init", self.work / "nowhere")
        self.refused(66, ["model.safetensors"], "--init", self.work)

    def narrow(self):
        for kind, narrow, wide in (("F16", lambda x: x.astype(np.float16), lambda x: x.astype(np.float32)), ("BF16", bf16, widened)):
            rounded = {name: narrow(value) for name, value in self.values.items()}
            path = self.save(f"{kind}.safetensors", rounded)
            self.same(self.start(self.programs[2], "--init", path), {name: wide(value) for name, value in rounded.items()}, f"{kind} into f32")
        path = self.save("f32.safetensors", self.values)
        self.same(self.start(self.half, "--init", path), self.values, "f32 masters of bf16 parameters")
        rounded = {name: widened(bf16(value)) for name, value in self.values.items()}
        self.same(self.start(self.bare, "--init", path), rounded, "bf16 without masters")
        # Near a tie of bf16, where rounding to f32 first would give the wrong neighbour.
        wide = {name: value.astype(np.float64) for name, value in self.values.items()}
        ties = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40])
        wide["transformer.ln_f.bias"][:4] = ties
        path = self.save("f64.safetensors", wide)
        got = self.start(self.bare, "--init", path)["transformer.ln_f.bias"][:4]
        if not np.array_equal(got, np.float32([1 + 2.0**-7, 1, -1 - 2.0**-7, 1 + 2.0**-7])):
            raise Deviates(f"f64 into bf16 was rounded twice: {got}")

    def names(self):
        renamed = {"model." + name.replace(".h.", ".layers."): value for name, value in self.values.items()}
        path = self.save("renamed.safetensors", renamed)
        self.refused(65, ["Missing (", "Left over ("], "--init", path)
        # $ and . are special in OLD, $1 in NEW. Rules apply in order.
        flags = ["--init", path, "--init-map", r"model\.=", "--init-map", r"(.*)\.layers\.=$1.h."]
        self.same(self.start(self.programs[2], *flags), self.values, "renamed twice")
        for prefix, values in (("m.", {"m." + name: value for name, value in self.values.items()}), ("", self.hub())):
            path = self.save("prefix.safetensors", values)
            rule = "m.=" if prefix else "=transformer."
            self.same(self.start(self.programs[2], "--init", path), self.values, f"without {rule}")
            self.noted(f"names {'with' if prefix else 'without'} '{prefix or 'transformer.'}'")
            self.same(self.start(self.programs[2], "--init", path, "--init-map", rule), self.values, f"by {rule}")
        self.masks()
        extra = {**self.values, "transformer.h.0.attn.mask": np.zeros(3, np.float32)}
        path = self.save("extra.safetensors", extra)
        self.refused(65, ["Left over (1): transformer.h.0.attn.mask"], "--init", path)
        self.same(self.start(self.programs[2], "--init", path, "--init-map", r".*attn\.mask="), self.values, "one left out")
        path = self.save("all.safetensors", self.values)
        self.refused(64, ["OLD=NEW"], "--init", path, "--init-map", "abc")
        self.refused(64, ["regular expression"], "--init", path, "--init-map", "(=x")
        self.refused(64, ["give --init"], "--init-map", "a=b")

    def hub(self):
        """The weights under the names of the checkpoint that Hugging Face publishes as gpt2: those of the model without its head."""
        return {name.replace("transformer.", "", 1): value for name, value in self.values.items() if name != "lm_head.weight"}

    def masks(self):
        mask = np.tril(np.ones((1, 1, 128, 128), np.float32))
        layers = sorted({name.split(".")[1] for name in self.hub() if name.startswith("h.")})
        hub = {**self.hub(), **{f"h.{layer}.attn.bias": mask for layer in layers}, **{f"h.{layer}.attn.masked_bias": np.float32(-1e4) for layer in layers}}
        self.same(self.start(self.programs[2], "--init", self.save("hub.safetensors", hub)), self.values, "names and masks of the hub")
        self.noted(f"names without 'transformer.'; left out as masks and position numbers, which the model computes: h.0.attn.bias, h.0.attn.masked_bias and {2 * len(layers) - 2} more")
        whole = {**self.values, "transformer.h.0.attn.bias": mask.astype(np.uint8)}
        self.same(self.start(self.programs[1], "--init", self.save("mask.safetensors", whole)), self.values, "a mask beside names of the program")
        self.noted("; left out as masks and position numbers, which the model computes: transformer.h.0.attn.bias")
        # A mismatch stops, and the message says under which names.
        wrong = {**hub, "h.0.attn.bias": mask + 1}
        self.refused(65, ["Left over (1): h.0.attn.bias.", "with names without 'transformer.'"], "--init", self.save("wrong.safetensors", wrong))
        del hub["ln_f.bias"]
        self.refused(65, ["Missing (1): transformer.ln_f.bias.", "with names without 'transformer.'"], "--init", self.save("less.safetensors", hub))

    def misfits(self):
        values = dict(self.values)
        values["transformer.h.0.mlp.c_fc.weight"] = np.ascontiguousarray(values["transformer.h.0.mlp.c_fc.weight"].T)
        del values["transformer.ln_f.bias"]
        values["stray"] = np.zeros(2, np.float32)
        path = self.save("misfit.safetensors", values)
        self.refused(65, ["Missing (1): transformer.ln_f.bias", "Left over (1): stray",
                          "transformer.h.0.mlp.c_fc.weight is [256, 64] there and [64, 256] in the program"], "--init", path)
        values = {**self.values, "transformer.ln_f.bias": np.zeros(64, np.int64)}
        self.refused(65, ["transformer.ln_f.bias is I64 there and F32"], "--init", self.save("integers.safetensors", values))
        values = {**self.values, "lm_head.weight": self.values["transformer.wte.weight"] + 1}
        self.refused(65, ["one tied parameter"], "--init", self.save("untied.safetensors", values))
        broken = self.work / "broken.safetensors"
        broken.write_bytes((self.work / "all.safetensors").read_bytes()[:-8])
        self.refused(65, [str(broken)], "--init", broken)

    def drawn(self):
        model = self.start(self.programs[1])
        one, two = (self.start(self.programs[ranks], "--init", "random:5") for ranks in (1, 2))
        self.same(two, one, "drawn on two ranks")
        other = self.start(self.programs[2], "--init", "random:6")
        for name, value in model.items():
            if np.ptp(value) == 0:
                self.same(one, {name: value}, "a constant")
                continue
            if np.array_equal(one[name], other[name]) or np.array_equal(one[name], value):
                raise Deviates(f"{name} does not depend on the seed")
            n, deviation = value.size, value.std()
            # Bounds: four standard errors of mean and deviation.
            if not abs(one[name].mean() - value.mean()) <= 4 * deviation / n**0.5 or not abs(one[name].std() / deviation - 1) <= 4 / (2 * n)**0.5:
                raise Deviates(f"{name}: drawn mean {one[name].mean()}, deviation {one[name].std()}; wanted {value.mean()}, {deviation}")
        normal = np.concatenate([one[name].ravel() / model[name].std() for name in model if model[name].size > 4000])
        inside = [np.mean(np.abs(normal) < bound) for bound in (1, 2, 3)]
        if not np.abs(np.array(inside) - [0.6827, 0.9545, 0.9973]).max() <= 0.01:
            raise Deviates(f"drawn values are not normal: {inside} within 1, 2, 3 deviations")
        twins = [name for name in model if name.endswith("attn.c_attn.weight")]
        if not abs(np.corrcoef(one[twins[0]].ravel(), one[twins[1]].ravel())[0, 1]) <= 0.05:
            raise Deviates("two parameters were drawn alike")
        self.refused(64, ["random:SEED"], "--init", "random:x")

    def changed(self):
        """If the model's file changes after compilation, other values of the same size are an error."""
        folder = self.work / "model"
        folder.mkdir()
        shutil.copy(self.case.folder / "model.onnx", folder)
        model, program = folder / "model.onnx", self.work / "moved"
        run([self.case.bin / "shalec", model, "-o", program, *self.case.model_flags()], "shalec")
        bytes_ = bytearray(model.read_bytes())
        at = bytes_.find(self.start(program)["transformer.wpe.weight"].tobytes())
        if at < 0:
            raise Deviates("the model's file does not hold its weights unchanged")
        bytes_[at + 17] ^= 1
        model.write_bytes(bytes_)
        keep, self.programs[2] = self.programs[2], program
        self.refused(65, ["other values of 'transformer.wpe.weight'", "--init"])
        model.unlink()
        self.refused(66, ["model.onnx"])
        self.same(self.start(program, "--init", self.work / "all.safetensors"), self.values, "without the model's file")
        self.programs[2] = keep


def check(a, work):
    weights = Weights(a, work)
    for part in (weights.given, weights.narrow, weights.names, weights.misfits, weights.drawn, weights.changed):
        part()
    return f"{weights.count} starts hold the weights they were given, and no other"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
