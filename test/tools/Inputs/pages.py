"""Runs the commands of the pages in docs: every line of a block that begins with shalec. (test/e2e/use/docs.py runs those of README.md,
docs/concepts.md, docs/develop.md, docs/plugins.md, docs/guide and docs/howto.)

    pages.py SOURCE FOLDER NAME.onnx=MODEL...

All commands run in FOLDER, where each NAME.onnx is a copy of MODEL.
"""
import pathlib
import shlex
import shutil
import subprocess
import sys

source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
for argument in sys.argv[3:]:
    name, model = argument.split("=")
    shutil.copy(model, folder / name)
for page in sorted((source / "docs").glob("*.md")):
    if page.stem in ("concepts", "develop", "plugins"):
        continue
    blocks = page.read_text().split("```")[1::2]
    for command in [line for block in blocks for line in block.splitlines() if line.startswith("shalec ")]:
        run = subprocess.run(shlex.split(command, comments=True), cwd=folder, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{page}: {command}\nended with {run.returncode}: {run.stderr[-500:]}")
        print(f"{page.relative_to(source)}: {command}", run.stdout, sep="\n")
