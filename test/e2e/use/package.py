#!/usr/bin/env python3
"""The release of tools/package needs nothing but glibc 2.34. Compiles and trains the demo model with it, on two fully sharded ranks, in a root folder
without compilers; the weights must have the bits of the build tree's.

usage: e2e package --build DIR                   the folder, in a root of glibc's own libraries as of 2.34 (old_glibc.py), and of today's
       e2e package --build DIR --roots [--python PYTHON]
                                                tarball and wheel in Debian 12 and 13; needs root, debootstrap and the network. With a PYTHON
                                                that has torch: also the five lines of tools/python/README.md
"""
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import old_glibc
from runner import LOSS, MODELS, ROOT, WEIGHT, Deviates, main, run

TEXT = MODELS / "data/tinyshakespeare.txt"
COMPILE = ["--dim", "batch=16", "--dim", "sequence=128", "--mesh", "fsdp=2", "--shard", "full"]
TRAIN = ["--steps", "20", "--lr", "3e-3", "--nproc", "2"]
LIBRARIES = "lib/x86_64-linux-gnu"
GLIBC = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2"]
COMPILERS = ["usr/bin/cc", "usr/bin/c++", "usr/bin/gcc", "usr/bin/ld", "usr/bin/clang"]
RELEASES = ["bookworm", "trixie"]  # of Debian
MOST = 120_000_000


