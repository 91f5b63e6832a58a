// The nccl backend in builds without --config=cuda.
#include "absl/status/status.h"
#include "collectives/nccl.h"

namespace colossus {
namespace {

absl::Status Absent() {
  return absl::UnimplementedError(
      "built without CUDA: bazel build --config=cuda ... builds NCCL's collectives in, where there "
      "is a CUDA toolkit (docs/cuda.md)");
}

}  // namespace

absl::StatusOr<NcclId> NewNcclId() { return Absent(); }

absl::StatusOr<std::unique_ptr<Communicator>> NewNcclCommunicator(const NcclId&, Communicator&,
                                                                  bool) {
  return Absent();
}

}  // namespace colossus
