"""What the scripts that draw random modules share (modules/export.py, today/export.py). Needs onnx."""
import re

import numpy as np
import onnx


class Aside(Exception):
    """A case that is set aside, and why."""


def describe_parameters(model, trained, exact, reach, noise=()):
    """(names, product, tolerance) of each parameter in `trained`; the tolerance is a twentieth of how far such a product moves in the steps,
    whose rates add up to `reach`, and none where f32 and f64 differ by more, or for a name in `noise`: rounding noise alone moves such a parameter."""
    names = {}
    for name, value in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:
        names.setdefault(id(value), []).append(name)
    found = []
    for alike in names.values():
        if alike[0] not in trained:
            continue
        size = len(trained[alike[0]])
        product, other = (float(values[alike[0]] @ np.cos(np.arange(size))) for values in (trained, exact))
        tolerance = 0.05 * reach * size**0.5
        found.append({"names": alike, "size": size, "product": product, "tolerance": tolerance if abs(product - other) < 0.2 * tolerance and alike[0] not in noise else None})
    return found


def shorten_traces(path):
    """Removes the folders from the Python stack traces in the file."""
    file = onnx.load(path)
    for node in file.graph.node:
        for prop in node.metadata_props:
            if prop.key == "pkg.torch.onnx.stack_trace":
                prop.value = re.sub(r'File "[^"]*/([^/"]*)"', r'File "\1"', prop.value)
    onnx.save(file, path)
