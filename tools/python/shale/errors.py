"""Errors of shalec, of its programs and of exports, by exit code."""
import signal


class Error(Exception):
    """An error. `code` is the exit code, negative for a signal."""
    code = None

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = self.code if code is None else code


class UsageError(Error):
    """A flag is wrong, or does not fit the others."""
    code = 64


class DataError(Error):
    """The model, the data or a checkpoint is damaged or not supported."""
    code = 65


class MissingInput(Error):
    """An input file does not exist."""
    code = 66


class Unavailable(Error):
    """This machine lacks a device, a library or instructions."""
    code = 69


class InternalError(Error):
    """A bug in Shale."""
    code = 70


class OutputError(Error):
    """A file cannot be written."""
    code = 74


class Preempted(Error):
    """The run was stopped by a signal. Its state is saved."""
    code = 75


class PeerFailed(Error):
    """A rank or a collective failed."""
    code = 76


class NoFit(Error):
    """No plan fits the memory limit."""
    code = 78


class NonFinite(Error):
    """The loss or the gradient norm is not finite."""
    code = 93


class ReplicasDiffer(Error):
    """Ranks hold different bits of what must be equal."""
    code = 94


class InterruptedRun(Error):
    """The run was interrupted. Its state is saved."""
    code = 130


BY_CODE = {kind.code: kind for kind in Error.__subclasses__()}


def error_of(code, text, what):
    """The exception for a tool that ended with `code` after it wrote `text` to standard error."""
    if code < 0:
        return Error(f"{what} was ended by {signal.Signals(-code).name}\n{text}".strip(), code)
    return BY_CODE.get(code, Error)(text.strip() or f"{what} ended with {code}", code)
