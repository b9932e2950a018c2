"""Runs the commands of a page as they are written, with another model: every line of a block that begins with shalec.

    readme.py PAGE MODEL FOLDER
"""
import pathlib
import shlex
import shutil
import subprocess
import sys

page, model, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
blocks = page.read_text().split("```")[1::2]
commands = [line for block in blocks for line in block.splitlines() if line.startswith("shalec ")]
assert commands, f"{page} has no commands"
for command in commands:
    words = shlex.split(command, comments=True)
    shutil.copy(model, pathlib.Path(folder) / words[1])
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{command}\nended with {run.returncode}: {run.stderr[-500:]}")
    print(command, run.stdout, sep="\n")
