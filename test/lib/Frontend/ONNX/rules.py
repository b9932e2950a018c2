"""Imports, for each rule that finds parameters (lib/Frontend/ONNX/Rules/Rules.cpp), models that need it, with and without the rule.

usage: rules.py MODELS FOLDER

Fails if a model is imported alike, or if the table has other rules than this list.
"""
import os
import re
import subprocess
import sys

# Cases of make_SCRIPT.py, or files of MODELS.
NEEDS = {
    "form": ["removed/altered-epsilon"],
    "arguments": ["folded/norms", "layout/linear-shift"],
    "without-record": ["folded/layers"],
    "detached": ["folded/detached"],
    "shared-stops": ["removed/stopped-part"],
    "tied": ["folded/shared-table", "folded/head-bias"],
    "folded": ["folded/own-name", "origins/rows", "origins/expanded", "origins/function", "folded/recorded-sum", "origins/called-twice"],
    "merged": ["folded/norms"],
    "removed-sums": ["removed/root"],
    "lost-parameters": ["folded/projection"],
    "folded-constants": ["folded/source-other"],
    "neutral-operand": ["neutral/product"],
    "chosen-constants": ["chosen/condition"],
    "chosen-branches": ["chosen/branch"],
    "merged-choices": ["chosen/merged"],
}


def imported(path, *flags):
    run = subprocess.run(["shale-translate", "--import-onnx", path, "--dim", "batch=3", *flags], capture_output=True, text=True, timeout=600)
    return run.returncode, run.stdout, run.stderr


def made(case, models, folder):
    """The file of a case."""
    if case.endswith(".onnx"):
        return os.path.join(models, case)
    script, name = case.split("/")
    path = os.path.join(folder, script, name, "model.onnx")
    subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), f"make_{script}.py"), name, path], check=True)
    return path


def main():
    models, folder = sys.argv[1:]
    code, _, text = imported("none.onnx", "--without-rule", "none")
    listed = re.search(r"--without-rule 'none' is none of ([a-z, -]+)", text)
    if code != 64 or not listed:
        sys.exit(f"the tool does not list the rules: {code} {text}")
    rules = set(listed[1].split(", "))
    if rules != NEEDS.keys():
        sys.exit(f"the table has {sorted(rules - NEEDS.keys())} and lacks {sorted(NEEDS.keys() - rules)}")
    for rule, cases in NEEDS.items():
        for case in cases:
            path = made(case, models, folder)
            if imported(path) == imported(path, "--without-rule", rule):
                sys.exit(f"{case} is imported alike without the rule {rule}")
    print(f"{len(NEEDS)} rules are needed")


if __name__ == "__main__":
    main()
