#!/usr/bin/env python3
"""A program ends with 65 if its data has values that the model cannot take. The message has file, position, value and bound.

usage: e2e tokens --build DIR --case test/models/gpt2
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

VOCAB, ROWS, LENGTH = 256, 4, 64


def write_tensors(path, tensors):
    """Writes a .safetensors file of int64 tensors [1, ROWS, LENGTH] from lists of values."""
    header, blob = {}, b""
    for name, values in tensors.items():
        data = struct.pack(f"<{len(values)}q", *values)
        header[name] = {"dtype": "I64", "shape": [1, ROWS, LENGTH], "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


class Checks:
    def __init__(self, program, work):
        self.program, self.work, self.failures = program, work, 0

    def check(self, what, code, words, *flags):
        command = [str(self.program), "--steps", "1", "--out", str(self.work / "out"), "--resume", "never", "--no-shuffle",
                   "--save-every", "0", *map(str, flags)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        missing = [word for word in words if word not in done.stderr]
        if done.returncode != code or missing:
            self.failures += 1
            print(f"{what}: exit {done.returncode}, not {code}; without {missing}\n{done.stderr[-600:]}")
        subprocess.run(["rm", "-rf", str(self.work / "out")], check=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--case", required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        program = work / "train"
        subprocess.run([f"{a.build}/bin/shalec", f"{a.case}/model.onnx", "-o", str(program), "--dim", f"batch={ROWS}",
                        "--dim", f"sequence={LENGTH}"], check=True, stdout=subprocess.DEVNULL)
        c = Checks(program, work)
        tokens = [i % VOCAB for i in range(ROWS * LENGTH)]
        path = work / "tokens.bin"

        def binary(values):
            path.write_bytes(struct.pack(f"<{len(values)}H", *values))

        binary(tokens)
        c.check("tokens in range", 0, [], "--data", path)
        bad = list(tokens)
        bad[2 * LENGTH + 7] = VOCAB
        binary(bad)
        place = f"token {2 * LENGTH + 7} is {VOCAB}"
        c.check("a token above the vocabulary", 65, [str(path), place, "input_ids", "from 0 to 255"], "--data", path)
        good = work / "good.bin"
        good.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        c.check("the same in evaluation data", 65, [str(path), place], "--data", good, "--eval-data", path, "--eval-every", 1)
        c.check("a wider type read as a narrower one", 65, ["--token-dtype"], "--data", path, "--token-dtype", "uint32")

        path = work / "batches.safetensors"
        labels = list(tokens)
        labels[5] = -100
        write_tensors(path, {"input_ids": tokens, "labels": labels})
        c.check("an ignored label", 0, [], "--data", path)
        labels[5] = -1
        write_tensors(path, {"input_ids": tokens, "labels": labels})
        c.check("a negative label that is not the ignored one", 65, [str(path), "element 5 is -1", "'labels'", "255 and -100"], "--data", path)
        labels[5] = 1 << 40
        write_tensors(path, {"input_ids": tokens, "labels": labels})
        c.check("a label above 32 bits", 65, ["element 5 is 1099511627776"], "--data", path)
        bad = list(tokens)
        bad[-1] = -100
        write_tensors(path, {"input_ids": bad, "labels": tokens})
        c.check("the ignored label as a token", 65, [f"element {ROWS * LENGTH - 1} is -100", "'input_ids'"], "--data", path)
        if not c.failures:
            print("every value out of range is refused, with file, position, value and bound")
        return bool(c.failures)


if __name__ == "__main__":
    sys.exit(main())
