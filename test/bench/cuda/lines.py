"""What the lines of all parts of the GPU benchmark share."""
import os
import pathlib
import shutil
import subprocess

from parts import LIBRARIES, archive
from runner import Deviates

SECONDS = 90  # that a program may take if it is not measured


class Lines:
    """What the lines of a part share: its programs, and the environment in which these run."""

    def __init__(self, a, part, notes, work, place):
        self.a, self.part, self.notes, self.work, self.place = a, part, notes, work, place
        paths = [os.environ.get("LD_LIBRARY_PATH"), str((a.folder / LIBRARIES).resolve())]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}
        self.folder = a.libraries or linked_libraries(a.torch or "python3", work / "cuda")  # of NVIDIA's libraries
        self.libraries = ["--cuda-libraries", self.folder] if self.folder else []


def unpacked(folder, part, work):
    """The folder with the programs of a part of `folder`, unpacked into `work` if it is an archive."""
    place, path = folder / part, archive(folder, part)
    if place.is_dir():
        return place
    if not path.exists():
        raise Deviates(f"there is no {path}: compile it with --part {part}")
    shutil.unpack_archive(path, work / part)
    return work / part


def linked_libraries(python, folder):
    """Makes a folder of links to NVIDIA's libraries among the packages of a Python. Returns None if it has none."""
    try:
        text = subprocess.run([python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"], capture_output=True, text=True,
                              timeout=SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    for path in (path for root in text.splitlines() for path in sorted(pathlib.Path(root).glob("*/lib/*.so*"))):
        folder.mkdir(exist_ok=True)
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path.resolve())
    return folder if folder.exists() else None
