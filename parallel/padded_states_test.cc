// What a padded part of a state has beyond the state: no checkpoint holds it, so it has to be zero
// before one is loaded.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "parallel/state_share.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/graph/state_piece.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

ModelConfig OddModel() {
  nlohmann::json json = {{"model_type", "gpt2"}, {"n_layer", 1},     {"n_head", 3},
                         {"n_embd", 12},         {"n_inner", 7},     {"n_positions", 6},
                         {"vocab_size", 11},     {"attn_pdrop", 0.0}};
  absl::StatusOr<ModelConfig> config = ReadModelConfig(json, "test");
  EXPECT_OK(config);
  return *std::move(config);
}

Plan ThreeParts(DType compute) {
  Plan plan;
  plan.micro_batch = plan.micro_batches = 1;
  plan.sequence_length = 6;
  plan.precision = {compute, compute};
  plan.stages = {{{0, 1, 2}, {{"tensor", 3}}}};
  return plan;
}

// Elements beyond their states that are not zero, of all states of a rank whose memory was full of
// NaN and which was then given what a checkpoint holds.
absl::Status CountBeyond(const ModelConfig& config, const Plan& plan, Communicator& world,
                         int64_t* beyond, int64_t* bad) {
  SetThreads(1);
  ASSIGN_OR_RETURN(MeshPlace place, MeshPlace::Of(plan, config, world.rank()));
  MeshCommunicators communicators(place.mesh, world, place.first);
  CollectiveKernels kernels(communicators, CpuKernels());
  const std::unique_ptr<Device> device =
      NewHostDevice({.threads = 1, .kernels = kernels.list()});
  TrainingOptions options;
  options.compile.program.poison = true;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingProgram> training,
      TrainingProgram::Make(config, plan, options, *device, {world.rank(), &communicators}));
  RETURN_IF_ERROR(training->Allocate());
  for (const StateShare& share : training->shares()) {
    const StatePiece held = InsideOf(share.piece, share.info.global_dims);
    HostTensor ones(Type{share.dtype, {held.count}});
    for (int64_t i = 0; i < held.count; ++i) ones.Set(i, 1);
    RETURN_IF_ERROR(WriteStateShare(training->program(), share, held, ones.raw()));
    HostTensor all(Type{share.dtype, {share.piece.count}});
    RETURN_IF_ERROR(ReadStateShare(training->program(), share, share.piece, all.raw()));
    int64_t ones_there = 0, zeros = 0;
    for (double value : all.ToDoubles()) {
      ones_there += value == 1;
      zeros += value == 0;
    }
    *beyond += share.piece.count - held.count;
    *bad += share.piece.count - ones_there - zeros + held.count - ones_there;
  }
  return absl::OkStatus();
}

TEST(PaddedStatesTest, WhatIsBeyondAStateIsZeroBeforeACheckpointIsLoaded) {
  const ModelConfig config = OddModel();
  for (DType compute : {DType::kF32, DType::kBF16}) {
    std::vector<int64_t> beyond(3), bad(3);
    ASSERT_OK(RunRanks({.ranks = 3}, [&](Communicator& world) {
      return CountBeyond(config, ThreeParts(compute), world, &beyond[world.rank()],
                         &bad[world.rank()]);
    }));
    // The vocabulary is padded to 12 rows, the width of the MLP to 9.
    EXPECT_GT(beyond[2], 0);
    for (int64_t count : bad) EXPECT_EQ(count, 0);
  }
}

}  // namespace
}  // namespace colossus
