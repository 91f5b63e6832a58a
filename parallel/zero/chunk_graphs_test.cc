#include "parallel/zero/chunk_graphs.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/zero/testing/small_model.h"
#include "tensor/graph/verifier.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

struct Made {
  ZeroLayout layout;
  Graph micro_batch;
};

// wte is tied: one use's gradient is a sum over data, the other's over tensor too. norm's is a sum
// over both; w is split over tensor.
Made Make(int stage, DType compute, int rank = 1) {
  absl::StatusOr<Mesh> mesh = Mesh::Make({{"data", 2}, {"tensor", 2}});
  CHECK_OK(mesh.status());
  const SmallModel model{
      *mesh,
      {{.name = "wte", .block = "embed", .global = {8}, .partial = {{"data"}, {"data", "tensor"}}},
       {.name = "norm", .block = "h.0", .global = {2}, .partial = {{"data", "tensor"}}},
       {.name = "w", .block = "h.0", .global = {4}, .split = {{"tensor"}}, .decayed = true}},
      compute};
  const SmallLocal local = MakeLocal(model, rank);
  absl::StatusOr<ZeroLayout> layout = ZeroLayout::Make(local.local, local.gradients, *mesh, rank,
                                                       {.stage = stage, .compute = compute});
  CHECK_OK(layout.status());
  absl::StatusOr<Graph> micro_batch =
      MicroBatchGraph(local.local.graph, local.gradients, MicroBatchVariant::kFirst, compute,
                      {*mesh, local.local.outputs});
  CHECK_OK(micro_batch.status());
  return {*std::move(layout), *std::move(micro_batch)};
}

// A line per node: "op(operands): types".
std::vector<std::string> NodesOf(absl::StatusOr<Graph> graph) {
  CHECK_OK(graph.status());
  CHECK_OK(Verify(*graph));
  std::vector<std::string> lines;
  for (const Node& node : graph->nodes()) {
    std::vector<std::string> operands, types;
    for (ValueId v : node.operands) operands.push_back(graph->value(v).name);
    for (ValueId v : node.results) types.push_back(ToString(graph->value(v).type));
    std::string line = absl::StrCat(node.op->name(), "(", absl::StrJoin(operands, ", "), ")");
    if (node.attributes.Has("axes")) {
      absl::StrAppend(&line, " over ", absl::StrJoin(node.attributes.StringList("axes"), ", "));
    }
    lines.push_back(absl::StrCat(line, ": ", absl::StrJoin(types, " ")));
  }
  return lines;
}

// Protects: the order of sums: uses, within the model where they differ, then the ranks that share
// the chunk; rounded last.
TEST(ChunkGraphsTest, Reduce) {
  const Made made = Make(2, DType::kBF16);
  EXPECT_THAT(NodesOf(ReduceGraph(made.micro_batch, made.layout, 0, DType::kBF16)),
              ElementsAre("all_reduce(sum/d.wte.1) over tensor: f32[8]",
                          "add(sum/d.wte, reduce/d.wte.1): f32[8]", "pack(reduce/add): f32[2048]",
                          "reduce_scatter(reduce/pack) over data: f32[1024]",
                          "convert(reduce/shard/chunk/0): bf16[1024]"));
  EXPECT_THAT(
      NodesOf(ReduceGraph(made.micro_batch, made.layout, 1, DType::kBF16)),
      ElementsAre("pack(sum/d.norm): f32[2048]", "all_reduce(reduce/pack) over tensor: f32[2048]",
                  "reduce_scatter(reduce/model/chunk/1) over data: f32[1024]",
                  "convert(reduce/shard/chunk/1): bf16[1024]"));
  const Made whole = Make(0, DType::kF32);
  EXPECT_THAT(
      NodesOf(ReduceGraph(whole.micro_batch, whole.layout, 2, DType::kF32)),
      ElementsAre("pack(sum/d.w): f32[2048]", "reduce_scatter(reduce/pack) over data: f32[1024]",
                  "all_gather(reduce/shard/chunk/2) over data: f32[2048]"));
}

// Protects: shards that lie on the same ranks have a total of their own, which goes on from block
// to block.
TEST(ChunkGraphsTest, Measure) {
  const Made made = Make(2, DType::kBF16);
  EXPECT_THAT(NodesOf(MeasureChunksGraph(made.layout, {0, 1, 2}, DType::kBF16, false)),
              ElementsAre("sum_squares(shard/gradient/chunk/0): f64[]",
                          "sum_squares(measure/sum_squares, shard/gradient/chunk/1): f64[]",
                          "sum_squares(shard/gradient/chunk/2): f64[]",
                          "all_reduce(measure/sum_squares.1) over data: f64[]",
                          "all_reduce(measure/sum_squares.2) over data, tensor: f64[]",
                          "add(measure/all_reduce, measure/all_reduce.1): f64[]"));
}

