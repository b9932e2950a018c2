"""Takes off what people put around modules: torch.compile, DistributedDataParallel, checkpoint wrappers and the like. Parameters have the names of
the module inside.
"""
import contextlib

import torch
from torch import nn

from .cli import DATA, Failure

INSIDE = ("_orig_mod", "_checkpoint_wrapped_module")  # where torch.compile and checkpoint wrappers have the module
OUTSIDE = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine")  # classes that have it in `module`
SHARDED = ("FullyShardedDataParallel", "FSDPModule")
ADVICE = ("export the module before it is sharded, or load torch.distributed.checkpoint.state_dict.get_model_state_dict(model, options=StateDictOptions("
          "full_state_dict=True, cpu_offload=True)) into a module that is not, and export that one")


def inside(module):
    """The module that a wrapper calls, or None."""
    kinds = [kind.__name__ for kind in type(module).__mro__]
    if any(kind in SHARDED for kind in kinds):
        raise Failure(DATA, f"FSDP has sharded the parameters of this {type(module).__name__}: {ADVICE}")
    names = ("module",) if any(kind in OUTSIDE for kind in kinds) else INSIDE
    return next((child for name in names if isinstance(child := module._modules.get(name), nn.Module)), None)


def bare(module):
    while (child := inside(module)) is not None:
        module = child
    return module


@contextlib.contextmanager
def unwrapped(model):
    """The module without wrappers, at any depth, while the context lasts. Compiled modules and functions run in eager mode in it, and adapters
    whose dropouts are 0 draw nothing."""
    model, kept, compiled, still = bare(model), [], [], []
    try:
        for one in list(model.modules()):
            for name, child in list(one._modules.items()):
                if child is not None and (other := bare(child)) is not child:
                    kept.append((one, name, child))
                    one._modules[name] = other
        for one in model.modules():
            if one._compiled_call_impl is not None:  # of Module.compile()
                compiled.append((one, one._compiled_call_impl))
                one._compiled_call_impl = None
        # LoHa and LoKr of peft draw a number in training, whatever the probability, and compare it in an `if`.
        still = [one for one in model.modules() if one.training and any(kind.__name__ == "LycorisLayer" for kind in type(one).__mro__) and not has_dropout(one)]
        for one in still:
            one.training = False
        sharded = [name for name, one in model.named_parameters() if hasattr(one, "full_tensor")]
        if sharded:
            raise Failure(DATA, f"'{sharded[0]}' is distributed over ranks (DTensor): {ADVICE}")
        with torch.compiler.set_stance("force_eager"):
            yield model
    finally:
        for one, name, child in kept:
            one._modules[name] = child
        for one, call in compiled:
            one._compiled_call_impl = call
        for one in still:
            one.training = True


def has_dropout(adapter):
    """Whether a LycorisLayer of peft leaves out ranks, or itself, at random."""
    return any(adapter.rank_dropout.values()) or any(adapter.module_dropout.values())


def renamed(model):
    """{name in the module: name in the file} of the parameters that peft saves under other names, without the name of the adapter."""
    if not hasattr(model, "peft_config"):
        return {}
    from peft import get_peft_model_state_dict
    saved = {value.data_ptr(): name for name, value in get_peft_model_state_dict(model).items()}
    names = dict(model.named_parameters(remove_duplicate=False))
    found = {name: saved[value.data_ptr()] for name, value in names.items() if value.data_ptr() in saved}
    return {name: new for name, new in found.items() if new != name and new not in names}
