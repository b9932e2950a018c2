"""Compiles a model to a training program."""
import pathlib

from .flags import flags_of
from .tools import run, tool

SWITCHES = {"--bundle"}  # flags that take no value


def compile(model, output, **flags):
    """Compiles the ONNX file `model` to the training program `output`. Returns the path of the program.

    The keywords are flags of shalec, for example dim={"batch": 8, "sequence": 128}, mesh="fsdp=2", shard="full", param_dtype="bf16",
    memory_limit="24GiB", bundle=True. `shalec --help` explains all. Raises shale.Error, for example DataError for a model that
    cannot be compiled and NoFit if no plan fits the memory limit; then no file is written.
    """
    program = pathlib.Path(output)
    run([tool("shalec"), model, "-o", program, *flags_of(flags, SWITCHES)], "shalec")
    return program
