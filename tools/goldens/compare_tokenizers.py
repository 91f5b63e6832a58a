#!/usr/bin/env python3
"""Compares //trainers:tokenize with the `tokenizers` library on random texts, run by hand.

  tools/goldens/compare_tokenizers.py --binary out/bin/trainers/tokenize                # own styles
  tools/goldens/compare_tokenizers.py --binary ... --tokenizer a/tokenizer.json --cases 10000
  tools/goldens/compare_tokenizers.py --write tests/golden/tokenizers   # what the tests read

Without --tokenizer it trains small tokenizers in the styles of published ones (their patterns,
normalizers and added tokens of all kinds) on text of this repository, into --folder. The random
texts mix scripts, marks, spaces, emoji, control characters, added tokens and any code point. Ids
(with those around the text) and decoded text must be equal. Prints the seed and each difference;
exit status 1 if there is one. With --write nothing is compared: a few styles are written with the
library's answers. Needs tokenizers.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LETTERS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (LETTERS + "*" + SMALL + "+" + ENDING + "|" + LETTERS + "+" + SMALL + "*" + ENDING +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = ["\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
              r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")


def split(pattern, behavior="isolated", invert=False):
    return pre.Split(Regex(pattern), behavior, invert)


def byte_level(**options):
    return pre.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


# Those of published models that differ, with added tokens of all kinds.
GOLDENS = ["gpt2_prefix", "llama3", "qwen2", "starcoder2", "deepseek_v3", "o200k"]


def every_kind():
    """Added tokens of all kinds."""
    return [AddedToken("<|endoftext|>", special=True), AddedToken("<|x|>", special=True),
            AddedToken("<|x|><|y|>", special=True),
            AddedToken("<left>", special=True, lstrip=True),
            AddedToken("<right>", special=False, rstrip=True, normalized=False),
            AddedToken("<both>", special=True, lstrip=True, rstrip=True),
            AddedToken("w\u00f6rd", special=False, single_word=True),
            AddedToken("\u1e9b\u0323", special=False, normalized=True),
            AddedToken("ab", special=False, single_word=True, normalized=False),
            AddedToken("  ", special=False, normalized=False), AddedToken("\n\n\n", special=False)]


def styles():
    """name -> (pre_tokenizer, normalizer, added tokens, frame the text by, ignore_merges)."""
    end = [AddedToken("<|endoftext|>", special=True)]
    deepseek = pre.Sequence([split(p) for p in DEEPSEEK] + [byte_level()])
    return {
        "gpt2": (byte_level(use_regex=True), None, end, None, False),
        "gpt2_prefix": (byte_level(use_regex=True, add_prefix_space=True), None, every_kind(), None,
                        False),
        "llama3": (pre.Sequence([split(LLAMA), byte_level()]), None, end, "<|endoftext|>", True),
        "qwen2": (pre.Sequence([split(QWEN), byte_level()]), normalizers.NFC(), every_kind(), None,
                  False),
        "starcoder2": (pre.Sequence([pre.Digits(individual_digits=True),
                                     byte_level(use_regex=True)]), None, every_kind(), None, False),
        "digits_together": (pre.Sequence([pre.Digits(individual_digits=False),
                                          byte_level(use_regex=True, add_prefix_space=True)]),
                            normalizers.NFD(), every_kind(), None, False),
        "deepseek_v3": (deepseek, normalizers.Sequence([]), every_kind(), "<|x|>", False),
        "o200k": (pre.Sequence([split(O200K), byte_level()]), None, every_kind(), None, True),
        "possessive": (pre.Sequence([split(POSSESSIVE), byte_level()]), None, every_kind(), None,
                       False),
        "removed": (pre.Sequence([split(r"\s+", "removed"), byte_level()]), normalizers.NFKC(),
                    every_kind(), None, False),
        "previous": (pre.Sequence([split(r"[\p{P}\p{S}]", "merged_with_previous"), byte_level()]),
                     normalizers.Strip(), end, None, False),
        "next": (pre.Sequence([split(r"\s", "merged_with_next"), byte_level()]),
                 normalizers.Replace("a", "bb"), every_kind(), None, False),
        "contiguous": (pre.Sequence([split(r"\p{L}", "contiguous"), byte_level()]),
                       normalizers.NFKD(), end, None, False),
        "inverted": (pre.Sequence([split(r"\p{Lu}|\p{N}+", "merged_with_next", True),
                                   split(r"\p{Han}|\p{Hiragana}|\p{Thai}", "removed"),
                                   byte_level()]), normalizers.Prepend("_"), every_kind(), None,
                     False),
        "text": (pre.Sequence([pre.Split("ab", "merged_with_previous"), pre.Split(" ", "isolated"),
                               byte_level(use_regex=True)]), None, every_kind(), None, False),
        "empty_matches": (pre.Sequence([split(r"x*|(?=\d)", "isolated"), byte_level()]), None,
                          end, None, False),
    }


def corpus():
    texts = ["\u00dcber \u4f60\u597d\u4e16\u754c \u043f\u0440\u0438\u0432\u0435\u0442 "
             "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 12345 I'll we'Re\r\n\r\n  end\t\t"] * 4
    for root in ("docs", "base", "tensor/ops"):
        for name in sorted(os.listdir(root)):
            path = os.path.join(root, name)
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="ignore") as file:
                    texts.append(file.read())
    return texts


def train(name, style, folder, vocabulary=900):
    pre_tokenizer, normalizer, added, frame, ignore_merges = style
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre.ByteLevel.alphabet())
    # One style lacks some bytes, which are left out of every text then.
    partial = name == "text"
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False,
                                  initial_alphabet=alphabet[:-60] if partial else alphabet)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens(added)
    if frame is None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=frame + " $A", pair=frame + " $A " + frame + ":1 $B:1",
                special_tokens=[(frame, tokenizer.token_to_id(frame))])])
    path = os.path.join(folder, name + ".json")
    tokenizer.save(path)
    if name in ("o200k", "starcoder2"):  # merges as strings, as older files have them
        with open(path) as file:
            root = json.load(file)
        root["model"]["merges"] = [" ".join(merge) for merge in root["model"]["merges"]]
        with open(path, "w") as file:
            json.dump(root, file)
    return path


SPACES = " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u180e\u2003\u2028\u2029\u200b\u202f\u3000\ufeff"
BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0, 0x1F),
          (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA),
          (0x620, 0x6FF), (0x900, 0x97F), (0xE00, 0xE5B), (0x1100, 0x11FF), (0x1E00, 0x1EFF),
          (0x2000, 0x206F), (0x2150, 0x218F), (0x2460, 0x24FF), (0x3040, 0x30FF),
          (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0xFB00, 0xFB06), (0xFE00, 0xFE0F),
          (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1E030, 0x1E08F), (0x1F1E6, 0x1F1FF),
          (0x1F300, 0x1F64F), (0x20000, 0x20100), (0x2EBF0, 0x2EC00)]
WORDS = ["I'll", "we'Re", "don't", "IT'S", "'s", "the", "world", "HelloWorld", "foo_bar(x)", "==",
         "\r\n", "\n\n", "  ", "    ", "1234567", "3\u00bd", "\u0663\u0664", "u\u0308", "e\u0301",
         "w\u00f6rd", "wo\u0308rd", "\u1e9b\u0323", "\U0001f469\u200d\U0001f4bb", "\u4f60\u597d",
         "'\u017f", "\u212a", "ab", "abx", "<", "|>", "a" * 60]


def random_char(rng):
    if rng.random() < 0.03:
        code = rng.randrange(0x110000)
        return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
    if rng.random() < 0.2:
        return rng.choice(SPACES)
    return chr(rng.randint(*rng.choice(BLOCKS)))


def random_text(rng, added):
    parts = []
    for _ in range(rng.randint(0, 14)):
        kind = rng.random()
        if kind < 0.45:
            parts.append("".join(random_char(rng) for _ in range(rng.randint(1, 5))))
        elif kind < 0.6:
            block = rng.choice(BLOCKS)
            parts.append("".join(chr(rng.randint(*block)) for _ in range(rng.randint(1, 12))))
        elif kind < 0.85 or not added:
            parts.append(rng.choice(WORDS) + rng.choice(["", " "]))
        else:
            parts.append(rng.choice(["", " ", "  "]) + rng.choice(added) + rng.choice(["", " "]))
    return "".join(parts)


def random_texts(tokenizer, cases, seed):
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    rng = random.Random(seed)
    return [random_text(rng, added) for _ in range(cases)]


def write_goldens(target, folder, cases, seed):
    """A file a style: its tokenizer, and texts with their ids and what those decode to."""
    for name in GOLDENS:
        path = train(name, styles()[name], folder, vocabulary=400)
        tokenizer = Tokenizer.from_file(path)
        lines = []
        for text in random_texts(tokenizer, cases, seed):
            ids = tokenizer.encode(text).ids
            lines.append(json.dumps({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)},
                                    separators=(",", ":")))
        with open(path, encoding="utf-8") as file:
            described = json.dumps(json.load(file), separators=(",", ":"))
        with open(os.path.join(target, name + ".json"), "w", encoding="ascii") as file:
            file.write('{"tokenizer":%s,\n"cases":[\n%s]}\n' % (described, ",\n".join(lines)))


def compare(binary, path, cases, seed):
    """Number of texts whose ids or decoded text differ."""
    tokenizer = Tokenizer.from_file(path)
    texts = random_texts(tokenizer, cases, seed)
    lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
    run = subprocess.run([binary, "--tokenizer=" + path], input=lines, capture_output=True,
                         text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or len(answers) != len(texts):
        print(f"{path}: {len(answers)} answers of {cases}, rc {run.returncode}: {run.stderr[-300:]}")
        return cases
    differing = 0
    for text, answer in zip(texts, answers):
        ids = tokenizer.encode(text).ids
        decoded = tokenizer.decode(ids)
        if answer["ids"] == ids and answer["decoded"] == decoded:
            continue
        differing += 1
        if differing <= 3:
            what = "ids" if answer["ids"] != ids else "decoded"
            print(f"  {what} of {ascii(text)}: {answer[what]}, not {ids if what == 'ids' else ascii(decoded)}")
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="out/bin/trainers/tokenize")
    parser.add_argument("--tokenizer", action="append", default=[])
    parser.add_argument("--cases", type=int, help="random texts each (default: 10000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where trained tokenizers go; default: a temporary one")
    parser.add_argument("--write", help="folder for goldens, of --cases texts each (default: 100)")
    args = parser.parse_args()
    print("seed", args.seed)
    with tempfile.TemporaryDirectory() as temporary:
        if args.write:
            return write_goldens(args.write, temporary, args.cases or 100, args.seed)
        folder = args.folder or temporary
        os.makedirs(folder, exist_ok=True)
        paths = args.tokenizer or [train(n, s, folder) for n, s in styles().items()]
        total = 0
        for path in paths:
            cases = args.cases or 10000
            differing = compare(args.binary, path, cases, args.seed)
            print(f"{path}: {cases - differing}/{cases} equal", flush=True)
            total += differing
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
