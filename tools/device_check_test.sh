#!/bin/bash
# tools/device_check with binaries that only pretend: its exit statuses and its last line.
set -euo pipefail
check="$PWD/tools/device_check"
bin="$TEST_TMPDIR/bin"
goldens="$TEST_TMPDIR/golden"
mkdir -p "$bin/tensor/exec" "$bin/collectives" "$bin/trainers" "$goldens/one"

# fake NAME: the rest of the body comes from stdin.
fake() {
  { echo '#!/bin/bash'; cat; } > "$bin/$1"
  chmod +x "$bin/$1"
}

# expect STATUS LAST_LINE
expect() {
  local status=0
  python3 "$check" --binaries="$bin" --goldens="$goldens" > "$TEST_TMPDIR/log" || status=$?
  if [[ $status != "$1" || $(tail -n 1 "$TEST_TMPDIR/log") != $2 ]]; then
    echo "status $status, expected $1 and last line '$2':"
    cat "$TEST_TMPDIR/log"
    exit 1
  fi
}

expect 2 '*no tensor/exec/cuda_device_test*'

touch "$goldens/one/golden.safetensors"
echo '{"greedy": {"prompt": [1, 2], "ids": [3, 4]}}' > "$goldens/one/golden.json"
fake collectives/nccl_test <<< 'echo "[  PASSED  ] 9 tests."'
fake trainers/parity <<< 'exit 0'
fake trainers/generate <<< 'echo "{\"ids\": [3, 4], \"text\": \"\"}"'
fake trainers/pretrain <<'SH'
for flag in "$@"; do [[ $flag == --metrics=* ]] && out=${flag#--metrics=}; done
for step in 1 2 3 4 5 6 7 8 9 10; do
  echo '{"loss": 1.5, "grad_norm": 2, "tokens_per_second": 7, "model_flops_utilization": 0.5,' \
    '"device_peak_bytes": 8}' >> "$out"
done
SH

fake tensor/exec/cuda_device_test <<< 'echo "built without CUDA: bazel run --config=cuda"'
expect 3 '0 passed, 0 failed, 1 skipped'
fake tensor/exec/cuda_device_test <<< 'echo "no GPU: driver: it is old"'
expect 3 '0 passed, 0 failed, 1 skipped'

fake tensor/exec/cuda_device_test <<< 'echo "[  PASSED  ] 4 tests."'
expect 0 '12 passed, 0 failed, 0 skipped'

fake tensor/exec/cuda_device_test <<'SH'
[[ $1 == *OpsTest*bf16 ]] && exit 1
echo "[  PASSED  ] 4 tests."
SH
expect 1 '11 passed, 1 failed, 0 skipped'
fake tensor/exec/cuda_device_test <<< 'echo "[  PASSED  ] 0 tests."'
expect 1 '7 passed, 5 failed, 0 skipped'
fake tensor/exec/cuda_device_test <<< 'echo "[  PASSED  ] 4 tests."'
fake trainers/parity <<< 'exit 1'
fake trainers/generate <<< 'echo "{\"ids\": [3, 5], \"text\": \"\"}"'
expect 1 '10 passed, 2 failed, 0 skipped'
echo PASS
