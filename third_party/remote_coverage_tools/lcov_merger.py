#!/usr/bin/env python3
"""Merges coverage data into one lcov file, in the place of Bazel's Java tools.

Bazel calls it twice: with --coverage_dir, to turn the *.gcov.json.gz files of one test into lcov,
and with --reports_file, to add up the lcov files of all tests. Only files of this workspace count.
"""
import collections
import gzip
import json
import os
import sys


def add_gcov(folder, hits):
    """Adds the gcov files below `folder` to hits[source][line]."""
    for base, _, files in os.walk(folder):
        for name in files:
            if not name.endswith(".gcov.json.gz"):
                continue
            for entry in json.load(gzip.open(os.path.join(base, name)))["files"]:
                if entry["file"].startswith(("/", "external/")):
                    continue
                for line in entry["lines"]:
                    hits[entry["file"]][line["line_number"]] += line["count"]


def add_lcov(path, hits):
    """Adds one lcov file to hits[source][line]."""
    source = None
    for line in open(path):
        if line.startswith("SF:"):
            source = line[3:].strip()
        elif line.startswith("DA:"):
            number, count = line[3:].split(",")[:2]
            hits[source][int(number)] += int(count)


def main():
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
    hits = collections.defaultdict(lambda: collections.defaultdict(int))
    if "coverage_dir" in options:
        add_gcov(options["coverage_dir"], hits)
    if "reports_file" in options:
        for path in open(options["reports_file"]).read().split():
            if os.path.exists(path):
                add_lcov(path, hits)
    with open(options["output_file"], "w") as out:
        for source, lines in sorted(hits.items()):
            out.write("SF:%s\n" % source)
            out.writelines("DA:%d,%d\n" % item for item in sorted(lines.items()))
            found = sum(count > 0 for count in lines.values())
            out.write("LH:%d\nLF:%d\nend_of_record\n" % (found, len(lines)))


main()
