#!/usr/bin/env python3
"""Runs the commands of README.md, CONTRIBUTING.md, docs/concepts.md, docs/develop.md, docs/plugins.md, docs/guide and docs/howto on small models.

usage: e2e docs --build DIR [--page docs/guide/data.md] [--verbose]

Each page runs in a folder of its own, with `model.onnx`, `tokens.bin` and the other files of `prepare`, and `shalec` on the PATH.
The blocks of a page run in order, each in its own `bash -euo pipefail`. The fence names the kind of the block:

  sh, bash, none   commands, which run
  python           a script, which runs (with numpy, without torch)
  anything else    text, which does not run

A comment on the line before a fence changes this:

  <!-- exit 78 -->             the commands must end with this code
  <!-- not run: REASON -->     the block does not run; its flags, its files of build/ and the tests that it names by ctest -R must exist
  <!-- prints -->              (before text) the block before must print each line; `..` stands for any characters
  <!-- file: NAME -->          the block is written to this file

The results of `shalec` are cached by arguments and inputs, so a command that is on several pages compiles once. Every flag on a
page, in a block or in the text, must be in the `--help` of a tool or in FOREIGN, the flags of other programs.
"""
import array
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys

from runner import MODELS, ROOT, Deviates, main, run

FENCE = re.compile(r"^(?:<!-- *(?P<note>[^\n]*?) *-->\n)?(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
COMMANDS, SCRIPTS = ("", "sh", "bash"), ("python",)
# Flags of programs that are not Shale's.
FOREIGN = {"--param", "--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--time",
           "--host", "--network", "--volume", "--logdir", "--export", "--nodes", "--signal", "--requeue", "--version", "--check", "--all", "--tests", "--package", "--list",
           "--bind-to", "--oversubscribe", "--job-name", "--output", "--rm", "--no-python", "--mca", "--kill-on-bad-exit", "--output-on-failure",
           "--gtest_filter", "--secret", "--from-file", "--local-dir", "--model_args", "--tasks", "--include_path", "--batch_size", "--device", "--outfile", "--outtype", "--install", "--prefix", "--build", "--gpus-per-task", "--cuda-graph-trace", "--kernel-name"}
# Flags of programs for GPUs only; test/lib/Target/CUDA/run.test checks that they exist.
GPU = {"--cuda-libraries", "--comm", "--no-graph", "--report-device", "--tune-matmuls"}
SECONDS = 600
LOADER = "error while loading shared libraries"

SHIM = '''#!/usr/bin/python3
"""shalec, which remembers: a program is compiled once for its arguments and its model."""
import hashlib, os, pathlib, shutil, subprocess, sys
kept, real, words = pathlib.Path(KEPT), REAL, sys.argv[1:]
out = words[words.index("-o") + 1] if "-o" in words[:-1] else "train"
made = [w for w in words if w.startswith(("--report", "--save-temps", "--bundle"))]
key = hashlib.sha256("\\0".join(words).encode())
for word in words:
    if os.path.isfile(word) and word != out:
        key.update(pathlib.Path(word).read_bytes())
place = kept / key.hexdigest()
if not made and place.exists():
    sys.stdout.write((place / "stdout").read_text())
    sys.stderr.write((place / "stderr").read_text())
    if (place / "program").exists():
        shutil.copy2(place / "program", out)
    sys.exit(0)
before = os.stat(out).st_mtime_ns if os.path.isfile(out) else 0
done = subprocess.run([real, *words], capture_output=True, text=True)
sys.stdout.write(done.stdout)
sys.stderr.write(done.stderr)
if done.returncode == 0 and not made:
    place.mkdir(parents=True, exist_ok=True)
    (place / "stdout").write_text(done.stdout)
    (place / "stderr").write_text(done.stderr)
    if os.path.isfile(out) and os.stat(out).st_mtime_ns != before:
        shutil.copy2(out, place / "program")
sys.exit(done.returncode)
'''


class Page:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
        self.blocks = [Block(self, m) for m in FENCE.finditer(self.text)]
        fences = len(re.findall(r"^ *```", self.text, re.M))
        if fences != 2 * len(self.blocks):
            raise Deviates(f"{self.name}: {fences} fences, but {len(self.blocks)} blocks")

    def prose(self):
        """The text without blocks."""
        return FENCE.sub("", self.text)


class Block:
    def __init__(self, page, match):
        self.kind, self.note = match["kind"], match["note"] or ""
        self.text = re.sub(f"^{match['indent']}", "", match["text"], flags=re.M)
        self.where = f"{page.name}:{page.text.count(chr(10), 0, match.start('text')) + 1}"
        note = re.fullmatch(r"exit (\d+)|not run: (.+)|(prints)|file: (\S+)", self.note)
        # Other comments are ignored, but a malformed comment for this test is an error.
        if not note and re.match(r"(exit|not run|prints|file)\b", self.note):
            raise Deviates(f"{self.where}: '{self.note}' is not a note of this test")
        code, self.left_out, self.printed, self.file = note.groups() if note else (None, None, None, None)
        self.code = int(code or 0)


def flags_of_help(command):
    text = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60).stdout
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
    if len(flags) < 3:
        raise Deviates(f"{command[0]} {command[1]} names no flags")
    return flags


