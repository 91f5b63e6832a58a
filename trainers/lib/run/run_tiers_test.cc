// What ranks may use of the tiers below their devices.
#include "trainers/lib/run/run_tiers.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "tensor/exec/program.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {
namespace {

// Protects: ranks that find more or less free memory choose recomputation by the same numbers.
TEST(RunTiersTest, EveryRankMayUseTheLeast) {
  std::vector<ProgramOptions> options(3);
  EXPECT_OK(RunRanks({.ranks = 3}, [&](Communicator& world) {
    ProgramOptions& own = options[static_cast<size_t>(world.rank())];
    own.placer = std::make_shared<GeminiPlacer>(GeminiOptions());
    own.host_memory_bytes = world.rank() == 1 ? 1000 : INT64_MAX;
    own.disk_memory_bytes = 700 + world.rank();
    return AgreeOnTiers(RankGroup(&world), &own);
  }));
  for (const ProgramOptions& own : options) {
    EXPECT_EQ(own.host_memory_bytes, 1000);
    EXPECT_EQ(own.disk_memory_bytes, 700);
  }
}

TEST(RunTiersTest, OneRankKeepsWhatItHas) {
  ProgramOptions own;
  own.placer = std::make_shared<GeminiPlacer>(GeminiOptions());
  own.disk_memory_bytes = 5;
  EXPECT_OK(AgreeOnTiers(RankGroup(), &own));
  EXPECT_EQ(own.host_memory_bytes, INT64_MAX);
  EXPECT_EQ(own.disk_memory_bytes, 5);
}

}  // namespace
}  // namespace colossus
