#!/usr/bin/env python3
"""Makes a release of a build of Shale that needs nothing but glibc 2.34: LLVM, the linker and all other libraries are inside.

usage: package.py --build DIR [--out FOLDER] [folder|tarball|wheel ..]

Writes to FOLDER (default: DIR/release), by default all three:
  folder   shale-VERSION/: bin, lib, include, share
  tarball  shale-VERSION-linux-x86_64.tar.xz of that folder
  wheel    shale-VERSION-py3-none-manylinux_2_34_x86_64.whl: the Python package of tools/python with the folder inside, without headers and pages

lib/link of the release is what shalec links programs with in place of a compiler: ld.lld, start files, libgcc, and a linker script for
each library of a program. A program that it links loads its libraries from the release's lib; --bundle copies them beside it.
exit codes: 0 done, 64 bad flags, 66 no build, 70 a file of the release would need a library of this machine or a newer glibc, 74 disk
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from elf import Elf

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINKER = pathlib.Path("/usr/lib/llvm-22/bin/lld")
START_FILES = ["Scrt1.o", "crti.o", "crtn.o", "crtbeginS.o", "crtendS.o"]
ARCHIVES = ["libgcc.a", "libc_nonshared.a", "libpthread.a", "libdl.a", "libsodium.a"]
# Every Linux system has these, and they must match its kernel and loader.
GLIBC = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|nsl))\.so.*")
# What Debian's libraries use of glibc after 2.34, and the library of newer_glibc.c that has it, too.
NEWER = {"GLIBC_2.35": {"_dl_find_object"}, "GLIBC_2.36": {"arc4random", "arc4random_buf"}}
NEWER_LIBRARY = "libshale_glibc.so"
# Libraries of parts of LLVM that Shale does not use (the solver of a static analyzer, manifests of Windows), and what they need: 58 MB.
UNUSED = re.compile(r"lib(z3|xml2)\.so.*")
MOST_BYTES = 120_000_000  # of a tarball or wheel
KINDS = ["folder", "tarball", "wheel"]


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", **more)
    if done.returncode:
        raise Failure(70, f"'{words[0]}' ends with {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def libraries_of(path):
    """The shared libraries that the loader finds for a file, {name: path}, without glibc's."""
    found = {}
    for line in run("ldd", path).splitlines():
        name, _, place = line.strip().partition(" => ")
        place = place.partition(" (")[0]
        if place and not GLIBC.fullmatch(name):
            if not os.path.isabs(place):
                raise Failure(70, f"{path} needs {name}, which the loader does not find")
            found[name] = place
    return found


def needed(path):
    """The names of the libraries that a file itself asks for."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", path))


def executable(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def sample_program(build, folder):
    """A compiled program, whose libraries are those of all programs."""
    program = folder / "program"
    run(build / "bin/shalec", ROOT / "test/models/demo/model.onnx", "-o", program, "--dim", "batch=1", "--dim", "sequence=8")
    return program


def symbols_of(path, defined):
    """The dynamic symbols that a library defines, or that it takes from others: {name: (type, version)}."""
    found = {}
    for line in run("readelf", "--wide", "--dyn-syms", path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK") and (words[6] != "UND") == defined:
            name, _, version = words[7].partition("@")
            found[name] = words[3], version.strip("@")
    return found


def write_stub(real, users, path):
    """Writes a library that defines what `users` take from `real`. A function of it ends the process."""
    taken = set().union(*(symbols_of(user, False) for user in users))
    symbols = {name: kind for name, kind in symbols_of(real, True).items() if name in taken}
    code = ["#include <stdio.h>", "#include <stdlib.h>"]
    versions = {}
    for name, (kind, version) in sorted(symbols.items()):
        code.append(f'void {name}(void) {{ fputs("{name} of {path.name} is not part of this release\\n", stderr); abort(); }}' if kind == "FUNC" else f"void *{name};")
        versions.setdefault(version, []).append(name)
    script = "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items() if version)
    with tempfile.TemporaryDirectory() as folder:
        source, map_file = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "versions")
        source.write_text("\n".join(code))
        map_file.write_text(script)
        run("gcc", "-shared", "-fPIC", "-O1", "-Wl,-z,now", f"-Wl,-soname,{path.name}", *([f"-Wl,--version-script={map_file}"] if script else []), "-o", path, source)


def replace_newer_glibc(path):
    """Makes a file take what only newer versions of glibc have from NEWER_LIBRARY, where the loader's glibc does not have it."""
    with Elf(path) as elf:
        for version, replaced in NEWER.items():
            try:
                missing = elf.remove_needed_version(version) - replaced
            except ValueError as error:
                raise Failure(70, f"{path}: {error}") from error
            if missing:
                raise Failure(70, f"{path} needs {', '.join(sorted(missing))} of {version}: add it to tools/scripts/newer_glibc.c")


