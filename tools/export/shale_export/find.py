"""Finds what FILE.py:NAME or MODULE:NAME names."""
import importlib
import importlib.util
import inspect
import os
import pathlib
import sys

from torch import nn

from .cli import DATA, NO_INPUT, Failure, brief


def find_own(spec):
    """The class or function that FILE.py:NAME or MODULE:NAME names."""
    place, _, name = spec.rpartition(":")
    sys.path.insert(0, os.getcwd())
    try:
        if place.endswith(".py"):
            path = pathlib.Path(place)
            if not path.is_file():
                raise Failure(NO_INPUT, f"'{path}' does not exist")
            sys.path.insert(0, str(path.resolve().parent))
            found = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(found)
            sys.modules[path.stem] = module
            found.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except Failure:
        raise
    except ModuleNotFoundError as error:
        if error.name == place:
            raise Failure(NO_INPUT, f"there is no module '{place}' here: give FILE.py:NAME, or run where it can be imported") from error
        raise Failure(DATA, f"'{place}' cannot be imported: {brief(error)}") from error
    except Exception as error:  # any exception of the user's file
        raise Failure(DATA, f"'{place}' cannot be imported: {brief(error)}") from error
    if not hasattr(module, name):
        have = [one for one, value in vars(module).items() if inspect.isclass(value) and issubclass(value, nn.Module) and value.__module__ == module.__name__]
        raise Failure(DATA, f"'{place}' has no '{name}'{'; it has ' + ', '.join(have) if have else ''}")
    return getattr(module, name)
