"""The module that is exported: a model of transformers or a user's own, with the loss inside, and its inputs."""
import contextlib
import functools
import inspect
import json
import pathlib

import torch
from torch import nn

from . import given, operators, result, rows, unwrap
from .arguments import Arguments, parameters_of
from .cli import DATA, NO_INPUT, USAGE, Failure, brief, libraries, note, place_in
from .find import find_own
from .sizes import Input

LABELS = ("labels", "label", "targets", "target", "y")
TASKS = {"causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM", "image": "AutoModelForImageClassification"}
TEXT = ["batch", "sequence"]


def wrap(model, names, call):
    """A module whose forward has these parameters and returns `call(model, {name: value})`."""
    class Training(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

    Training.forward = eval(f"lambda self, {', '.join(names)}: call(self.model, dict({', '.join(f'{n}={n}' for n in names)}))", {"call": call})
    return Training()


@contextlib.contextmanager
def rewritten(built):
    """The module computes in other operations what the exporter does not write. Distributions do not check their parameters, which would be a branch."""
    checked = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        with computed_otherwise(built) if built.rewrites else contextlib.nullcontext():
            yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(checked)


@contextlib.contextmanager
def computed_otherwise(built):
    module, forward = built.module, type(built.module).forward

    def call(self, *values):
        with rows.Rewriting():
            return forward(self, *values)

    type(module).forward = functools.wraps(forward)(call)
    try:
        with operators.grouped_in_transformers():
            yield
    finally:
        type(module).forward = forward


class Built:
    """A module to export: `module` wraps the user's `model`."""
    has_dropout = has_draws = has_halves = False  # whether the exported graph has Dropout nodes, others that draw random numbers, and 16-bit floats

    def __init__(self, module, model, inputs, vocabulary, positions):
        self.module, self.model, self.inputs, self.vocabulary, self.positions = module, model, inputs, vocabulary, positions
        self.without_grad = True  # whether a part of the module may be under torch.no_grad()
        self.rewrites = False  # whether it calls what the exporter does not write
        self.given, self.values = {}, given.RANDOM  # the caller's batch, and what the values of the module are called
        self.renamed = unwrap.renamed(model)  # {name in the module: name in the file}
        self.modules = {}  # the first module that calls an operator, by its name, where PyTorch computes the gradients: (name, class)
        self.trained = None  # the parameters that have gradients, where PyTorch computes them


@contextlib.contextmanager
def without_values(wanted):
    """Leaves parameters uninitialized, so that they take no memory."""
    if not wanted:
        yield
        return
    kept = {name: value for name, value in vars(nn.init).items() if name.endswith("_") and callable(value) and not name.startswith("_")}
    for name in kept:
        setattr(nn.init, name, lambda tensor, *_, **__: tensor)
    empty = torch.empty

    def without_memory(*size, **keywords):
        """A parameter of more than 1 GiB is one element, seen with its shape."""
        shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        return empty(shape, **keywords) if shape.numel() < 1 << 28 else empty(1, **keywords).expand(shape)

    torch.empty = without_memory
    try:
        yield
    finally:
        torch.empty = empty
        for name, value in kept.items():
            setattr(nn.init, name, value)


def from_transformers(a):
    with libraries():
        import transformers
    transformers.logging.set_verbosity_error()
    task = a.task
    if a.config:
        config = read_config(transformers, a.config)
    else:
        config = load(lambda: transformers.AutoConfig.from_pretrained(a.model, trust_remote_code=False), a.model)
    named = " ".join(getattr(config, "architectures", None) or [])
    if not task:
        task = next((task for task, word in (("masked-lm", "MaskedLM"), ("image", "ImageClassification")) if word in named), "causal-lm")
    if getattr(config, "is_encoder_decoder", False):
        raise Failure(DATA, f"{config.model_type} is an encoder with a decoder: write a module that returns its loss, and export that (FILE.py:CLASS)")
    auto = getattr(transformers, TASKS[task])
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[a.dtype]
    try:
        if a.config or a.shapes_only:
            torch.manual_seed(a.seed)
            with without_values(a.shapes_only):
                model = auto.from_config(config, dtype=kind)
        else:
            model = load(lambda: auto.from_pretrained(a.model, dtype=kind), a.model)
    except ValueError as error:
        other = ", ".join(f"--task {name}" for name in TASKS if name != task)
        raise Failure(DATA, f"transformers has no {task} model of this configuration (try {other}): {brief(error)}") from error
    model.tie_weights()
    if a.batch is not None:
        return from_module(a, model)
    text = getattr(config, "text_config", None) or config
    inputs = transformer_inputs(a, task, config, model)
    names = [one.name for one in inputs]
    cache = {"use_cache": False} if task == "causal-lm" else {}
    module = wrap(model, names, lambda model, values: model(**values, **cache).loss)
    vocabulary = getattr(config, "num_labels", 2) if task == "image" else getattr(text, "vocab_size", None)
    positions = next((size for name in ("max_position_embeddings", "n_positions", "max_seq_len") if (size := getattr(text, name, None)) and size > 0), None)
    return Built(module, model, inputs, vocabulary, positions)


def transformer_inputs(a, task, config, model):
    if task == "image":
        size = getattr(config, "image_size", 224)
        size = [size, size] if isinstance(size, int) else list(size)
        kind = {"f32": "float32", "bf16": "bfloat16"}[a.dtype]
        return [Input("pixel_values", kind, ["batch", getattr(config, "num_channels", 3), *size]), Input("labels", "int64", ["batch"])]
    names = ["input_ids"]
    if a.attention_mask or task == "masked-lm":
        names.append("attention_mask")
    if task == "masked-lm" and getattr(config, "type_vocab_size", 0) > 1 and "token_type_ids" in inspect.signature(model.forward).parameters:
        names.append("token_type_ids")
    return [Input(name, "int64", TEXT) for name in names + ["labels"]]


def load(get, name):
    try:
        return get()
    except (OSError, ValueError, KeyError) as error:
        local = pathlib.Path(name).exists()
        way = ("is it a folder that save_pretrained wrote?" if local else
               "without a network, give a folder that save_pretrained wrote, or --config for random weights")
        raise Failure(DATA if local else NO_INPUT, f"'{name}' cannot be loaded by transformers: {brief(error, 300)}\n  {way}") from error


def read_config(transformers, words):
    source, settings = words
    values = {}
    if source:
        path = pathlib.Path(source)
        path = path / "config.json" if path.is_dir() else path
        try:
            values = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise Failure(NO_INPUT, f"'{path}' does not exist: --config expects a config.json, its folder, or name=value pairs") from error
        except ValueError as error:
            raise Failure(DATA, f"'{path}' is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise Failure(DATA, f"'{path}' holds no configuration: a JSON object is expected")
    values.update(settings)
    kind = values.pop("model_type", None)
    if not isinstance(kind, str):
        raise Failure(USAGE if not source else DATA, "the configuration says no model_type: add model_type=gpt2, model_type=llama, ..")
    try:
        default = transformers.AutoConfig.for_model(kind)
    except ValueError as error:
        raise Failure(DATA, f"transformers does not know the model_type '{kind}'") from error
    known = set(default.to_dict()) | set(getattr(default, "attribute_map", {}))
    odd = [name for name in settings if name not in known and name != "model_type"]
    if odd:
        raise Failure(USAGE, f"a {kind} configuration has no '{odd[0]}'; it has {', '.join(sorted(known))}")
    try:
        return transformers.AutoConfig.for_model(kind, **values)
    except Exception as error:  # any exception of the library
        raise Failure(DATA, f"transformers refuses the configuration: {brief(error)}") from error


def own_model(a):
    """The module that FILE.py:NAME or MODULE:NAME makes."""
    maker = find_own(a.model)
    torch.manual_seed(a.seed)
    try:
        with without_values(a.shapes_only):
            model = maker(**dict(a.arg)) if callable(maker) and not isinstance(maker, nn.Module) else maker
    except Exception as error:
        place = place_in(error)
        raise Failure(DATA, f"{a.model} cannot be called{f', {place}' if place else ''}: {brief(error)}\n  it is called with what --arg NAME=VALUE gives; a function without "
                            "parameters that returns the module always works") from error
    if not isinstance(model, nn.Module):
        raise Failure(DATA, f"{a.model} returns {type(model).__name__}, not a torch.nn.Module")
    return model


def from_module(a, model):
    """A user's module, with its loss."""
    result.said.clear()
    if a.dtype == "bf16":
        model = model.to(torch.bfloat16)
    if any(one.device.type not in ("cpu", "meta") for one in model.parameters()):
        model = model.cpu()
    arguments = None if a.batch is None else Arguments(a.batch, model, ["labels"] if a.loss == "next-token" else [])
    inputs = own_inputs(a, model, arguments)
    names = [one.name for one in inputs]
    call = caller(model, arguments)
    if a.loss == "next-token":
        if taken := [one.name for one in parameters_of(model)[0] if one.name in LABELS and one.name in names]:
            raise Failure(USAGE, f"--loss next-token adds labels of its own, but forward already takes '{taken[0]}'")
        if "labels" not in names:
            inputs.append(Input("labels", "int64", inputs[0].dims))
            names.append("labels")
        module = wrap(model, names, lambda model, values: next_token(call(model, {name: one for name, one in values.items() if name != "labels"}), values["labels"]))
    else:
        module = wrap(model, names, lambda model, values: result.loss_in(call(model, values)))
    built = Built(module, model, inputs, vocabulary_of(model), None)
    if arguments:
        built.given, built.values = arguments.tensors, given.GIVEN
    return built


def caller(model, arguments):
    """What calls a module with values of its inputs, without a cache."""
    without = {"use_cache": False} if any(one.name == "use_cache" for one in parameters_of(model)[0]) else {}
    return lambda model, values: model(**{**without, **(arguments.call(values) if arguments else values)})


def next_token(found, labels):
    logits = found if torch.is_tensor(found) else found.logits if hasattr(found, "logits") else found[0]
    return nn.functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten())


def own_inputs(a, model, arguments):
    """The inputs: tensors of the batch, those that --input describes, and tokens for each other parameter that forward needs."""
    typed, given_parts = {one.name: one for one in a.input}, arguments.parts if arguments else {}
    parameters, inputs = parameters_of(model)[0], []
    if arguments:
        inputs = [typed.pop(name) if name in typed else given.input_of(name, value) for name, value in arguments.tensors.items()]
    for one in parameters:
        name, made = one.name, None
        if name in given_parts:
            continue
        if name in typed:
            made = typed.pop(name)
        elif one.default is one.empty or (name in LABELS and a.loss == "inside" and not arguments):
            made = Input(name, "int64", TEXT)
        if made:
            inputs.append(made)
            if arguments:
                arguments.inputs[name] = made
    if typed:
        raise Failure(USAGE, f"--input {next(iter(typed))}: forward of {type(model).__name__} takes {', '.join(one.name for one in parameters) or 'nothing'}")
    if not inputs:
        raise Failure(DATA, f"forward of {type(model).__name__} takes no inputs that can be named: give it parameters, not *args")
    return inputs


def vocabulary_of(model):
    """An upper bound for example tokens and labels that is valid for every table."""
    sizes = [one.num_embeddings for one in model.modules() if isinstance(one, nn.Embedding)]
    linear = [one.out_features for one in model.modules() if isinstance(one, nn.Linear)]
    return min(sizes + linear[-1:], default=2)


def dropouts(model):
    """Dropout probabilities in training mode, by module."""
    found = {name: one.p for name, one in model.named_modules() if isinstance(one, nn.modules.dropout._DropoutNd) and one.p}
    for name, one in model.named_modules():
        for key in ("attention_dropout", "dropout"):
            if isinstance(getattr(one, key, None), float) and getattr(one, key):
                found[f"{name}.{key}".lstrip(".")] = getattr(one, key)
    return found


def check_renormalized(model):
    """Refuses tables that PyTorch rescales in place before each lookup: only the optimizer of a program changes parameters."""
    found = [f"'{name}'" for name, one in model.named_modules() if isinstance(one, (nn.Embedding, nn.EmbeddingBag)) and one.max_norm is not None]
    if found:
        raise Failure(DATA, f"{', '.join(found[:3])}{f' and {len(found) - 3} more' if found[3:] else ''} has max_norm: PyTorch rescales rows of its weight in place "
                            "before each lookup, and Shale changes parameters only in the optimizer's update. Export the model with max_norm=None")


def set_mode(a, built):
    """Chooses between training and evaluation mode: a user's module keeps its own, a model of transformers is in evaluation mode but for
    its batch normalizations. --dropout is training mode."""
    norms = [(name, one) for name, one in built.model.named_modules()
             if isinstance(one, nn.modules.batchnorm._BatchNorm) and (one.training or not a.own)]
    if a.dropout or not a.own:
        built.model.train(a.dropout)
        for _, norm in norms:
            norm.train()
    if norms:
        note(f"'{norms[0][0]}'{f' and {len(norms) - 1} more' if norms[1:] else ''} normalizes by the batch and updates its running statistics"
             f"{', as in training' if not a.own else '; in evaluation mode (.eval()) it would keep them'}")
    found = dropouts(built.model)
    if found and not built.model.training:
        way = "the module is in evaluation mode; " if a.own else ""
        note(f"the file has no dropout ({next(iter(found))} has {next(iter(found.values()))}): {way}--dropout exports it in training mode")
    elif found and a.own and not a.dropout:
        note("the module is in training mode, so the file has its dropout; 'shalec --dropout off' compiles it without")


def names_of(built):
    """All names of each parameter and buffer in the file, in the order of the module: {tensor: [name]}."""
    names = {}
    for name, one in [*built.model.named_parameters(remove_duplicate=False), *built.model.named_buffers(remove_duplicate=False)]:
        names.setdefault(one, []).append(built.renamed.get(name, name))
    return names


def frozen(built):
    """The parameters that do not require a gradient, or get none, each by all its names."""
    names, parameters = names_of(built), list(built.model.parameters())
    trained = set(parameters if built.trained is None else built.trained)
    found = [names[parameter] for parameter in parameters if not parameter.requires_grad or parameter not in trained]
    if found and len(found) == len(parameters):
        raise Failure(DATA, "no parameter of the module requires a gradient: there is nothing to train")
    return found
