// Programs without training on several ranks: evaluation, and generation with a cache.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "parallel/rank_graph.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/loss.h"
#include "tests/layouts/forward_run.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 4, kLength = 8;

HostTensor Tokens(int64_t rows, int64_t length, int first) {
  HostTensor tokens(Type{DType::kI32, {rows, length}});
  for (int64_t i = 0; i < rows * length; ++i) tokens.Set(i, (first + i * 7) % 13);
  return tokens;
}

// Logits and loss of a forward, as each rank sees them.
absl::StatusOr<std::vector<Fetched>> Forward(const ModelConfig& config, const Plan& whole) {
  std::vector<Fetched> results(whole.ranks());
  RETURN_IF_ERROR(OnPlanRanks(config, whole, [&](Device& device, int rank) -> absl::Status {
    const Plan plan = whole.OfStage(whole.StageOfRank(rank));
    ForwardOptions forward;
    forward.rows = kRows / plan.AxisSize("data");
    forward.length = kLength;
    forward.logits = true;
    ASSIGN_OR_RETURN(RankProgram run, CompileForward(config, forward, plan, {}, device, rank));
    RETURN_IF_ERROR(SetRandomParameters(run));
    const int64_t first = run.place.mesh.Coordinate(run.place.rank, "data") * forward.rows;
    auto part = [&](const HostTensor& whole, int32_t padding) {
      return PositionsOf(CutOut(whole, {{first, 0}, {forward.rows, kLength}, {kRows, kLength}}),
                         padding, plan, run.place);
    };
    const HostTensor ids = part(Tokens(kRows, kLength, 3), 0),
                     labels = part(Tokens(kRows, kLength, 5), kIgnoreLabel);
    ASSIGN_OR_RETURN(results[rank], run.program->RunPhase(0, [&](absl::string_view name, int) {
      return name == "labels" ? &labels : &ids;
    }));
    return absl::OkStatus();
  }));
  return results;
}

// Logits of a prefill of four tokens and of three tokens after it.
absl::StatusOr<std::vector<std::vector<HostTensor>>> Decode(const ModelConfig& config,
                                                            const Plan& plan) {
  std::vector<std::vector<HostTensor>> results(plan.ranks());
  RETURN_IF_ERROR(OnPlanRanks(config, plan, [&](Device& device, int rank) -> absl::Status {
    ASSIGN_OR_RETURN(RankProgram run,
                     CompileDecoder(config, {2, kLength, 4, DType::kF32}, plan, {}, device, rank));
    RETURN_IF_ERROR(SetRandomParameters(run));
    int64_t length = 0;
    for (int step = 0; step < 4; ++step) {
      const int64_t count = step == 0 ? 4 : 1;
      const HostTensor ids = Tokens(2, count, step);
      HostTensor positions = ids, cached(Type{DType::kI32, {2}});
      for (int64_t i = 0; i < 2 * count; ++i) positions.Set(i, length + i % count);
      for (int64_t i = 0; i < 2; ++i) cached.Set(i, length);
      const FeedFunction feeds = [&](absl::string_view name, int) {
        return name == "input_ids" ? &ids : name == "positions" ? &positions : &cached;
      };
      const int phase = step == 0 ? kPrefillPhase : kDecodePhase;
      ASSIGN_OR_RETURN(Fetched fetched, run.program->RunPhase(phase, feeds));
      results[rank].push_back(fetched.at({"logits", phase}));
      length += count;
    }
    return absl::OkStatus();
  }));
  return results;
}

// Positions are padded where 8 does not divide, and dealt out in zigzag on rings and in 2-D.
std::vector<Plan> Layouts() {
  const struct {
    std::vector<MeshAxis> mesh;
    SequenceParallelism sequence = SequenceParallelism::kRing;
    TensorLayout layout = TensorLayout::k1d;
  } rows[] = {
      {{{"tensor", 2}}},
      {{{"tensor", 4}}},
      {{{"data", 2}, {"tensor", 2}}},
      {{{"sequence", 2}}},
      {{{"sequence", 3}, {"data", 2}}},
      {{{"sequence", 4}}, SequenceParallelism::kAllToAll},
      {{{"tensor", 2}, {"sequence", 2}}, SequenceParallelism::kAllToAll},
      {{{"tensor", 4}}, SequenceParallelism::kRing, TensorLayout::k2d},
      {{{"tensor", 4}, {"sequence", 2}}, SequenceParallelism::kRing, TensorLayout::k2d},
      {{{"tensor", 4}, {"sequence", 2}}, SequenceParallelism::kAllToAll, TensorLayout::k2d},
  };
  std::vector<Plan> plans;
  for (const auto& row : rows) {
    plans.push_back(LayoutPlan(row.mesh, 1, 1, kLength));
    plans.back().sequence = row.sequence;
    plans.back().tensor_layout = row.layout;
  }
  return plans;
}