// Protects: what is updated and what is gathered at each stage.
TEST(ChunkGraphsTest, Update) {
  Optimizer sgd;
  sgd.kind = Optimizer::Kind::kSgd;
  auto nodes = [&](int zero, DType dtype) {
    const Made made = Make(zero, dtype);
    return NodesOf(UpdateChunksGraph(made.layout, UpdatedChunks(made.layout), sgd, dtype));
  };
  EXPECT_THAT(nodes(2, DType::kBF16),
              ElementsAre("sgd(master/chunk/0, shard/gradient/chunk/0, moment1/chunk/0, "
                          "learning_rate, grad_scale): f32[1024] f32[1024] bf16[1024]",
                          "all_gather(update/sgd.r2) over data: bf16[2048]",
                          "sgd(master/chunk/1, shard/gradient/chunk/1, moment1/chunk/1, "
                          "master/chunk/2, shard/gradient/chunk/2, moment1/chunk/2, "
                          "learning_rate, grad_scale): f32[1024] f32[1024] bf16[1024] f32[1024] "
                          "f32[1024] bf16[1024]",
                          "all_gather(update/sgd.r2.1) over data: bf16[2048]",
                          "all_gather(update/sgd.r5) over data: bf16[2048]"));
  // The master is the parameter, which every rank has whole: its shard is a view.
  EXPECT_THAT(
      nodes(1, DType::kF32),
      ElementsAre("unpack(chunk/0): f32[1024]",
                  "sgd(update/unpack, shard/gradient/chunk/0, moment1/chunk/0, learning_rate, "
                  "grad_scale): f32[1024] f32[1024]",
                  "all_gather(update/sgd.r0) over data: f32[2048]", "unpack(chunk/1): f32[1024]",
                  "unpack(chunk/2): f32[1024]",
                  "sgd(update/unpack.1, shard/gradient/chunk/1, moment1/chunk/1, update/unpack.2, "
                  "shard/gradient/chunk/2, moment1/chunk/2, learning_rate, grad_scale): f32[1024] "
                  "f32[1024] f32[1024] f32[1024]",
                  "all_gather(update/sgd.r0.1) over data: f32[2048]",
                  "all_gather(update/sgd.r2) over data: f32[2048]"));
  EXPECT_THAT(
      nodes(3, DType::kF32),
      ElementsAre("sgd(chunk/0, shard/gradient/chunk/0, moment1/chunk/0, learning_rate, "
                  "grad_scale): f32[1024] f32[1024]",
                  "sgd(chunk/1, shard/gradient/chunk/1, moment1/chunk/1, chunk/2, "
                  "shard/gradient/chunk/2, moment1/chunk/2, learning_rate, grad_scale): f32[1024] "
                  "f32[1024] f32[1024] f32[1024]"));
  EXPECT_THAT(
      nodes(0, DType::kF32),
      ElementsAre("sgd(chunk/0, gradient/chunk/0, moment1/chunk/0, learning_rate, grad_scale): "
                  "f32[2048] f32[2048]",
                  "sgd(chunk/1, gradient/chunk/1, moment1/chunk/1, chunk/2, gradient/chunk/2, "
                  "moment1/chunk/2, learning_rate, grad_scale): f32[2048] f32[2048] f32[2048] "
                  "f32[2048]"));
}

// Protects: chunks that are updated by themselves, with a sum of squares of their own.
TEST(ChunkGraphsTest, SomeChunks) {
  const Made made = Make(2, DType::kBF16);
  EXPECT_EQ(UpdatedChunks(made.layout), (std::vector<int>{0, 1, 2}));
  const absl::StatusOr<Graph> measure =
      MeasureChunksGraph(made.layout, {1}, DType::kBF16, false, "squares");
  EXPECT_THAT(NodesOf(measure), ElementsAre("sum_squares(shard/gradient/chunk/1): f64[]",
                                            "all_reduce(measure/sum_squares) over data: f64[]"));
  EXPECT_NE(measure->FindOutput("squares"), kNoValue);
  Optimizer sgd;
  sgd.kind = Optimizer::Kind::kSgd;
  EXPECT_THAT(NodesOf(UpdateChunksGraph(made.layout, {1}, sgd, DType::kBF16)),
              ElementsAre("sgd(master/chunk/1, shard/gradient/chunk/1, moment1/chunk/1, "
                          "learning_rate, grad_scale): f32[1024] f32[1024] bf16[1024]",
                          "all_gather(update/sgd.r2) over data: bf16[2048]"));
}

}  // namespace
}  // namespace colossus