def inside(root, words, what, code=0):
    """Runs a command in a root folder. A mount namespace of its own takes the mounts away at its end."""
    space = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /bin/env -i PATH=/usr/bin:/bin HOME=/tmp "$@"'
    if not (root / "bin/env").exists():
        script = script.replace("/bin/env -i PATH=/usr/bin:/bin HOME=/tmp ", "")
    done = subprocess.run([*space, "/bin/sh", "-c", script, root, *map(str, words)], capture_output=True, text=True, errors="replace", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    if done.returncode != code:
        raise Deviates(f"{what} ends with {done.returncode}, not {code}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout + done.stderr


def glibc_root(root):
    """A root folder with glibc's libraries as of 2.34, where its loader searches, and nothing else."""
    for folder in ("proc", "dev", "tmp", "lib64", "work", LIBRARIES, "original"):
        (root / folder).mkdir(parents=True)
    hidden = old_glibc.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64/ld-linux-x86-64.so.2")
    for name in GLIBC:
        hidden |= old_glibc.copy(f"/{LIBRARIES}/{name}", root / LIBRARIES / name)
    if not {"arc4random", "_dl_find_object"} <= hidden:
        raise Deviates(f"the root's glibc still has symbols after 2.34: only {sorted(hidden)} are hidden")
    for name in ("libstdc++.so.6", "libgcc_s.so.1"):
        shutil.copy(f"/{LIBRARIES}/{name}", root / "original")
    return root


def check_old_glibc(root):
    """The root refuses what needs a newer glibc: this machine's libraries in place of the release's."""
    for name, symbol_version in (("libstdc++.so.6", "GLIBC_2.36"), ("libgcc_s.so.1", "GLIBC_2.35")):
        said = inside(root, ["/lib64/ld-linux-x86-64.so.2", "--preload", f"/original/{name}", "/release/bin/shalec", "--version"],
                      f"shalec with this machine's {name}", code=1)
        if f"version `{symbol_version}' not found" not in said:
            raise Deviates(f"with this machine's {name} the loader prints {said[-300:]!r}")


def today(root):
    """Replaces the root's glibc by this machine's."""
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    for name in GLIBC:
        shutil.copy(f"/{LIBRARIES}/{name}", root / LIBRARIES)


def check_tool(path):
    """tools/scripts/check_glibc.py names the file, the version and the symbol."""
    words = ["/usr/bin/python3", ROOT / "tools/scripts/check_glibc.py"]
    for files, code, part in ((["/lib/x86_64-linux-gnu/libstdc++.so.6"], 70, "needs GLIBC_2.36 for arc4random"), (["--newest", "new", path], 64, "such as 2.34"),
                              ([path / "none"], 66, "there is no"), ([path / "share"], 66, "no shared library"),
                              ([path / "lib/libgcc_s.so.1"], 70, "needs _dl_find_object without a version, and no file defines it")):
        done = subprocess.run([*words, *files], capture_output=True, text=True)
        if done.returncode != code or part not in done.stderr:
            raise Deviates(f"check_glibc.py of {files} ends with {done.returncode} and {done.stderr!r}")


def own_run(a, work):
    """The weights of the build tree's run, and that of the release must be these."""
    run([a.build / "bin/shalec", MODELS / "demo/model.onnx", "-o", work / "own", *COMPILE], "shalec of the build tree")
    run([work / "own", "--data", TEXT, *TRAIN, "--out", work / "own-run"], "the program of the build tree")
    return (work / "own-run/model.safetensors").read_bytes()


def put_inputs(root):
    (root / "work").mkdir(exist_ok=True)
    shutil.copy(MODELS / "demo/model.onnx", root / "work/model.onnx")
    shutil.copy(TEXT, root / "work/text.txt")


def train_inside(root, compiler, wanted, where):
    """Compiles and trains in /work of a root folder."""
    inside(root, [compiler, "/work/model.onnx", "-o", "/work/train", *COMPILE], f"shalec in {where}")
    inside(root, ["/work/train", "--data", "/work/text.txt", *TRAIN, "--out", "/work/run"], f"the program in {where}")
    if (root / "work/run/model.safetensors").read_bytes() != wanted:
        raise Deviates(f"the weights in {where} have other bits than the build tree's")


def check_folder(a, work):
    wanted = own_run(a, work)
    run(["/usr/bin/python3", ROOT / "tools/scripts/package.py", "--build", a.build, "--out", work / "made", "folder"], "package.py")
    root = glibc_root(work / "root")
    [release] = (work / "made").iterdir()
    check_tool(release)
    release.rename(root / "release")
    put_inputs(root)
    check_old_glibc(root)
    tools = sorted(path.name for path in (root / "release/bin").iterdir())
    for tool in tools:
        inside(root, [f"/release/bin/{tool}", "--help"], tool)
    train_inside(root, "/release/bin/shalec", wanted, "the empty root")
    # An exception of C++ becomes an exit code: the unwinder finds its tables.
    said = inside(root, ["/work/train", "--data", "/work/none", "--out", "/work/none-run"], "the program without data", code=66)
    if "/work/none" not in said:
        raise Deviates(f"without data the program prints {said[-300:]!r}")
    for name in ("LICENSE", "docs/guide/getting-started.md", "libraries/libgloo0.txt"):
        if not (root / "release/share/doc/shale" / name).is_file():
            raise Deviates(f"the release has no {name}")

    # A bundled program is independent of the release.
    inside(root, ["/release/bin/shalec", "/work/model.onnx", "-o", "/work/moved", "--bundle", *COMPILE], "shalec --bundle")
    (root / "release").rename(root / "gone")
    inside(root, ["/work/moved", "--data", "/work/text.txt", *TRAIN, "--out", "/work/run2"], "the bundled program without the release")
    if (root / "work/run2/model.safetensors").read_bytes() != wanted:
        raise Deviates("the bundled program has other bits")
    (root / "gone").rename(root / "release")
    today(root)
    for folder in ("run", "run2"):
        shutil.rmtree(root / "work" / folder)
    inside(root, ["/work/moved", "--data", "/work/text.txt", *TRAIN, "--out", "/work/run2"], "the bundled program with a newer glibc")
    train_inside(root, "/release/bin/shalec", wanted, "the empty root with a newer glibc")
    if (root / "work/run2/model.safetensors").read_bytes() != wanted:
        raise Deviates("the bundled program has other bits with a newer glibc")

    # A release that is not whole: an error, and no program.
    (root / "release/lib/link/crti.o").unlink()
    said = inside(root, ["/release/bin/shalec", "/work/model.onnx", "-o", "/work/none", *COMPILE], "shalec without crti.o", code=74)
    if "crti.o" not in said or list((root / "work").glob("none*")):
        raise Deviates(f"without crti.o shalec prints {said[-300:]!r}, or leaves files")
    return f"{len(tools)} tools run, and the demo trains, where only glibc 2.34 is"


def debian(work, name):
    """A minimal root of a release of Debian, with Python and without compilers."""
    root = work / name
    run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv,python3-pip", name, root], f"debootstrap {name}")
    have = [path for path in COMPILERS if (root / path).exists()]
    if have:
        raise Deviates(f"the root of {name} has compilers: {have}")
    return root


def check_roots(a, work):
    wanted = own_run(a, work)
    print(run(["/usr/bin/python3", ROOT / "tools/scripts/package.py", "--build", a.build, "--out", work / "made"], "package.py").stdout, end="", flush=True)
    [tarball], [wheel] = (work / "made").glob("*.tar.xz"), (work / "made").glob("*.whl")
    for path in (tarball, wheel):
        if path.stat().st_size > MOST:
            raise Deviates(f"{path.name} has {path.stat().st_size} bytes")
    for name in RELEASES:
        root = debian(work, name)
        put_inputs(root)
        (root / "opt").mkdir(exist_ok=True)
        run(["tar", "-xJf", tarball, "-C", root / "opt"], "tar")
        [release] = (root / "opt").iterdir()
        train_inside(root, f"/opt/{release.name}/bin/shalec", wanted, f"{name} by tarball")
        shutil.rmtree(release)
        shutil.rmtree(root / "work/run")
        shutil.copy(wheel, root / "work")
        inside(root, ["python3", "-m", "venv", "/work/venv"], "venv")
        inside(root, ["/work/venv/bin/pip", "install", "--no-index", f"/work/{wheel.name}"], f"pip in {name}")
        train_inside(root, "/work/venv/bin/shalec", wanted, f"{name} by wheel")
        (root / "work/lines.py").write_text(textwrap.dedent(f"""
            import shale
            program = shale.compile("/work/model.onnx", "/work/lines", dim={{"batch": 16, "sequence": 128}}, mesh="fsdp=2", shard="full")
            steps = [step["step"] for step in shale.train(program, data="/work/text.txt", steps=20, lr=3e-3, out="/work/lines-run")]
            assert steps == list(range(20)), steps
        """))
        inside(root, ["/work/venv/bin/python", "/work/lines.py"], f"the lines of Python in {name}")
        if (root / "work/lines-run/model.safetensors").read_bytes() != wanted:
            raise Deviates(f"the weights of Python's run in {name} have other bits")
        print(f"{name}: tarball and wheel train with the same bits", flush=True)
        shutil.rmtree(root)
    return "Debian 12 and 13" + five_lines(a, work, wheel)


FIVE_LINES = '''
import copy
import torch
from safetensors.torch import load_file, save_file

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(256, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        self.head = torch.nn.Linear(32, 256)

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layer(self.table(tokens), src_mask=mask, is_causal=True))

torch.manual_seed(0)
model = Model()
text = torch.tensor(list(open("text.txt", "rb").read()[:100 * 8 * 129]), dtype=torch.int64).view(100, 8, 129)
save_file({{"tokens": text[..., :-1].contiguous(), "labels": text[..., 1:].contiguous()}}, "batches.safetensors")
other, losses = copy.deepcopy(model), []

{lines}
    losses.append(step["loss"])

optimizer = torch.optim.AdamW(other.parameters(), lr=3e-4)
for number, (batch, loss) in enumerate(zip(text, losses, strict=True)):
    optimizer.zero_grad()
    wanted = torch.nn.functional.cross_entropy(other(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    wanted.backward()
    optimizer.step()
    assert abs(loss - wanted.item()) <= {loss_bar}, (number, loss, wanted.item())
model.load_state_dict(load_file("run1/model.safetensors"))
for name, value in other.state_dict().items():
    off = (model.state_dict()[name] - value).abs()
    if name.endswith("in_proj_bias"):  # the bias of keys has no gradient but rounding, which AdamW scales up
        off[32:64] = 0
    assert off.max().item() <= {weight_bar}, (name, off.max().item())
'''


def five_lines(a, work, wheel):
    """Runs the lines of the README of tools/python, with the wheel, on batches on which PyTorch trains the same module."""
    if not a.python:
        return ""
    run([a.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", work / "site", wheel], "pip")
    lines = re.search(r"```python\n(.*?)```", (ROOT / "tools/python/README.md").read_text(), re.S)[1]
    if "tokens.bin" not in lines:
        raise Deviates("the lines of the README read no tokens.bin")
    (work / "five.py").write_text(FIVE_LINES.format(lines=lines.rstrip().replace("tokens.bin", "batches.safetensors"), loss_bar=LOSS, weight_bar=WEIGHT))
    shutil.copy(TEXT, work / "text.txt")
    run([a.python, work / "five.py"], "the five lines", {**os.environ, "PYTHONPATH": str(work / "site")}, work)
    return "; from a module of PyTorch to its trained weights in five lines, as PyTorch trains it"


def check(a, work):
    a.build = pathlib.Path(a.build).resolve()
    return check_roots(a, work) if a.roots else check_folder(a, work)


if __name__ == "__main__":
    main(check, ("--roots", {"action": "store_true"}), ("--python", {"default": ""}))
