#include "collectives/reference.h"

#include <thread>

#include "base/testing/tensor_near.h"
#include "collectives/self.h"
#include "collectives/testing/communicator_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

absl::Status RunReferenceRanks(int ranks, const RankFunction& rank) {
  std::vector<std::unique_ptr<Communicator>> world = NewReferenceWorld(ranks);
  std::vector<absl::Status> statuses(world.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < world.size(); ++r) {
    threads.emplace_back([&, r] {
      statuses[r] = rank(*world[r]);
      if (!statuses[r].ok()) world[r]->Abort(statuses[r]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

const bool kReference = RegisterCommunicatorConformance(
    {.name = "Reference", .counts = false, .run = RunReferenceRanks});

const bool kSelf = RegisterCommunicatorConformance(
    {.name = "Self", .sizes = {1}, .run = [](int, const RankFunction& rank) {
       return rank(*NewSelfCommunicator());
     }});

// (a + b) + (c + d) and (a + b) + c: with numbers for which every other order differs.
TEST(ReferenceTest, AddsInTheCanonicalTree) {
  const float values[] = {1e8f, 3, -1e8f, 5};
  for (int ranks : {3, 4}) {
    std::vector<float> sums(4);
    std::vector<Collective> operations;
    for (int r = 0; r < ranks; ++r) {
      operations.push_back(
          {.kind = CollectiveKind::kAllReduce, .src = &values[r], .dst = &sums[r], .count = 1});
    }
    RunReference(operations);
    const float expected = ranks == 3 ? (1e8f + 3) + -1e8f : (1e8f + 3) + (-1e8f + 5);
    for (int r = 0; r < ranks; ++r) EXPECT_EQ(sums[r], expected);
  }
}

// Halves are added in f32: 1 + 2^-9 + 2^-9 keeps what each rounding to bf16 would lose.
TEST(ReferenceTest, HalvesRoundOnce) {
  const BF16 values[] = {BF16::From(1), BF16::From(0x1p-8f), BF16::From(0x1p-8f)};
  BF16 sums[3];
  std::vector<Collective> operations;
  for (int r = 0; r < 3; ++r) {
    operations.push_back({.kind = CollectiveKind::kAllReduce,
                          .dtype = DType::kBF16,
                          .src = &values[r],
                          .dst = &sums[r],
                          .count = 1});
  }
  RunReference(operations);
  EXPECT_EQ(sums[2].F(), 1 + 0x1p-7f);
}

}  // namespace
}  // namespace colossus