TEST(ForwardTest, EqualsOneRank) {
  for (const ModelConfig& config : {SmallGpt2(R"({"n_head": 4, "n_embd": 16, "vocab_size": 20})"),
                                    SmallLlama(R"({"vocab_size": 20})")}) {
    ASSERT_OK_AND_ASSIGN(std::vector<Fetched> whole,
                         Forward(config, LayoutPlan({}, 1, 1, kLength)));
    for (const Plan& plan : Layouts()) {
      const std::vector<MeshAxis>& mesh = plan.stages[0].mesh;
      ASSERT_OK_AND_ASSIGN(std::vector<Fetched> ranks, Forward(config, plan));
      for (const Fetched& fetched : ranks) {
        for (const auto& [key, value] : whole[0]) {
          EXPECT_TRUE(
              TensorNear(fetched.at(key).ToDoubles(), value.ToDoubles(), {.relative_l2 = 1e-5}))
              << config.family << " " << mesh[0].name << "=" << mesh[0].size << " "
              << Name(plan.sequence) << " " << Name(plan.tensor_layout) << " " << key.first;
        }
      }
    }
  }
}

// Every rank has the loss and the logits, whichever stage makes them.
TEST(ForwardTest, StagesOfDifferentMeshes) {
  const ModelConfig config = SmallLlama(R"({"vocab_size": 20})");
  ASSERT_OK_AND_ASSIGN(std::vector<Fetched> whole,
                       Forward(config, LayoutPlan({}, 1, 1, kLength)));
  for (const Plan& plan : {StagesPlan({{{"data", 2}}, {}, {{"tensor", 2}}}, 1, 1, kLength),
                           StagesPlan({{{"tensor", 2}}, {{"sequence", 2}, {"data", 2}}}, 1, 1,
                                      kLength)}) {
    ASSERT_OK_AND_ASSIGN(std::vector<Fetched> ranks, Forward(config, plan));
    for (const Fetched& fetched : ranks) {
      ASSERT_EQ(fetched.size(), whole[0].size());
      for (const auto& [key, value] : whole[0]) {
        EXPECT_TRUE(
            TensorNear(fetched.at(key).ToDoubles(), value.ToDoubles(), {.relative_l2 = 1e-5}))
            << key.first;
      }
    }
  }
}

TEST(ForwardTest, GenerationEqualsOneRank) {
  for (const ModelConfig& config : {SmallGpt2(R"({"n_head": 4, "n_embd": 16, "vocab_size": 20})"),
                                    SmallLlama(R"({"vocab_size": 20})")}) {
    ASSERT_OK_AND_ASSIGN(auto whole, Decode(config, LayoutPlan({}, 1, 1, 1)));
    const std::pair<int64_t, TensorLayout> layouts[] = {
        {2, TensorLayout::k1d}, {4, TensorLayout::k1d}, {4, TensorLayout::k2d}};
    for (const auto& [size, layout] : layouts) {
      Plan plan = LayoutPlan({{"tensor", size}}, 1, 1, 1);
      plan.tensor_layout = layout;
      ASSERT_OK_AND_ASSIGN(auto ranks, Decode(config, plan));
      for (const std::vector<HostTensor>& steps : ranks) {
        for (size_t i = 0; i < steps.size(); ++i) {
          EXPECT_TRUE(
              TensorNear(steps[i].ToDoubles(), whole[0][i].ToDoubles(), {.relative_l2 = 1e-5}))
              << config.family << " tensor=" << size << " " << Name(layout) << " step " << i;
        }
      }
    }
  }
}

TEST(ForwardTest, GenerationRefusesSplitPositions) {
  std::unique_ptr<Device> device = NewHostDevice({.kernels = CpuKernels()});
  const Plan plan = LayoutPlan({{"sequence", 2}}, 1, 1, 2);
  EXPECT_THAT(CompileDecoder(SmallLlama(), {}, plan, {}, *device, 0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sequence=2 does not go with generation")));
}

}  // namespace
}  // namespace colossus
