#!/usr/bin/env python3
"""Tokenizes texts into a file that a training program reads with --data.

  tokens.py book.txt -o tokens.bin --tokenizer FOLDER --model model.onnx
  tokens.py book.txt -o tokens.bin --tokenizer bytes                  each byte is a token, 0 to 255

FOLDER is a tokenizer of Hugging Face (tokenizer.json, tokenizer_config.json), as save_pretrained writes it. The file is a sequence
of tokens, little-endian, without a header: uint16, or uint32 if the vocabulary needs it.
"""
import argparse
import array
import pathlib
import re
import subprocess
import sys

from shale_export.cli import DATA, NO_INPUT, USAGE, Failure, Parser, brief, check_output, find_shalec, libraries, note, run, whole_files

PIECE = 1 << 22  # characters per call of the tokenizer
AROUND = 256     # characters near a cut whose tokens may depend on the text after it


def arguments():
    p = Parser(prog="tokens.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
               epilog="exit codes: 0 done, 64 bad flags, 65 a text or token that does not fit, 66 an input is missing, 69 a library is "
                      "missing (requirements.txt; bytes need none), 74 disk")
    p.add_argument("text", nargs="+", help="texts in UTF-8, in this order (with --tokenizer bytes: any files)")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write, NAME.bin")
    p.add_argument("--tokenizer", required=True, metavar="FOLDER", help="a folder or name of a Hugging Face tokenizer, or bytes")
    p.add_argument("--model", metavar="FILE", help="the ONNX file: its vocabulary bounds the tokens (runs shalec)")
    p.add_argument("--vocabulary", type=int, metavar="N", help="bounds the tokens, instead of --model")
    p.add_argument("--dtype", choices=("auto", "uint16", "uint32"), default="auto", help="type of the tokens in the file (default: uint16 if the vocabulary fits)")
    p.add_argument("--end-of-text", action="store_true", help="write the tokenizer's end-of-text token after each text")
    p.add_argument("--shalec", metavar="FILE", help="the compiler that --model runs (default: shalec on the PATH)")
    return p


def check_flags(a):
    if a.model and a.vocabulary is not None:
        raise Failure(USAGE, "give --model or --vocabulary, not both")
    if a.vocabulary is not None and not 1 <= a.vocabulary <= 1 << 32:
        raise Failure(USAGE, f"--vocabulary {a.vocabulary} is not from 1 to {1 << 32}")
    if not a.output.endswith(".bin"):
        raise Failure(USAGE, f"'{a.output}' does not end with .bin, the extension of token files: name it NAME.bin")
    if a.tokenizer == "bytes" and a.end_of_text:
        raise Failure(USAGE, "bytes have no end-of-text token: leave out --end-of-text")
    for path in a.text + ([a.model] if a.model else []):
        if not pathlib.Path(path).is_file():
            raise Failure(NO_INPUT, f"'{path}' {'is a folder' if pathlib.Path(path).is_dir() else 'does not exist'}")


