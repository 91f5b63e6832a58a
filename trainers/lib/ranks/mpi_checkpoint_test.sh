#!/bin/bash
# C3 as MPI processes: a disk that is full for one rank, and a rank that is killed in the middle of
# its file. The checkpoint before stays as it was, and the same command goes on from it.
#
#   mpi_checkpoint_test.sh MPIRUN MPI_FAULT_PROGRAM PRETRAIN
set -u
mpirun=$1 program=$2 pretrain=$3
folder=${TEST_TMPDIR:-$(mktemp -d)}
fail() { echo "mpi_checkpoint_test: $*"; cat "$log"; exit 1; }
log=$folder/log
sums() { (cd "$1/checkpoints/step-2" && cksum *) }
# The flags of mpi_fault_program.
resume() {
  "$mpirun" 4 100 pass "$pretrain" --preset=gpt2-tiny --data=synthetic --steps=5 --precision=fp32 \
    --sequence_length=16 --global_batch=4 --threads=1 --save_every=1 --keep=9 --schedule=constant \
    --out="$1" >"$log" 2>&1 || fail "the run that goes on: status $?"
}

for bytes in 0 1 4096; do
  # The job goes on, and says what happened.
  out=$folder/full-$bytes
  "$mpirun" 4 100 pass "$program" save_full "$out" $bytes >"$log" 2>&1 || fail "full disk: status $?"
  grep -q 'step 3 is not saved, training goes on: rank 2: .*no space left' "$log" ||
    fail "nothing is said of the full disk"
  [[ $(cd "$out/checkpoints" && echo step-*) == 'step-1 step-2 step-4 step-5' ]] ||
    fail "checkpoints: $(ls "$out/checkpoints")"

  out=$folder/kill-$bytes
  "$mpirun" 4 40 die 'rank 2 was lost at step 3 in phase save' "$program" save_kill "$out" $bytes \
    >"$log" 2>&1 || fail "killed: status $?"
  before=$(sums "$out")
  left=$(ls -d "$out/checkpoints/step-3.tmp" 2>/dev/null)  # rank 0 may have had time to remove it
  resume "$out"
  [[ -z $left ]] || grep -q 'step-3.tmp is passed over' "$log" ||
    fail "nothing is said of the folder step-3.tmp"
  grep -q 'goes on with step 3 of 5' "$log" || fail "it does not go on from step 2"
  [[ $(sums "$out") == "$before" ]] || fail "the checkpoint of step 2 has changed"
  [[ $(cd "$out/checkpoints" && echo step-*) == 'step-1 step-2 step-3 step-4 step-5' ]] ||
    fail "checkpoints: $(ls "$out/checkpoints")"
done
echo "mpi_checkpoint_test: passed"
