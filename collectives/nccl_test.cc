// The conformance suite on as many GPUs as there are; skipped where there is none.
#include "collectives/nccl.h"

#include <numeric>
#include <vector>

#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/in_process.h"
#include "collectives/testing/communicator_conformance.h"
#include "gtest/gtest.h"

#if defined(COLOSSUS_CUDA)
#include <cuda_runtime.h>
#endif

namespace colossus {
namespace {

#if defined(COLOSSUS_CUDA)

int Gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

absl::Status RunOnGpus(int ranks, const RankFunction& rank) {
  return RunRanks({.ranks = ranks}, [&](Communicator& host) -> absl::Status {
    if (cudaSetDevice(host.rank()) != cudaSuccess) return absl::UnavailableError("cudaSetDevice");
    NcclId id;
    if (host.rank() == 0) {
      ASSIGN_OR_RETURN(id, NewNcclId());
    }
    RETURN_IF_ERROR(host.Run({.kind = CollectiveKind::kBroadcast,
                              .dtype = DType::kU8,
                              .src = &id,
                              .dst = &id,
                              .count = sizeof(id),
                              .site = "id"}));
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> gpus, NewNcclCommunicator(id, host));
    return rank(*gpus);
  });
}

void* Allocate(int64_t bytes) {
  void* buffer = nullptr;
  EXPECT_EQ(cudaMalloc(&buffer, static_cast<size_t>(bytes) + 1), cudaSuccess);
  return buffer;
}

void CopyAnywhere(void* dst, const void* src, int64_t bytes) {
  EXPECT_EQ(cudaMemcpy(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault), cudaSuccess);
}

bool Register() {
  std::vector<int> sizes(static_cast<size_t>(Gpus()));
  std::iota(sizes.begin(), sizes.end(), 1);
  if (sizes.empty()) return false;
  return RegisterCommunicatorConformance(
      {.name = "Nccl",
       .sizes = sizes,
       .canonical = false,
       .disposable = false,
       .run = RunOnGpus,
       .allocate = Allocate,
       .release = [](void* buffer) { EXPECT_EQ(cudaFree(buffer), cudaSuccess); },
       .copy = CopyAnywhere});
}
const bool kRegistered = Register();

TEST(NcclTest, Gpus) {
  if (!kRegistered) GTEST_SKIP() << "no GPU";
  EXPECT_OK(NewNcclId().status());
}

#else

TEST(NcclTest, Absent) {
  EXPECT_THAT(NewNcclId(),
              StatusIs(absl::StatusCode::kUnimplemented, ::testing::HasSubstr("without CUDA")));
  EXPECT_THAT(
      RunRanks({.ranks = 1},
               [](Communicator& host) { return NewNcclCommunicator(NcclId{}, host).status(); }),
      StatusIs(absl::StatusCode::kUnimplemented));
}

#endif

}  // namespace
}  // namespace colossus
