#include "parallel/zero/read_chunks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/zero/testing/small_model.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Made {
  SmallLocal local;
  ZeroLayout layout;
  ChunkedGraph chunked;
};

absl::StatusOr<Made> Make(const std::vector<SmallParameter>& parameters, int stage) {
  absl::StatusOr<Mesh> mesh = Mesh::Make({{"data", 2}});
  CHECK_OK(mesh.status());
  const SmallModel model{*mesh, parameters};
  Made made;
  made.local = MakeLocal(model, 0);
  absl::StatusOr<ZeroLayout> layout =
      ZeroLayout::Make(made.local.local, made.local.gradients, model.mesh, 0, {.stage = stage});
  CHECK_OK(layout.status());
  made.layout = *std::move(layout);
  absl::StatusOr<ChunkedGraph> chunked = ReadChunks(made.local.local.graph, made.layout);
  if (!chunked.ok()) return chunked.status();
  CHECK_OK(Verify(chunked->graph));
  made.chunked = *std::move(chunked);
  return made;
}

std::vector<std::string> NodesOf(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes()) lines.push_back(ToText(graph, node));
  return lines;
}

std::vector<std::string> StatesOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const State& state : graph.states()) names.push_back(state.info.name);
  return names;
}

const std::vector<SmallParameter>& Parameters() {
  static const auto* const parameters = new std::vector<SmallParameter>{
      {.name = "wte", .block = "embed", .global = {8}, .also_read_by = {"head"}},
      {.name = "w", .block = "h.0", .global = {4, 2}},
      {.name = "b", .block = "h.0", .global = {2}}};
  return *parameters;
}

// Protects: each block has views of its own, of the parameters that it reads only.
TEST(ReadChunksTest, WholeChunksAreStates) {
  ASSERT_OK_AND_ASSIGN(Made made, Make(Parameters(), 2));
  const std::vector<std::string> nodes = NodesOf(made.chunked.graph);
  EXPECT_THAT(
      std::vector<std::string>(nodes.begin(), nodes.begin() + 8),
      ElementsAre("%wte/0: f32[8] = unpack(%chunk/0) {dims=[8], offsets=[0], ranks=[1]} @embed",
                  "%embed/tanh: f32[8] = tanh(%wte/0) @embed",
                  "%w/1: f32[4,2], %b/1: f32[2] = unpack(%chunk/1) {dims=[4, 2, 2], offsets=[0, "
                  "64], ranks=[2, 1]} @h.0",
                  "%h.0/tanh: f32[4,2] = tanh(%w/1) @h.0", "%h.0/tanh.1: f32[2] = tanh(%b/1) @h.0",
                  "%wte/2: f32[8] = unpack(%chunk/0) {dims=[8], offsets=[0], ranks=[1]} @head",
                  "%head/tanh: f32[8] = tanh(%wte/2) @head",
                  "%loss/tanh: f32[] = tanh(%loss) @loss"));
  EXPECT_EQ(StatesOf(made.chunked.graph), (std::vector<std::string>{"chunk/0", "chunk/1"}));
  for (const BlockPass& pass : made.chunked.passes) EXPECT_THAT(pass.gathered, IsEmpty());
}

