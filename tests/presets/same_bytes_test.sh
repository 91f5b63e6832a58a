#!/bin/bash
# Two processes print the same bytes for every graph of every preset.
set -eu
"$1" "$TEST_TMPDIR/first"
"$1" "$TEST_TMPDIR/second"
diff -r "$TEST_TMPDIR/first" "$TEST_TMPDIR/second"
files=$(find "$TEST_TMPDIR/first" -type f | wc -l)
echo "$files files are the same"
[ "$files" -ge 100 ]
