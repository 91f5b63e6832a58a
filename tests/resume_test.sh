#!/bin/bash
# Kills a real training process with SIGKILL at 200 random instants and starts the same command again
# until it ends: weights are bitwise equal to those of a run that nobody disturbed, and step, loss,
# grad_norm, lr and tokens are equal with each step once. SIGTERM ends a run with 143 and a
# checkpoint.
set -u

pretrain="$PWD/trainers/pretrain"
work="${TEST_TMPDIR:-$(mktemp -d)}"
kills_wanted=200
RANDOM=${COLOSSUS_TEST_SEED:-1}
echo "seed ${COLOSSUS_TEST_SEED:-1}; another one: --test_env=COLOSSUS_TEST_SEED=N"

fail() {
  echo "FAILED: $*"
  tail -n 20 "$work/log"
  exit 1
}

mkdir -p "$work/model"
cat > "$work/model/config.json" <<CONFIG
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
 "n_embd": 16, "vocab_size": 257, "n_positions": 16,
 "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}
CONFIG
for ((i = 0; i < 600; ++i)); do echo "line $((i * i % 977)) of a text to learn"; done > "$work/text"

# Starts training into the folder $1 in the background.
train() {
  "$pretrain" --model="$work/model" --initialize=random --data="$work/text" \
    --sequence_length=16 --global_batch=4 --micro_batch=2 --threads=1 --steps=1200 \
    --save_every=5 --out="$1" --metrics="$1.jsonl" >> "$work/log" 2>&1 &
}

# What must not depend on where a run was interrupted; times and memory follow in each line.
numbers() { sed 's/,"step_seconds.*//' "$1.jsonl"; }

train "$work/whole"
wait $! || fail "the undisturbed run"
[ "$(numbers "$work/whole" | wc -l)" = 1200 ] || fail "not 1200 lines of metrics"

kills=0
rounds=0
while ((kills < kills_wanted)); do
  rm -rf "$work/parts" "$work/parts.jsonl"
  while true; do
    train "$work/parts"
    pid=$!
    if ((kills < kills_wanted)); then
      # 50 to 649 ms: from before the first update to many saves later.
      sleep "0.$(printf %03d $((RANDOM % 600 + 50)))"
      kill -9 $pid 2> /dev/null
    fi
    wait $pid 2> /dev/null
    status=$?
    if [ $status = 0 ]; then break; fi
    [ $status = 137 ] || fail "ended with status $status after $kills kills"
    kills=$((kills + 1))
  done
  rounds=$((rounds + 1))
  cmp "$work/whole/model/model.safetensors" "$work/parts/model/model.safetensors" ||
    fail "weights differ after $kills kills"
  diff <(numbers "$work/whole") <(numbers "$work/parts") > "$work/diff" ||
    fail "metrics differ after $kills kills: $(head -n 5 "$work/diff")"
done
echo "$kills kills in $rounds runs"

rm -rf "$work/parts" "$work/parts.jsonl"
train "$work/parts"
pid=$!
until [ -s "$work/parts.jsonl" ]; do sleep 0.02; done
kill -TERM $pid
wait $pid
status=$?
[ $status = 143 ] || fail "SIGTERM: status $status"
step=$(ls "$work/parts/checkpoints" | sed 's/step-//' | sort -n | tail -n 1)
[ "$(numbers "$work/parts" | wc -l)" = "$step" ] || fail "SIGTERM: checkpoint of step '$step'"
echo PASSED
