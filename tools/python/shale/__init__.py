"""Shale in Python: from a module of PyTorch to a sharded training program.

    import shale
    shale.export(model, "model.onnx", loss="next-token")
    program = shale.compile("model.onnx", "train", dim={"batch": 8, "sequence": 128}, mesh="fsdp=2", shard="full")
    for step in shale.train(program, data="tokens.bin", steps=100, lr=3e-4, out="run1"):
        print(step["step"], step["loss"])

Keywords are the flags of shalec and of programs, with underscores: param_dtype="bf16" is --param-dtype bf16. Errors are shale.Error.
"""
from .compiler import compile
from .errors import (DataError, Error, InternalError, InterruptedRun, MissingInput, NonFinite, NoFit, OutputError, PeerFailed, Preempted,
                     ReplicasDiffer, Unavailable, UsageError)
from .exporting import export
from .training import Run, train

__all__ = ["DataError", "Error", "InternalError", "InterruptedRun", "MissingInput", "NoFit", "NonFinite", "OutputError", "PeerFailed", "Preempted",
           "ReplicasDiffer", "Run", "Unavailable", "UsageError", "compile", "export", "train"]
