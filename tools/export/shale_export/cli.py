"""Shared parts of the two tools: exit codes, and output files that appear only when complete. Needs only Python."""
import argparse
import contextlib
import errno
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import traceback

USAGE, DATA, NO_INPUT, NO_LIBRARY, INTERNAL, DISK = 64, 65, 66, 69, 70, 74  # the same as for shalec and compiled programs


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(USAGE, f"{message} (--help explains all flags)")


def note(text):
    print(f"note: {text}", file=sys.stderr, flush=True)


def brief(error, limit=600):
    """The message of a library's exception, without its long advice."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    text = "\n  ".join(lines) or "no message"
    return f"{type(error).__name__}: {text[:limit]}{' ..' if len(text) > limit else ''}"


def is_users(path):
    """Whether a source file is the user's."""
    return not re.search(r"site-packages|dist-packages|/shale_export/|/export\.py$|/shale/exporting\.py$|<", path)


def place_of(frame):
    """A line of source, with its file."""
    return f"{frame.filename}:{frame.lineno} '{frame.line}'"


def place_among(frames):
    """The innermost line of the user's files; empty if there is none."""
    return next((place_of(frame) for frame in reversed(frames) if is_users(frame.filename)), "")


def place_in(error):
    """The line of the user's files that raised the exception."""
    return place_among(traceback.extract_tb(error.__traceback__))


@contextlib.contextmanager
def libraries():
    """Reports missing packages of requirements.txt in the enclosed imports."""
    try:
        yield
    except ImportError as error:
        folder = pathlib.Path(__file__).resolve().parents[1]
        raise Failure(NO_LIBRARY, f"{error}: install what {folder / 'requirements.txt'} lists, python3 -m pip install -r {folder / 'requirements.txt'}") from error


def check_output(path):
    """Reports an unwritable output before the long part of the work."""
    path = pathlib.Path(path)
    if path.is_dir():
        raise Failure(USAGE, f"'{path}' is a folder: name a file in it")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise Failure(USAGE, f"there is no folder '{folder}': make it, or choose another output")
    if not os.access(folder, os.W_OK):
        raise Failure(DISK, f"folder '{folder}' cannot be written")
    return path


def find_shalec(given):
    found = shutil.which(given or "shalec")
    if given and not found:
        raise Failure(NO_INPUT, f"--shalec '{given}' is not there or no program")
    return found


@contextlib.contextmanager
def whole_files(path):
    """A folder beside `path` to write in; what lies there in the end takes its place at once, the file named like `path` last. An
    older file of that name goes before the others come, so that no file stands beside another's data."""
    path = pathlib.Path(path).resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield folder
        files = sorted(one for one in folder.iterdir() if one.name != path.name)
        mask = os.umask(0)
        os.umask(mask)
        for one in files + [folder / path.name]:
            os.chmod(one, 0o666 & ~mask)
            with open(one, "rb") as written:
                os.fsync(written.fileno())
        if files:
            path.unlink(missing_ok=True)
        for one in files + [folder / path.name]:
            os.replace(one, path.parent / one.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(tool, main):
    """Runs `main` and ends the process with its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # raises an exception, so incomplete files are removed
    try:
        main()
    except Failure as error:
        print(f"{tool}: error: {error}", file=sys.stderr)
        sys.exit(error.code)
    except KeyboardInterrupt:
        print(f"{tool}: interrupted: nothing is written", file=sys.stderr)
        sys.exit(130)
    except FileNotFoundError as error:
        print(f"{tool}: error: '{error.filename}' does not exist", file=sys.stderr)
        sys.exit(NO_INPUT)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        print(f"{tool}: error: {error}{': free some space, nothing is written' if full else ''}", file=sys.stderr)
        sys.exit(DISK)
    except Exception as error:
        traceback.print_exc()
        print(f"{tool}: internal error: {brief(error, 200)}; nothing is written. Please report it with the lines above", file=sys.stderr)
        sys.exit(INTERNAL)
