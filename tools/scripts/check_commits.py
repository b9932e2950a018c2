#!/usr/bin/env python3
"""Checks the subjects of commits. Prints one line for each violation; exits with 1 if there is any.

usage: check_commits.py [RANGE]    default: origin/main..HEAD, or the last commit if there is no origin/main

A subject is `[Tag] Imperative sentence`, with at most 100 characters, a capital letter after the tag and no period at the end. A change of
several parts has several tags: `[Dist, Frontend]`. The tags are those of tools/scripts/commit_tags.txt. Merges and reverts keep git's words.

check_commits.py --table prints the tags as CONTRIBUTING.md shows them.
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 100


def tags():
    """What each tag is for."""
    lines = (ROOT / "tools/scripts/commit_tags.txt").read_text().splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def table():
    return "| tag | for |\n|---|---|\n" + "".join(f"| `[{tag}]` | {what} |\n" for tag, what in tags().items())


def wrong_with(subject, known):
    if re.match(r"(Merge|Revert) ", subject):
        return None
    form = re.fullmatch(r"\[([^\]]+)\] (.+)", subject)
    if not form:
        return "does not begin with [Tag] and a space"
    for tag in form[1].split(", "):
        if tag not in known:
            near = difflib.get_close_matches(tag, known, 1, 0.75)
            return f"has the unknown tag [{tag}]" + (f"; is it [{near[0]}]?" if near else "; tools/scripts/commit_tags.txt lists all tags")
    if not form[2][0].isupper() and not form[2].startswith("-"):
        return "has no capital letter after the tag"
    if form[2].endswith("."):
        return "ends with a period"
    if len(subject) > LONGEST:
        return f"has {len(subject)} characters; {LONGEST} are the most"
    return None


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)


def main():
    if sys.argv[1:] == ["--table"]:
        print(table(), end="")
        return 0
    if git("rev-parse", "--verify", "-q", "HEAD").returncode:
        return 0  # not a checkout: a release has no commits
    commits = sys.argv[1] if len(sys.argv) > 1 else "origin/main..HEAD" if not git("rev-parse", "--verify", "-q", "origin/main").returncode else "-1"
    known, found = tags(), False
    for line in git("log", "--format=%h %s", commits).stdout.splitlines():
        commit, subject = line.split(" ", 1)
        if wrong := wrong_with(subject, known):
            print(f"{commit}: '{subject}' {wrong}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
