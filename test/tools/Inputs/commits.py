"""commits.py SCRIPTS: what check_commits.py says about subjects."""
import sys

sys.path.insert(0, sys.argv[1])
import check_commits

for subject in ["[Fusion] Cut clusters", "[Dist, Frontend] Cut clusters", "[Driver] --help lists groups", "Merge branch 'x'",
                "Cut clusters", "[Fusoin] Cut clusters", "[Magic] Cut clusters", "[Fusion, ] Cut clusters", "[Fusion] cut clusters",
                "[Fusion] Cut clusters.", "[Fusion] " + "Cut " * 30 + "clusters"]:
    print(f"{subject[:40]}: {check_commits.wrong_with(subject, check_commits.tags())}")
