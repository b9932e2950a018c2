"""usage: ratio.py A B LOW HIGH. The predicted time of plan B in parts of that of plan A must be from LOW to HIGH."""
import pathlib
import re
import sys

a, b = (float(re.search(r"predicted step ([0-9.e+-]+) ms", pathlib.Path(name).read_text())[1]) for name in sys.argv[1:3])
low, high = map(float, sys.argv[3:])
if not low <= b / a <= high:
    sys.exit(f"{b} ms are {b / a:.3f} of {a} ms, not {low} to {high}")