def flags_of_script(name):
    """The flags in the source of a script of tools/export, since running it needs torch. None if the script does not exist."""
    script = ROOT / "tools" / "export" / name
    return set(re.findall(r'"(--[a-z][a-z-]*)"', script.read_text())) | {"--help", "--no-check"} if script.exists() else None


def command_lines(text):
    """The commands of a block as words. A backslash at the end of a line joins it with the next."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.strip().startswith("#"):
            try:
                yield shlex.split(line, comments=True)
            except ValueError:
                yield line.split()


def check_flags(page, known):
    """A flag in a command must exist in its tool, a flag in text in any tool."""
    everything = set().union(*(flags for flags in known.values() if flags)) | FOREIGN | GPU
    for block in page.blocks:
        if block.kind not in COMMANDS or block.file:
            continue
        for words in command_lines(block.text):
            tool = next((t for t in known if any(os.path.basename(w) == t or (t == "train" and "/train" in w) for w in words)), None)
            if tool and known[tool] is None:
                continue
            taken = (known[tool] | FOREIGN | (GPU if tool == "train" else set())) if tool else everything
            for flag in (w.split("=")[0] for w in words if w.startswith("--") and len(w) > 2):
                if flag not in taken and block.code != 64:
                    raise Deviates(f"{block.where}: {tool or 'no tool'} has no flag {flag}")
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^\| typed \|.*?\n\n", "", page.prose() + "\n", flags=re.M | re.S)):
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span):
            if flag not in everything:
                raise Deviates(f"{page.name}: no tool has the flag {flag} of `{span}`")


def check_left_out(page, build):
    """Commands that do not run must name files of the build folder, and tests, that exist."""
    for block in page.blocks:
        if not block.left_out or block.kind not in COMMANDS:
            continue
        for words in command_lines(block.text):
            for word in words:
                # lit finds the configuration of build/test, and reads the files of test.
                if word.startswith("build/") and not (build / word[6:]).exists() and not (word.startswith("build/test/") and (ROOT / word[6:]).exists()):
                    raise Deviates(f"{block.where}: there is no {word}")
            if words[0] == "ctest" and "-R" in words:
                for pattern in words[words.index("-R") + 1].split("|"):
                    if "Total Tests: 0" in run(["ctest", "--test-dir", build, "-N", "-R", pattern], "ctest -N").stdout:
                        raise Deviates(f"{block.where}: no test has a name like {pattern}")


def check_links(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.prose()):
        if "://" not in target and not (page.path.parent / target).exists():
            raise Deviates(f"{page.name}: there is no {target}")


def prepare(folder):
    """Fills the folder of a page: models of test/models, and tokens of the text there in every format."""
    for name, source in {"model.onnx": "gpt2/model.onnx", "gpt2.onnx": "gpt2/model.onnx", "llama.onnx": "llama/model.onnx",
                         "scores.onnx": "plain/model.onnx", "experts.onnx": "experts/cases/gated/model.onnx", "batches.safetensors": "gpt2/batches.safetensors",
                         "folded.onnx": "gpt2/model-default-export.onnx"}.items():
        shutil.copy(MODELS / source, folder / name)
    text = (MODELS / "data" / "tinyshakespeare.txt").read_bytes()
    (folder / "text.txt").write_bytes(text[:60000])
    (folder / "held-out.txt").write_bytes(text[-6000:])
    for name, kind, part in (("tokens.bin", "H", text[:60000]), ("held-out.bin", "H", text[-6000:]), ("tokens32.bin", "I", text[:60000]),
                             ("tokens64.bin", "q", text[:60000])):
        (folder / name).write_bytes(array.array(kind, list(part)).tobytes())
    (folder / "corpus").mkdir()
    for n in range(2):
        (folder / "corpus" / f"part-{n}.bin").write_bytes(array.array("H", list(text[60000 * n:60000 * (n + 1)])).tobytes())
    (folder / "hf").mkdir()
    shutil.copy(MODELS / "gpt2" / "final.safetensors", folder / "hf" / "model.safetensors")
    shutil.copy(MODELS / "plain" / "final.safetensors", folder / "scores.safetensors")
    (folder / "hf" / "config.json").write_text('{"model_type": "gpt2"}\n')
    (folder / "shale").symlink_to(ROOT)
    (folder / "test").symlink_to(ROOT / "test") # README's commands are those of the checkout's folder


def check_prints(block, printed):
    for line in block.text.splitlines():
        pattern = r"[^\n]*?".join(re.escape(part) for part in re.split(r"\.\.", line.strip()))
        if line.strip() and not re.search(pattern, printed):
            raise Deviates(f"{block.where}: the block before does not print '{line.strip()}', but\n{printed[-1500:]}")


SRUN = """#!/bin/bash
# Stands in for srun: one process per task, with Slurm's variables.
while [[ $1 == --* ]]; do shift; done
export SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost SLURM_JOB_NODELIST=localhost
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task "$@" & ids="$ids $!"; done
worst=0
for id in $ids; do wait "$id" || worst=$?; done
exit "$worst"
"""


def sources():
    """The string literals of the programs. Adjacent literals are joined as by the compiler."""
    text = ""
    for folder in ("runtime", "lib", "dialects", "passes", "tools"):
        for path in sorted(each for each in (ROOT / folder).rglob("*") if each.suffix in (".cpp", ".def")):
            text += re.sub(r'"\s*\n\s*"', "", path.read_text())
    return text.replace('\\"', '"')


def check_messages(page):
    """Each message of troubleshooting.md and exporting.md must be in the sources, except for its variable parts."""
    text, checked, inside = sources(), 0, False
    for line in page.prose().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        inside = bool(cells) and (cells[0] == "message" or inside)
        if not inside or cells[0] in ("message", "---"):
            continue
        message = re.match(r"`([^`]+)`", cells[0])
        if not message:
            raise Deviates(f"{page.name}: no message in '{line}'")
        parts = [part.strip() for part in re.split(r"\.\.|'?\b(?:NAME|NODE|CONSTANT|W|P|N|SIZE)\b'?=?", message[1])]
        for part in parts:
            # The longest piece between quotes must be in a literal, or in two adjacent ones.
            piece = max(re.split(r"['=]", part), key=len).strip()
            cuts = [at.start() for at in re.finditer(" ", piece)]
            said = piece in text or piece in LOADER or any(piece[:at] in text and '"' + piece[at:] in text for at in cuts)
            if len(piece) > 5 and not said:
                raise Deviates(f"{page.name}: nobody says '{piece}' of `{message[1]}`")
        checked += 1
    return checked


def check_batch_file(folder, environment):
    """Runs train.sbatch with stand-ins for srun and scontrol: the run ends, and a stopped run is queued again."""
    for name, text in (("srun", SRUN), ("scontrol", "#!/bin/bash\necho \"$@\" >>scontrol.log\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    settings = {**environment, "PATH": f"{folder}:{environment['PATH']}", "SLURM_JOB_ID": "17", "SHALE_PORT": str(port), "STEPS": "4",
                "WARMUP": "1", "OUT": "run-slurm"}
    command = ["bash", str(ROOT / "docs" / "guide" / "train.sbatch")]
    result = subprocess.run(command, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    if result.returncode or "step 4/4" not in result.stdout or (folder / "scontrol.log").exists():
        raise Deviates(f"train.sbatch ended with {result.returncode}:\n{result.stdout[-1500:]}")
    (folder / "srun").write_text("#!/bin/bash\nexit 75\n")
    result = subprocess.run(command, cwd=folder, env=settings, timeout=SECONDS)
    if result.returncode != 75 or (folder / "scontrol.log").read_text() != "requeue 17\n":
        raise Deviates(f"train.sbatch ended with {result.returncode} when it was stopped, and did not requeue its job")


def check_answers(page, folder, environment):
    """Runs the commands of tables with the columns `typed` and `answer`: they must end with 64 and print the answer."""
    rows, inside = 0, False
    for line in page.prose().splitlines():
        cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        inside = cells == ["typed", "answer"] or (inside and len(cells) == 2)
        if not inside or cells[0] in ("typed", "---"):
            continue
        words = cells[0].split()
        words[1:1] = ["model.onnx", "--dim", "batch=4", "--dim", "sequence=64"] if words[0] == "shalec" else ["--data", "tokens.bin"]
        result = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
        rows += 1
        if result.returncode != 64 or cells[1] not in result.stderr:
            raise Deviates(f"{page.name}: '{cells[0]}' ends with {result.returncode} and says\n{result.stderr}")
    return rows


def run_page(page, folder, environment, verbose):
    folder.mkdir()
    prepare(folder)
    done, left, printed = 0, [], ""
    for block in page.blocks:
        if block.left_out:
            left.append(f"{block.where}: {block.left_out}")
        elif block.printed:
            check_prints(block, printed)
        elif block.file:
            (folder / block.file).write_text(block.text)
        elif block.kind in COMMANDS + SCRIPTS:
            command = ["bash", "-euo", "pipefail", "-c", block.text] if block.kind in COMMANDS else [sys.executable, "-c", block.text]
            result = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=SECONDS, errors="replace")
            printed = result.stdout
            if verbose:
                print(f"== {block.where}\n{printed}", flush=True)
            if result.returncode != block.code:
                raise Deviates(f"{block.where} ended with {result.returncode}, not {block.code}:\n{printed[-1500:]}")
            done += 1
    done += check_answers(page, folder, environment) + check_messages(page)
    if (folder / "train").exists() and page.path.name == "launching.md":
        check_batch_file(folder, environment)
        done += 1
    return done, left


WRONG = {  # pages that the test must refuse, with a part of its message
    "a flag of nobody": ("```sh\nshalec model.onnx --no-such-flag\n```\n", "has no flag --no-such-flag"),
    "a flag of nobody, not run": ("<!-- not run: why -->\n```sh\n./train --no-such-flag\n```\n", "has no flag --no-such-flag"),
    "a flag of nobody in the text": ("Say `--no-such-flag`.\n", "no tool has the flag"),
    "a file of nobody, not run": ("<!-- not run: why -->\n```sh\nlit -v build/test/passes/nobody.mlir\n```\n", "there is no build/test/passes/nobody.mlir"),
    "a test of nobody, not run": ("<!-- not run: why -->\n```sh\nctest -R '^nobody$'\n```\n", "no test has a name like ^nobody$"),
    "another exit code": ("<!-- exit 65 -->\n```sh\ntrue\n```\n", "ended with 0, not 65"),
    "a command that fails": ("```sh\nfalse | cat\n```\n", "ended with 1, not 0"),
    "a script that fails": ("```python\nraise SystemExit(3)\n```\n", "ended with 3, not 0"),
    "other output": ("```sh\necho one\n```\n\n<!-- prints -->\n```text\ntwo\n```\n", "does not print 'two'"),
    "a message of nobody": ("| message | remedy |\n|---|---|\n| `the moon is in the wrong house` | wait |\n", "nobody says"),
    "an answer of nobody": ("| typed | answer |\n|---|---|\n| `shalec --lr 1` | `the moon` |\n", "ends with 64 and says"),
    "a page that is not there": ("See [this](no-such-page.md).\n", "there is no no-such-page.md"),
    "a note that is none": ("<!-- exit soon -->\n```sh\ntrue\n```\n", "is not a note of this test"),
    "a fence without an end": ("```sh\ntrue\n", "fences"),
}


def check_itself(work, build, known, environment):
    """The test must refuse each wrong page."""
    for number, (what, (text, said)) in enumerate(WRONG.items()):
        path = work / f"wrong{number}.md"
        path.write_text(text)
        try:
            page = Page(path)
            check_flags(page, known)
            check_left_out(page, build)
            check_links(page)
            run_page(page, work / f"wrong{number}", environment, False)
        except Deviates as error:
            if said in str(error):
                continue
            raise Deviates(f"a page with {what}: '{error}' does not say '{said}'")
        raise Deviates(f"a page with {what} is not refused")


def check(a, work):
    (work / "bin").mkdir()
    (work / "kept").mkdir()
    shim = work / "bin" / "shalec"
    tools = pathlib.Path(a.build).resolve() / "bin"
    shim.write_text(SHIM.replace("KEPT", repr(str(work / "kept"))).replace("REAL", repr(str(tools / "shalec"))))
    shim.chmod(0o755)
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("OMP_", "SHALE_", "SLURM_", "OMPI_", "PMIX_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_"))}
    environment = {**clean, "PATH": f"{work / 'bin'}:{tools}:{os.environ['PATH']}", "TERM": "dumb", "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    for name, optimizer in ("program", "adamw"), ("program-muon", "muon"):
        run([shim, MODELS / "gpt2" / "model.onnx", "-o", work / name, "--dim", "batch=4", "--dim", "sequence=64", "--optimizer", optimizer],
            "shalec", environment)
    known = {**{tool: flags_of_help([f"{a.build}/bin/{tool}", "--help-all" if tool == "shalec" else "--help"])
                for tool in ("shalec", "shalec-toy", "shale-opt", "shale-reduce", "shale-run", "shale-translate")},
             "train": flags_of_help([work / "program", "--help"]) | flags_of_help([work / "program-muon", "--help"]), "export.py": flags_of_script("export.py"), "tokens.py": flags_of_script("tokens.py")}
    pages = [Page(path) for path in ([ROOT / a.page] if a.page else [ROOT / "README.md", ROOT / "docs" / "CONTRIBUTING.md", ROOT / "docs" / "concepts.md", ROOT / "docs" / "develop.md",
                                                                      ROOT / "docs" / "plugins.md",
                                                                      *sorted((ROOT / "docs" / "guide").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))])]
    check_itself(work, tools.parent, known, environment)
    total, left = 0, []
    for number, page in enumerate(pages):
        check_flags(page, known)
        check_left_out(page, tools.parent)
        check_links(page)
        done, out = run_page(page, work / f"page{number}", environment, a.verbose)
        total += done
        left += out
        print(f"{page.name}: {done} blocks ran, {len(out)} left out", flush=True)
    for line in left:
        print("left out", line)
    return f"{total} blocks of {len(pages)} pages, {len(left)} left out"


if __name__ == "__main__":
    main(check, ("--page", {}), ("--verbose", {"action": "store_true"}), success="runs:")
