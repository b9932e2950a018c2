"""Shared parts of the fixtures' export scripts: exports a module with torch's default exporter and records PyTorch's run of it.

Needs torch, onnxscript and safetensors from PyPI. The written files are in the repository, so the tests need none of these.
"""
import json

import torch
from safetensors.torch import save_file

LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def export(module, batches, shapes, path, outputs=("loss", "logits"), **settings):
    """Exports the module. `batches`: tensors by input, with a leading dimension of steps. Floats have the module's type."""
    first = tuple(rows[0] for rows in typed(module, batches).values())
    program = torch.onnx.export(module, first, dynamo=True, verbose=False, dynamic_shapes=tuple(shapes), input_names=list(batches),
                                output_names=list(outputs), **settings)
    save(program, path)


def save(program, path):
    for node in program.model.graph:  # the exporting machine's paths
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(str(path), external_data=False)


def typed(module, batches):
    kind = next(module.parameters()).dtype
    return {name: rows.to(kind) if rows.is_floating_point() else rows for name, rows in batches.items()}


def train(module, tensors, trajectory, final=None, accumulate=1, **about):
    """Trains with AdamW on f32 masters of all parameters. The module computes in its own types. A step reads `accumulate`
    micro-batches as one batch."""
    parameters = list(module.parameters())
    masters = [p.detach().float().clone().requires_grad_() for p in parameters]
    optimizer = torch.optim.AdamW(masters, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    rows, steps = typed(module, tensors), []
    for step in range(len(next(iter(rows.values()))) // accumulate):
        module.zero_grad()
        at = slice(step * accumulate, (step + 1) * accumulate)
        loss = module(*(tensor[at].flatten(0, 1) for tensor in rows.values()))
        loss = loss[0] if isinstance(loss, tuple) else loss
        loss.backward()
        for parameter, master in zip(parameters, masters):
            master.grad = parameter.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(masters, CLIP)
        optimizer.step()
        with torch.no_grad():
            for parameter, master in zip(parameters, masters):
                parameter.copy_(master)
        steps.append({"step": step, "loss": loss.item(), "grad_norm": norm.item()})
    said = {"torch": torch.__version__, "optimizer": {"name": "AdamW", "lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": DECAY},
            "clip_grad_norm": CLIP, **({"accumulate": accumulate} if accumulate > 1 else {}), **about, "steps": steps}
    trajectory.write_text(json.dumps(said, indent=1) + "\n")
    if final:
        names = [name for name, _ in module.named_parameters()]
        save_file({name: master.detach() for name, master in zip(names, masters)}, final)
    print(trajectory, steps[0]["loss"], "->", steps[-1]["loss"])