def vocabulary_of_model(a):
    shalec = find_shalec(a.shalec)
    if not shalec:
        raise Failure(USAGE, "--model runs shalec, which is not on the PATH: pass --shalec FILE, or --vocabulary N instead of --model")
    done = subprocess.run([shalec, a.model, "--describe"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise Failure(DATA, f"shalec refuses '{a.model}': {done.stderr.strip()[-800:]}")
    bounds = [int(bound) for bound in re.findall(r"^(?:input|label) .*bound to tokens.*, below (\d+)$", done.stdout, re.M)]
    if not bounds:
        raise Failure(DATA, f"shalec found no vocabulary in '{a.model}': pass --vocabulary N")
    return min(bounds)


class Tokenizer:
    """A function that tokenizes with a Hugging Face tokenizer, and the size of its vocabulary."""

    def __init__(self, name):
        with libraries():
            from transformers import AutoTokenizer, logging
        logging.set_verbosity_error()
        try:
            self.own = AutoTokenizer.from_pretrained(name)
        except Exception as error:  # any exception of the library
            local = pathlib.Path(name).exists()
            raise Failure(DATA if local else NO_INPUT, f"'{name}' is not a tokenizer: {brief(error, 300)}\n  a folder with tokenizer.json, or bytes") from error
        # Some classes make a tokenizer without words of a folder that has none.
        if set(self.own.get_vocab()) <= set(self.own.all_special_tokens):
            raise Failure(NO_INPUT, f"'{name}' has no tokenizer (tokenizer.json): copy it there, or pass --tokenizer NAME or bytes")
        self.count, self.end = len(self.own), self.own.eos_token_id

    def tokens(self, text):
        return self.own(text, add_special_tokens=False, verbose=False)["input_ids"]

    def text_of(self, token):
        return repr(self.own.convert_ids_to_tokens(token))


def cut(text, tokenizer):
    """The last end of a line at which the tokens of both parts are those of the whole text; 0 if there is none."""
    tries = [found.end() for found in re.finditer(r"(?<=\S)\n(?=\S)", text[-(1 << 16):])][::-1][:32]
    for at in tries:
        at += max(0, len(text) - (1 << 16))
        before, after = text[max(0, at - AROUND):at], text[at:at + AROUND]
        if tokenizer.tokens(before) + tokenizer.tokens(after) == tokenizer.tokens(before + after):
            return at
    return 0


def pieces(path, tokenizer):
    """Splits the text into pieces whose tokens are those of the whole text."""
    rest, wanted = "", PIECE
    try:
        with open(path, encoding="utf-8", newline="") as file:
            while more := file.read(wanted):
                rest += more
                at = cut(rest, tokenizer) if len(more) == wanted else 0
                if at:
                    yield rest[:at]
                    rest, wanted = rest[at:], PIECE
                else:
                    wanted = len(rest)  # no place to split: tokenize a larger piece
    except UnicodeDecodeError as error:
        raise Failure(DATA, f"'{path}' is not UTF-8 text ({error.reason}): convert it first, iconv -t UTF-8 -f ENCODING") from error
    if rest:
        yield rest


def all_tokens(a, tokenizer):
    """Yields lists of tokens in order, each with its text."""
    for path in a.text:
        if not tokenizer:
            with open(path, "rb") as file:
                while block := file.read(PIECE):
                    yield path, block
            continue
        for text in pieces(path, tokenizer):
            yield path, tokenizer.tokens(text)
        if a.end_of_text:
            yield path, [tokenizer.end]


def write(a, tokenizer, bound, kind, path):
    count = largest = 0
    with open(path, "wb") as file:
        for source, ids in all_tokens(a, tokenizer):
            if ids and max(ids) >= bound:
                token = next(i for i in ids if i >= bound)
                said = tokenizer.text_of(token) if tokenizer else f"byte {token}"
                raise Failure(DATA, f"'{source}' has token {token} ({said}), and the model takes tokens below {bound}: is '{a.tokenizer}' the model's tokenizer?")
            largest = max(largest, max(ids, default=0))
            block = array.array(kind, iter(ids))  # array() would copy the bits of a bytes object
            if sys.byteorder == "big":
                block.byteswap()
            file.write(block.tobytes())
            count += len(ids)
    if not count:
        raise Failure(DATA, f"{', '.join(a.text)}: no text")
    return count, largest


def main():
    a = arguments().parse_args()
    check_flags(a)
    output = check_output(a.output)
    vocabulary = vocabulary_of_model(a) if a.model else a.vocabulary
    tokenizer = None if a.tokenizer == "bytes" else Tokenizer(a.tokenizer)
    own = tokenizer.count if tokenizer else 256
    bound = min(vocabulary or own, 1 << 32)
    if a.end_of_text and tokenizer.end is None:
        raise Failure(USAGE, f"'{a.tokenizer}' has no end-of-text token: leave out --end-of-text")
    if vocabulary and own > vocabulary:
        note(f"'{a.tokenizer}' has {own} tokens, the model takes {vocabulary}: a text with another token is refused")
    elif vocabulary and own < vocabulary / 2:
        note(f"'{a.tokenizer}' has {own} tokens, the model {vocabulary}: is it the model's?")
    wide = max(own, vocabulary or 0) > 1 << 16
    if a.dtype == "uint16" and wide:
        raise Failure(USAGE, f"--dtype uint16: the vocabulary has {max(own, vocabulary or 0)} tokens, which need uint32")
    wide = wide or a.dtype == "uint32"
    with whole_files(output) as folder:
        count, largest = write(a, tokenizer, bound, "I" if wide else "H", folder / output.name)
    print(f"written     {output}: {count:,} tokens, {'uint32' if wide else 'uint16'}, the largest is {largest}")
    print(f"to train on it:\n  ./train --data {output}{' --token-dtype uint32' if wide else ''}")


if __name__ == "__main__":
    run("tokens.py", main)
