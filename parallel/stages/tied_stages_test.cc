// FIELD-CASES A5 with its numbers: a parameter that is read on two stages, on two ranks each.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testing/status_matchers.h"
#include "collectives/mesh.h"
#include "gtest/gtest.h"
#include "parallel/testing/graph_training.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

// A token on each of two ranks along "data"; the loss is the sum over tokens of w first + w last,
// so the gradients of w's two uses are what is fed.
constexpr int64_t kTokens = 2;
constexpr float kFirst[kTokens] = {1, 3}, kLast[kTokens] = {5, 7};

absl::StatusOr<Graph> Forward() {
  GraphBuilder b("tied");
  const Type tokens{DType::kF32, {kTokens, 1}};
  StateInfo info;
  info.name = "w";
  info.global_dims = info.disk_dims = {1, 1};
  info.axes = {"", ""};
  const ValueId w = b.AddState(info, {DType::kF32, {1, 1}});
  const ValueId first = b.Feed("first", tokens), last = b.Feed("last", tokens);
  for (ValueId feed : {first, last}) b.Annotate(feed, Sharding{{{"batch"}, {}}, {}}, std::nullopt);
  b.Feed("loss_seed", {DType::kF32, {}});
  b.SetBlock("embed");
  const ValueId x = Matmul(b, "n k, k m -> n m", first, w);
  b.SetBlock("head");
  const ValueId y = Add(b, x, Matmul(b, "n k, k m -> n m", last, w));
  b.Output("loss_sum", ReduceSum(b, y, {0, 1}, /*keep=*/false));
  return std::move(b).Build();
}

HostTensors RowsOf(int64_t part, int64_t parts) {
  HostTensors feeds;
  for (const auto& [name, values] : {std::pair{"first", kFirst}, std::pair{"last", kLast}}) {
    std::vector<float> own;
    for (int64_t t = part; t < kTokens; t += parts) own.push_back(values[t]);
    feeds[name] = HostTensor::Of<float>({kTokens / parts, 1}, own);
  }
  return feeds;
}

GraphJob JobOf(const std::vector<MeshAxis>& mesh, int zero = 0) {
  GraphJob job;
  job.forward = Forward;
  job.blocks = {"embed", "head"};
  job.borders = {"head"};
  job.mesh = mesh;
  job.zero = zero;
  job.gradient_scale = 1.0 / kTokens;
  job.feeds = [](int, int64_t part, int64_t parts) { return RowsOf(part, parts); };
  return job;
}

// Every rank's copy of w, from 0 on.
std::vector<float> CopiesOf(const GraphJob& job) {
  const absl::StatusOr<std::vector<HostTensors>> ranks = TrainGraph(job);
  EXPECT_OK(ranks.status());
  std::vector<float> copies;
  if (!ranks.ok()) return copies;
  for (const HostTensors& states : *ranks) copies.push_back(states.at("w").data<float>()[0]);
  return copies;
}

const std::vector<MeshAxis>& TwoByTwo() {
  static const std::vector<MeshAxis>& mesh =
      *new std::vector<MeshAxis>{{"stage", 2}, {"data", 2}};
  return mesh;
}

// (1 + 3 + 5 + 7) / 2 tokens: one step of SGD from 0 at rate 1 shows the gradient.
TEST(TiedStagesTest, A5_TheGradientIsThatOfAllRanks) {
  for (int zero : {0, 1}) {
    SCOPED_TRACE(zero);
    GraphJob job = JobOf(TwoByTwo(), zero);
    job.optimizer.kind = Optimizer::Kind::kSgd;
    EXPECT_EQ(CopiesOf(job), std::vector<float>(4, -8));
  }
}

TEST(TiedStagesTest, A5_CopiesStayTheSame) {
  const auto copies_of = [](GraphJob job) {
    job.learning_rate = 1e-2;
    job.updates = 20;
    return CopiesOf(job);
  };
  const float expected = copies_of(JobOf({}))[0];
  EXPECT_LT(expected, -0.1);
  for (int zero : {0, 1}) {
    SCOPED_TRACE(zero);
    const std::vector<float> copies = copies_of(JobOf(TwoByTwo(), zero));
    EXPECT_EQ(copies, std::vector<float>(4, copies[0]));
    EXPECT_NEAR(copies[0], expected, 1e-5 * std::abs(expected));
  }
}

}  // namespace
}  // namespace colossus
