#!/bin/bash
# Real training processes: two of them in one folder, signals, data that is cut shorter, a limit on
# the size of files, and a full disk. The last needs the right to mount a tmpfs; without it, it says
# so and is left out.
set -u

pretrain="$PWD/trainers/pretrain"
tokenize="$PWD/trainers/tokenize"
work="${TEST_TMPDIR:-$(mktemp -d)}"
log="$work/log"
mounted=

fail() {
  echo "FAILED: $*"
  tail -n 20 "$log"
  exit 1
}
trap 'if [ -n "$mounted" ]; then umount "$mounted"; fi' EXIT

mkdir -p "$work/model"
cat > "$work/model/config.json" <<CONFIG
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
 "n_embd": 16, "vocab_size": 257, "n_positions": 16,
 "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}
CONFIG

# `exec`, so that $! is the process itself.
train() {
  exec "$pretrain" --model="$work/model" --initialize=random --data=synthetic \
    --sequence_length=16 --threads=1 "$@"
}
wait_for() {  # the text $1 in the log
  until grep -q "$1" "$log"; do
    kill -0 $pid 2> /dev/null || fail "ended before '$1'"
    sleep 0.02
  done
}
expect() {  # status $1 of the process
  wait $pid 2> /dev/null
  local status=$?
  [ $status = "$1" ] || fail "$2: status $status, not $1"
}

# ---- one run a folder; a killed one holds nothing
train --steps=1000000 --save_every=10 --out="$work/one" > "$log" 2>&1 &
pid=$!
wait_for "saved "
(train --steps=1 --out="$work/one") > "$work/second" 2>&1
[ $? = 2 ] || fail "a second run in the folder is not refused"
grep -q "error: --out=$work/one is in use by another run.*give another --out" "$work/second" ||
  fail "the second run says: $(cat "$work/second")"
kill -9 $pid
expect 137 "kill -9"
train --steps=1000000 --out="$work/one" > "$log" 2>&1 &
pid=$!
wait_for "resumes from "
wait_for "matmul peak"

# ---- one signal: saved, then the end
kill -TERM $pid
expect 143 SIGTERM
grep -q "stopped by signal 15 after step" "$log" || fail "SIGTERM is not said"
train --steps=1000000 --out="$work/one" > "$log" 2>&1 &
pid=$!
wait_for "matmul peak"
kill -INT $pid
expect 130 SIGINT
newest=$(ls "$work/one/checkpoints" | sed 's/step-//' | sort -n | tail -n 1)
grep -q "stopped by signal 2 after step $newest;" "$log" || fail "SIGINT: no checkpoint of its step"

# ---- two signals in one long update (fp16 is slow): the end at once, nothing saved
train --steps=2 --precision=fp16 --micro_batch=40000 --out="$work/two" > "$log" 2>&1 &
pid=$!
wait_for "matmul peak"
sleep 1
kill -TERM $pid
sleep 0.1
kill -INT $pid
expect 130 "two signals"
[ -z "$(ls "$work/two/checkpoints")" ] || fail "two signals: something was saved"

# ---- an update of very many micro-batches is given up between two of them
train --steps=2 --micro_batch=2048 --global_batch=1228800 --out="$work/many" > "$log" 2>&1 &
pid=$!
wait_for "matmul peak"
sleep 1
kill -TERM $pid
expect 143 "between micro-batches"
grep -q "step 1 is given up" "$log" || fail "the update is not given up"

# ---- the data is cut shorter while it is read
for i in $(seq 4000); do echo "line $i of the data"; done > "$work/data.txt"
"$tokenize" --tokenizer=bytes --data="$work/data.txt" --out="$work/data.tokens" 2> "$log" ||
  fail "no token file"
(exec "$pretrain" --model="$work/model" --initialize=random --data="$work/data.tokens" --threads=1 \
  --sequence_length=16 --steps=1000000 --save_every=10 --out="$work/cut") > "$log" 2>&1 &
pid=$!
wait_for "saved "
truncate -s 100 "$work/data.tokens"
expect 1 "data cut shorter"
grep -q "error: a file that is being read was cut shorter" "$log" || fail "cut data is not said"
ls "$work/cut/checkpoints" | grep -q step- || fail "cut data: no checkpoint is left"

# ---- files may not grow beyond 64 KiB: an error, not a signal; the log goes through a pipe
(
  ulimit -f 64
  train --steps=1 --out="$work/limit"
) 2>&1 | cat > "$log"
[ "${PIPESTATUS[0]}" = 1 ] || fail "a limit on file sizes: another status than 1"
grep -q "$work/limit/checkpoints/step-1.*File too large.*wants [0-9]* bytes.*[0-9]* are free" "$log" ||
  fail "the limit is not said"
[ -z "$(ls "$work/limit/checkpoints")" ] || fail "the limit: something was left"

# ---- a disk with room for one checkpoint
mkdir -p "$work/disk"
if ! mount -t tmpfs -o size=220k tmpfs "$work/disk" 2> "$work/mount"; then
  echo "left out: a full disk, for lack of a tmpfs: $(cat "$work/mount")"
else
  mounted="$work/disk"
  (train --steps=1 --out="$work/disk/run") > "$log" 2>&1 || fail "the first save finds no room"
  rm -r "$work/disk/run/model"
  cp -r "$work/disk/run/checkpoints/step-1" "$work/copy"
  (train --steps=3 --save_every=1 --out="$work/disk/run") > "$log" 2>&1
  [ $? = 1 ] || fail "a full disk: another status than 1"
  grep -q "step 2 is not saved, training goes on: $work/disk/run/checkpoints/step-2.*wants .*free" \
    "$log" || fail "the full disk is not said"
  diff -r "$work/copy" "$work/disk/run/checkpoints/step-1" || fail "step 1 was damaged"
  mount -o remount,size=4m "$work/disk"
  (train --steps=3 --save_every=1 --out="$work/disk/run") > "$log" 2>&1 || fail "with room again"
  grep -q "resumes from $work/disk/run/checkpoints/step-1" "$log" || fail "does not go on"
fi
echo PASSED
