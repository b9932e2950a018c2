"""Runs the parts of the GPU benchmark on a machine with a GPU."""
import pathlib
import tempfile

from fixture_lines import FixtureLines
from kernel_lines import KernelLines
from lines import unpacked
from model_lines import ModelLines
from notes import LeftOut, Notes, describe
from parts import PARTS, archive
from runner import Deviates

# What the parts show: the lines of the table.
LINES = {"kernels": (KernelLines, {"bits": KernelLines.bits, "sanitizer": KernelLines.sanitizer}),
         "fixtures": (FixtureLines, {"staged": FixtureLines.staged, "one_rank": FixtureLines.one_rank, "one_gpu": FixtureLines.one_gpu,
                                     "offload": FixtureLines.offload, "optimizers": FixtureLines.optimizers, "tensor": FixtureLines.tensor})}


def lines_of(part):
    """The class of a part's lines, and these by name."""
    return LINES.get(part, (ModelLines, {part: ModelLines.model, "profile": ModelLines.profile, "counters": ModelLines.counters}))


def run_part(a, part, work):
    """Runs the lines of a part, or one of them. Returns their errors."""
    kind, lines = lines_of(part)
    if a.line and a.line not in lines:
        raise Deviates(f"there is no line {a.line}, but {', '.join(lines)}")
    notes, failures = Notes(a.results / f"{part}.json"), []
    runner = kind(a, part, notes, work, unpacked(a.folder, part, work))
    a.results.mkdir(parents=True, exist_ok=True)
    for line in [a.line] if a.line else lines:
        notes.begin(line)
        try:
            lines[line](runner)
        except LeftOut as reason:
            notes.now["left_out"] = str(reason)
            print(f"{line}: left out: {reason}", flush=True)
        except Exception as error:  # of the line itself: the others run
            notes.now["errors"][line] = describe(error)
        notes.end()
        failures += [f"{line}: {name}: {error}" for name, error in notes.now["errors"].items()]
    print(f"results: {notes.path}", flush=True)
    return failures


def run_parts(a):
    """Runs a part, or all that were compiled."""
    parts, failures = [a.part], []
    if a.part == "all":
        parts = [part for part in PARTS if (a.folder / part).is_dir() or archive(a.folder, part).exists()]
        if not parts:
            raise Deviates(f"{a.folder} has no part: make them with compile")
    for part in parts:
        with tempfile.TemporaryDirectory() as work:
            found = run_part(a, part, pathlib.Path(work))
        failures += found if a.part != "all" else [f"{part}: {failure}" for failure in found]
    if failures:
        raise Deviates("\n".join(failures))