def add_libraries(stage, program):
    """Copies the libraries of the tools, the linker and of programs, and makes each find the others in lib."""
    lib = stage / "lib"
    roots = [program, LINKER, lib / "libShale.so", *(stage / "bin").iterdir()]
    places = {name: place for root in roots for name, place in libraries_of(root).items()}
    wanted = [name for root in roots for name in needed(root)]
    while wanted:
        name = wanted.pop()
        if GLIBC.fullmatch(name) or (lib / name).exists():
            continue
        if UNUSED.fullmatch(name):
            write_stub(places[name], [place for place in places.values() if name in needed(place)], lib / name)
        else:
            shutil.copy(places[name], lib / name)
            wanted += needed(lib / name)
    run("gcc", "-shared", "-fPIC", "-O2", "-nodefaultlibs", "-Wl,-z,now,--no-undefined", f"-Wl,-soname,{NEWER_LIBRARY}", "-o", lib / NEWER_LIBRARY,
        ROOT / "tools/scripts/newer_glibc.c", "-lc")
    for path in [*lib.glob("*.so*"), *(stage / "bin").iterdir(), lib / "link/ld.lld"]:
        if path.is_file() and executable(path):
            os.chmod(path, 0o755)
            run("strip", "--strip-unneeded", path)
            place = "$ORIGIN" if path.parent == lib else "$ORIGIN/.." if path.parent.name == "link" else "$ORIGIN/../lib"
            with Elf(path) as elf:
                newer = any(entry[2] in NEWER for entry in elf.needed_versions())
            run("patchelf", "--set-rpath", place, path)
            if newer:
                run("patchelf", "--add-needed", NEWER_LIBRARY, path)  # both at once give a wrong run path (patchelf 0.14)
            replace_newer_glibc(path)


def add_linker(stage, program):
    """Makes lib/link. Its linker scripts stand for the links libNAME.so of development packages; a wheel has no links."""
    link = stage / "lib/link"
    link.mkdir()
    shutil.copy(LINKER, link / "ld.lld")
    for name in START_FILES + ARCHIVES:
        place = run("gcc", f"-print-file-name={name}").strip()
        if not os.path.isabs(place):
            raise Failure(70, f"gcc does not find {name}")
        shutil.copy(place, link / name)
    for name in needed(program):
        if not GLIBC.fullmatch(name):
            (link / re.sub(r"\.so.*", ".so", name)).write_text(f"INPUT(-l:{name})\n")


def add_texts(stage):
    """The licence, the pages, and the copyright of every package of which a file is inside."""
    share = stage / "share/doc/shale"
    owners = {"gcc", "libc6-dev"}
    for path in [*(stage / "lib").glob("*.so*"), *map(pathlib.Path, ARCHIVES)]:
        for line in subprocess.run(["dpkg", "-S", f"*/{path.name}"], capture_output=True, text=True).stdout.splitlines():
            owners.add(line.partition(":")[0])
    owners.add(run("dpkg", "-S", LINKER).partition(":")[0])
    for owner in sorted(owners):
        text = pathlib.Path("/usr/share/doc", owner, "copyright")
        if text.exists():
            (share / "libraries").mkdir(parents=True, exist_ok=True)
            shutil.copy(text, share / "libraries" / f"{owner}.txt")


def check(stage):
    """Fails if a file needs a library that is not inside, or a glibc newer than the oldest supported one, by the versions of its symbols."""
    inside = {path.name for path in (stage / "lib").iterdir()}
    for path in [*(stage / "lib").glob("*.so*"), *(stage / "bin").iterdir(), stage / "lib/link/ld.lld"]:
        if not path.is_file() or not executable(path):
            continue
        for name in needed(path):
            if name not in inside and not GLIBC.fullmatch(name):
                raise Failure(70, f"{path.relative_to(stage)} needs {name}, which is not inside")
    run(sys.executable, ROOT / "tools/scripts/check_glibc.py", stage)


