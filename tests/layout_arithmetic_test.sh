#!/bin/bash
# Field case E1 as a process: batch and mesh that do not fit are refused with status 2 and one
# message, before a weight is read: the file of weights is no such file.
set -u

pretrain="$PWD/trainers/pretrain"
work="${TEST_TMPDIR:-$(mktemp -d)}"
log="$work/log"
mkdir -p "$work/model"
cat > "$work/model/config.json" <<CONFIG
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
 "n_embd": 16, "vocab_size": 257, "n_positions": 16,
 "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}
CONFIG
echo "no weights" > "$work/model/model.safetensors"

fail() { echo "FAILED: $*"; tail -n 20 "$log"; exit 1; }
train() {
  "$pretrain" --model="$work/model" --data=synthetic --sequence_length=4 --steps=1 --threads=1 \
    "$@" > "$log" 2>&1
}
refused() {  # with the text $1, the flags $2 ...
  local text="$1"
  shift
  train "$@"
  local status=$?
  [ $status = 2 ] || fail "$*: status $status, not 2"
  [ "$(grep -c 'error: ' "$log")" = 1 ] || fail "$*: not one message"
  grep -q "$text" "$log" || fail "$*: '$text' is not said"
}

refused '14 .*does not divide 256.*252 or 266 would do' \
  --global_batch=256 --micro_batch=2 --ranks=7
refused 'must multiply to 8, so an axis can have 1, 2, 4 or 8' --ranks=8 --mesh=tensor=1,data=3
refused 'must multiply to 8, so an axis can have 1, 2, 4 or 8' --ranks=8 --mesh=stage=3,tensor=1
refused 'would be empty' --global_batch=4 --ranks=8
refused 'model.safetensors' --global_batch=256 --micro_batch=2 --ranks=8  # now the weights
train --initialize=random --global_batch=256 --micro_batch=2 --ranks=8 || fail "status $?"
grep -q 'micro-batch 2 x accumulation 16 x data-parallel 8' "$log" || fail "accumulation 16"
echo "layout_arithmetic_test: passed"