// Protects: sharded chunks are gathered for each pass of a block, but for one that follows another
// with the same chunk.
TEST(ReadChunksTest, ShardedChunksAreGathered) {
  ASSERT_OK_AND_ASSIGN(Made made, Make(Parameters(), 3));
  const std::vector<std::string> nodes = NodesOf(made.chunked.graph);
  EXPECT_THAT(
      std::vector<std::string>(nodes.begin(), nodes.begin() + 3),
      ElementsAre(
          "%wte/0: f32[8] = unpack(%gathered/0/chunk/0) {dims=[8], offsets=[0], ranks=[1]} @embed",
          "%embed/tanh: f32[8] = tanh(%wte/0) @embed",
          "%w/1: f32[4,2], %b/1: f32[2] = unpack(%gathered/1/chunk/1) {dims=[4, 2, 2], offsets=[0, "
          "64], ranks=[2, 1]} @h.0"));
  EXPECT_THAT(StatesOf(made.chunked.graph), IsEmpty());
  ASSERT_EQ(made.chunked.passes.size(), 7u);
  // embed, h.0, head, loss, head.grad, h.0.grad, embed.grad
  EXPECT_THAT(made.chunked.passes[0].gathered, ElementsAre(0));
  EXPECT_THAT(made.chunked.passes[1].gathered, ElementsAre(1));
  EXPECT_THAT(made.chunked.passes[2].gathered, ElementsAre(0));
  EXPECT_THAT(made.chunked.passes[3].gathered, IsEmpty());
  EXPECT_THAT(made.chunked.passes[4].gathered, ElementsAre(0));
  EXPECT_THAT(made.chunked.passes[5].gathered, ElementsAre(1));
  EXPECT_THAT(made.chunked.passes[6].gathered, ElementsAre(0));
  ASSERT_OK_AND_ASSIGN(Segment gather, GatherSegment(made.layout, made.chunked.passes[1], 1));
  EXPECT_THAT(NodesOf(*gather.graph),
              ElementsAre("%gathered/1/chunk/1: f32[2048] = all_gather(%chunk/1) {axes=[\"data\"], "
                          "dim=0, parts=2, site=\"gathered/1/chunk/1\"} @gather.1"));
  EXPECT_EQ(StatesOf(*gather.graph), (std::vector<std::string>{"chunk/1"}));
}

// Protects: recomputed nodes belong to the backward of their block.
TEST(ReadChunksTest, ClonesRunBackward) {
  ASSERT_OK_AND_ASSIGN(Made made, Make({{.name = "w", .block = "h.0", .global = {2}}}, 3));
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph g {
    state %w: f32[2] {role=parameter, global=[2], disk=[2], axes=[a], trainable}
    feed %x: f32[2]
    %a: f32[2] = mul(%x, %w) @h.0
    %l: f32[2] = tanh(%a) @loss
    %a2: f32[2] = mul(%x, %w) @h.0 clone=1
    %d: f32[2] = mul(%a2, %w) @h.0.grad
    %a3: f32[2] = mul(%x, %w) @h.0 clone=1
    %e: f32[2] = mul(%a3, %d) @h.0.grad
    output e = %e
  })");
  ASSERT_OK(graph.status());
  ASSERT_OK_AND_ASSIGN(ChunkedGraph chunked, ReadChunks(*graph, made.layout));
  ASSERT_EQ(chunked.passes.size(), 3u);
  EXPECT_EQ(chunked.passes[2].first_part, 2);
  EXPECT_EQ(chunked.passes[2].last_part, 5);
  EXPECT_THAT(chunked.passes[0].gathered, ElementsAre(0));
  EXPECT_THAT(chunked.passes[2].gathered, ElementsAre(0));
}

// Protects: nodes that are recomputed right behind the forward ones of their block are in the same
// part, and a part is in one pass.
TEST(ReadChunksTest, PartsAreNotDivided) {
  ASSERT_OK_AND_ASSIGN(Made made, Make({{.name = "w", .block = "h.0", .global = {2}}}, 3));
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph g {
    state %w: f32[2] {role=parameter, global=[2], disk=[2], axes=[a], trainable}
    feed %x: f32[2]
    %a: f32[2] = mul(%x, %w) @h.0
    %a2: f32[2] = mul(%x, %w) @h.0 clone=1
    %d: f32[2] = mul(%a2, %w) @h.0.grad
    output d = %d
  })");
  ASSERT_OK(graph.status());
  ASSERT_OK_AND_ASSIGN(ChunkedGraph chunked, ReadChunks(*graph, made.layout));
  ASSERT_EQ(chunked.passes.size(), 2u);
  EXPECT_EQ(chunked.passes[0].last_part, 0);
  EXPECT_EQ(chunked.passes[1].first_part, 1);
  EXPECT_THAT(chunked.passes[0].gathered, ElementsAre(0));
  EXPECT_THAT(chunked.passes[1].gathered, IsEmpty());
}

TEST(ReadChunksTest, Refusal) {
  ASSERT_OK_AND_ASSIGN(Made made, Make({{.name = "w", .block = "h.0", .global = {2}}}, 3));
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph g {
    state %w: f32[2] {role=parameter, global=[2], disk=[2], axes=[a], trainable}
    output w2 = %w
  })");
  ASSERT_OK(graph.status());
  EXPECT_THAT(
      ReadChunks(*graph, made.layout).status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("output 'w2' is parameter 'w' itself")));
}

}  // namespace
}  // namespace colossus