def make_folder(build, stage):
    shutil.rmtree(stage, ignore_errors=True)
    run("cmake", "--install", build, "--prefix", stage)
    with tempfile.TemporaryDirectory() as temporary:
        program = sample_program(build, pathlib.Path(temporary))
        add_linker(stage, program)
        add_libraries(stage, program)
    for path in (stage / "lib").glob("*.a"):
        run("strip", "--strip-debug", path)
    add_texts(stage)
    check(stage)


def make_tarball(stage, path):
    partial = path.with_name(path.name + ".partial")
    # Of 353 MB: level 1 makes 73 MB in 37 processor seconds, 2 71 MB in 57, 3 70 MB in 109, and 6 63 MB in 219.
    run("tar", "--create", "--file", partial, "--use-compress-program", "xz -2 -T0", "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
        "--directory", stage.parent, stage.name)
    partial.rename(path)


def make_wheel(stage, out, version):
    with tempfile.TemporaryDirectory(dir=out) as temporary:
        root = pathlib.Path(temporary, "root")
        shutil.copytree(ROOT / "tools/python/shale", root / "shale", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "tools/export/shale_export", root / "shale_export", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(stage, root / "shale/release", ignore=lambda folder, names: {"include", "cmake"} & set(names) if folder in (str(stage), str(stage / "lib")) else [])
        shutil.rmtree(root / "shale/release/share/shale/export", ignore_errors=True)
        for page in (root / "shale/release/share/doc/shale").iterdir():
            if page.name in ("docs", "README.md"):
                shutil.rmtree(page) if page.is_dir() else page.unlink()
        info = root / f"shale-{version}.dist-info"
        info.mkdir()
        exporting = [line for line in (ROOT / "tools/export/requirements.txt").read_text().split() if line]
        (info / "METADATA").write_text("\n".join([
            "Metadata-Version: 2.1", "Name: shale", f"Version: {version}", "Summary: Compiles transformer training graphs into sharded training programs",
            "License: Apache-2.0", "Requires-Python: >=3.9", "Provides-Extra: export", *(f"Requires-Dist: {one} ; extra == 'export'" for one in exporting),
            "Description-Content-Type: text/markdown", "", (ROOT / "tools/python/README.md").read_text()]))
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: tools/package\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_34_x86_64\n")
        tools = [f"{path.name} = shale.tools:main" for path in sorted((stage / "bin").iterdir())]
        (info / "entry_points.txt").write_text("\n".join(["[console_scripts]", *tools, ""]))
        shutil.copy(ROOT / "LICENSE", info / "LICENSE")
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", temporary, root)
        [made] = pathlib.Path(temporary).glob("*.whl")
        made.rename(out / made.name)
    return out / made.name


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kinds", nargs="*", metavar="KIND", help=f"what to make: {', '.join(KINDS)} (default: all)")
    p.add_argument("--build", required=True, type=pathlib.Path, metavar="DIR", help="the build folder; its target 'installed' is built")
    p.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="where the files go (default: DIR/release)")
    a = p.parse_args()
    for kind in a.kinds:
        if kind not in KINDS:
            raise Failure(64, f"'{kind}' cannot be made: only {', '.join(KINDS)}")
    kinds = a.kinds or KINDS
    build = a.build.resolve()
    if not (build / "bin/shalec").exists():
        raise Failure(66, f"'{build}' has no bin/shalec: build Shale first (tools/package does)")
    out = (a.out or build / "release").resolve()
    out.mkdir(parents=True, exist_ok=True)
    version = run(build / "bin/shalec", "--version").split()[1]
    stage = out / f"shale-{version}"
    made = [stage]
    print(f"making {stage}", flush=True)
    make_folder(build, stage)
    # The wheel takes one core, and the tarball as many as there are.
    with concurrent.futures.ThreadPoolExecutor() as threads:
        if "tarball" in kinds:
            made.append(out / f"{stage.name}-linux-x86_64.tar.xz")
            print(f"compressing {made[-1]}", flush=True)
            tarball = threads.submit(make_tarball, stage, made[-1])
        if "wheel" in kinds:
            print("compressing the wheel", flush=True)
            made.append(make_wheel(stage, out, version))
    if "tarball" in kinds:
        tarball.result()
    for path in made[1:]:
        size = path.stat().st_size
        print(f"wrote {path}, {size} bytes")
        if size > MOST_BYTES:
            raise Failure(70, f"{path} is larger than {MOST_BYTES} bytes")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        print(f"package.py: error: {error}", file=sys.stderr)
        sys.exit(error.code)
    except OSError as error:
        print(f"package.py: error: {error}", file=sys.stderr)
        sys.exit(74)
