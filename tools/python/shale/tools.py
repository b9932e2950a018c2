"""The tools of the release, and the commands that run them."""
import os
import pathlib
import shutil
import subprocess
import sys

from .errors import Unavailable, error_of

RELEASE = pathlib.Path(__file__).resolve().parent / "release"


def tool(name):
    """The path of a tool: of the release in this package, or else of the PATH."""
    own = RELEASE / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if not found:
        raise Unavailable(f"there is no {name}: install the wheel that tools/package makes, or put {name} on the PATH")
    return found


def run(words, what):
    """Runs a command. Returns its standard output; its notes and warnings go to sys.stderr. Raises the error of its exit code."""
    done = subprocess.run([os.fspath(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise error_of(done.returncode, done.stderr, what)
    sys.stderr.write(done.stderr)
    return done.stdout


def main():
    """Becomes the tool that has the name of this command."""
    path = tool(os.path.basename(sys.argv[0]))
    os.execv(path, [path, *sys.argv[1:]])
