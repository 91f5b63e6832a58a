#include "parallel/pipeline/block_memory.h"

#include <algorithm>
#include <random>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

std::vector<HeldByBlocks> Random(size_t blocks, std::mt19937_64& random) {
  std::vector<HeldByBlocks> held;
  for (uint64_t i = random() % 6; i > 0; --i) {
    HeldByBlocks item{static_cast<double>(1 + random() % 9), {}};
    for (size_t b = 0; b < blocks; ++b) {
      if (random() % 3 == 0) item.blocks.push_back(b);
    }
    if (!item.blocks.empty()) held.push_back(item);
  }
  return held;
}

// Once, however many of the blocks have it.
double Plain(const std::vector<HeldByBlocks>& held, size_t first, size_t end) {
  double sum = 0;
  for (const HeldByBlocks& item : held) {
    const bool here = std::any_of(item.blocks.begin(), item.blocks.end(),
                                  [&](size_t b) { return first <= b && b < end; });
    if (here) sum += item.bytes;
  }
  return sum;
}

TEST(BlockMemoryTest, EachOnceInEveryRange) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    const size_t blocks = 1 + random() % 6;
    const std::vector<HeldByBlocks> states = Random(blocks, random);
    const std::vector<HeldByBlocks> activations = Random(blocks, random);
    const BlockMemory memory(blocks, states, activations);
    for (size_t first = 0; first <= blocks; ++first) {
      for (size_t end = first; end <= blocks; ++end) {
        EXPECT_EQ(memory.states(first, end), Plain(states, first, end));
        EXPECT_EQ(memory.activations(first, end), Plain(activations, first, end));
      }
    }
  }
}

// %w is read by two blocks, %idle by none. %a, made by b0, is read by b1's backward, %b by its own
// through a view; %again is computed again and %unread read by nobody backward.
constexpr char kModel[] = R"g(graph g {
  feed %x: f32[2,3]
  state %w: f32[3,3] {role=parameter, global=[3,3], disk=[3,3], axes=[embed, mlp], trainable}
  state %idle: f32[5] {role=parameter, global=[5], disk=[5], axes=[embed], trainable}
  %a: f32[2,3] = matmul(%x, %w) {spec="m k, k n -> m n"} @b0
  %b: f32[2,3] = matmul(%a, %w) {spec="m k, k n -> m n"} @b1
  %view: f32[6] = reshape(%b) {spec="a b -> (a b)", dims=[6]} @b1
  %unread: f32[2,3] = tanh(%b) @b1
  %again: f32[2,3] = tanh(%a) @b0 clone=1
  %db: f32[6] = mul(%view, %view) @b1.grad
  %da: f32[2,3] = mul(%again, %a) @b1.grad
  output loss = %unread
  output db = %db
  output da = %da
}
)g";

TEST(BlockMemoryTest, OfAGraph) {
  const absl::StatusOr<Graph> graph = ParseGraph(kModel);
  ASSERT_OK(graph.status());
  const BlockMemory memory = BlockMemory::Of(*graph, {"b0", "b1"}, [&](const State& state) {
    return 10.0 * static_cast<double>(graph->value(state.in).type.elements());
  });
  EXPECT_EQ(memory.states(0, 1), 90 + 50);
  EXPECT_EQ(memory.states(1, 2), 90);
  EXPECT_EQ(memory.states(0, 2), 90 + 50);
  EXPECT_EQ(memory.activations(0, 1), 24);       // %a, which it computes %again from
  EXPECT_EQ(memory.activations(1, 2), 24 + 24);  // %a and %b
  EXPECT_EQ(memory.activations(0, 2), 24 + 24);
}

}  // namespace
}  // namespace colossus
