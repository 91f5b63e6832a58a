#!/bin/bash
# Training as MPI processes: the same bits as on threads, one log, checkpoints that either goes on
# from; a rank that is killed ends all, a refusal is said once, also where one rank alone refuses.
#
#   mpi_train_test.sh MPIRUN PRETRAIN EVALUATE
set -u
mpirun=$1 pretrain=$(readlink -f "$2") evaluate=$(readlink -f "$3")
out=${TEST_TMPDIR:-$(mktemp -d)}
flags=(--preset=gpt2-tiny --data=synthetic --precision=fp32 --sequence_length=16 --global_batch=4
       --micro_batch=1 --threads=1 --schedule=constant)
fail() { echo "mpi_train_test: $*"; exit 1; }
numbers() { sed -E 's/.*("step":[^,]*,"loss":[^,]*,"grad_norm":[^,]*),.*/\1/' "$1"; }

"$pretrain" "${flags[@]}" --ranks=2 --steps=4 --metrics="$out/threads.jsonl" ||
  fail "on threads: status $?"
"$mpirun" 2 120 pass "$pretrain" "${flags[@]}" --steps=2 --out="$out/run" \
  --metrics="$out/processes.jsonl" >"$out/log" || { cat "$out/log"; fail "on processes"; }
[[ $(grep -c 'batch: global batch 4' "$out/log") -eq 1 ]] || fail "the log is not said once"
[[ $(grep -c '^.*steps: 2' "$out/log") -eq 1 ]] || fail "the result is not said once"
diff <(numbers "$out/threads.jsonl" | head -2) <(numbers "$out/processes.jsonl") ||
  fail "processes and threads differ"
ls "$out/run/checkpoints/step-2" | grep -q states-1.safetensors || fail "rank 1 wrote nothing"

# What processes saved, threads go on from, and the other way round.
"$pretrain" "${flags[@]}" --ranks=2 --steps=4 --out="$out/run" --metrics="$out/processes.jsonl" ||
  fail "resumed on threads: status $?"
diff <(numbers "$out/threads.jsonl") <(numbers "$out/processes.jsonl") || fail "resumed run differs"

# Pipelines of 4 processes have the losses and norms of one rank, bit for bit.
mkdir -p "$out/model"
cat >"$out/model/config.json" <<'END'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 6, "n_head": 2,
 "n_embd": 16, "n_positions": 16, "vocab_size": 300, "tie_word_embeddings": true,
 "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
END
stages=(--model="$out/model" --initialize=random --data=synthetic --precision=fp32 --steps=3
        --sequence_length=16 --micro_batch=1 --micro_batches=8 --threads=1 --clip_norm=0)
"$pretrain" "${stages[@]}" --metrics="$out/one.jsonl" || fail "one rank: status $?"
for schedule in 1f1b zb-v searched; do
  "$mpirun" 4 120 pass "$pretrain" "${stages[@]}" --mesh=stage=4 --schedule=$schedule \
    --metrics="$out/$schedule.jsonl" >"$out/log" || { cat "$out/log"; fail "$schedule"; }
  diff <(numbers "$out/one.jsonl") <(numbers "$out/$schedule.jsonl") || fail "$schedule differs"
done

# Stages of different meshes, given by a plan file: the bits of the same plan on threads.
cat >"$out/plan.toml" <<'END'
[plan]
micro_batch = 1
micro_batches = 4
zero = 1
[[stage]]
ranks = "0-1"
mesh = "data=2"
[[stage]]
ranks = "2"
[[stage]]
ranks = "3-4"
mesh = "tensor=2"
END
meshes=(--model="$out/model" --initialize=random --data=synthetic --precision=fp32 --steps=3
        --sequence_length=16 --threads=1 --plan="$out/plan.toml")
"$pretrain" "${meshes[@]}" --metrics="$out/meshes.jsonl" || fail "meshes on threads: status $?"
"$mpirun" 5 120 pass "$pretrain" "${meshes[@]}" --metrics="$out/processes.jsonl" >"$out/log" ||
  { cat "$out/log"; fail "meshes on processes"; }
diff <(numbers "$out/meshes.jsonl") <(numbers "$out/processes.jsonl") || fail "meshes differ"

# A refusal: status 2, one message.
"$mpirun" 2 60 pass "$pretrain" "${flags[@]}" --steps=1 --mesh=data=3 >"$out/log" &&
  fail "a mesh of 3 on 2 ranks is not refused"
[[ $(grep -c 'must multiply to 2' "$out/log") -eq 1 ]] || { cat "$out/log"; fail "refusal"; }
grep -q 'mpirun.sh: status 2 ' "$out/log" || { cat "$out/log"; fail "status of a refusal"; }

# A device of rank 1 that is too small: its reason is that of all.
cat >"$out/evaluate.sh" <<END
#!/bin/bash
memory=1GB
[[ \$OMPI_COMM_WORLD_RANK == 1 ]] && memory=1000
exec "$evaluate" --model="$out/run" --data=synthetic --threads=1 --sequence_length=16 \\
  --device=capped --device_memory=\$memory
END
chmod +x "$out/evaluate.sh"
"$mpirun" 2 60 pass "$out/evaluate.sh" >"$out/log" && fail "evaluates without memory"
[[ $(grep -c 'rank 1: ' "$out/log") -eq 1 ]] ||
  { cat "$out/log"; fail "refusal of one rank"; }
grep -q 'mpirun.sh: status 2 ' "$out/log" || { cat "$out/log"; fail "status of one rank"; }
echo "mpi_train_test: passed"
