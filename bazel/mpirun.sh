#!/bin/bash
# Runs a test program on several MPI ranks of this machine; see mpi_test in mpi.bzl.
#
#   mpirun.sh RANKS LIMIT_S pass PROGRAM [ARGUMENTS...]       all ranks end with status 0
#   mpirun.sh RANKS LIMIT_S die TEXT PROGRAM [ARGUMENTS...]   the job fails within the limit, no rank
#       stays, and the first line about a failure matches the regular expression TEXT
set -u
ranks=$1 limit=$2 expect=$3
shift 3
text=
if [[ $expect == die ]]; then text=$1; shift; fi
program=$1
shift

# Any user, any number of ranks on any number of cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# Shared memory only, in a way that needs no rights; nothing leaves this machine.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_plm_rsh_agent=/bin/false OMPI_MCA_orte_tmpdir_base="${TMPDIR:-/tmp}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" GTEST_COLOR=no
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"  # Open MPI never frees some
# Ranks would write over each other's files.
unset TEST_PREMATURE_EXIT_FILE XML_OUTPUT_FILE GTEST_OUTPUT
unset TEST_SHARD_INDEX TEST_TOTAL_SHARDS TEST_SHARD_STATUS_FILE

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
output=$folder/output
# Shared memory of this job alone: in sandboxes of the same process numbers, jobs that run at once
# would take each other's for their own.
export OMPI_MCA_btl_vader_backing_directory=$folder
# By a name that no other process has, so that it can be told whether a rank is still there.
ln -s "$(readlink -f "$program")" "$folder/program"
start=$(date +%s%N)
timeout --kill-after=5 "$limit" mpirun -n "$ranks" --tag-output "$folder/program" "$@" >"$output" 2>&1
status=$?
ms=$((($(date +%s%N) - start) / 1000000))
cat "$output"
echo "mpirun.sh: status $status after $ms ms (limit $limit s, expected to $expect)"

case $expect in
  pass) [[ $status -eq 0 ]] ;;
  die)
    # Not by the status alone: 137 is a killed rank and a late time-out alike.
    [[ $status -ne 0 && $ms -lt $((limit * 1000)) ]] || exit 1
    # `:FAILURE:` begins every line of ours about a failure; the first one names the culprit.
    first=$(grep -m1 -E "FAILURE:|mpirun noticed|MPI_ABORT|exited" "$output")
    echo "mpirun.sh: first line about a failure: $first"
    grep -qE "$text" <<<"$first" || { echo "mpirun.sh: expected: $text"; exit 1; }
    echo "$folder/program" >"$folder/name"
    if cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -qxF -f "$folder/name"; then
      echo "mpirun.sh: a rank is still there"
      exit 1
    fi
    ;;
  *) exit 2 ;;
esac
