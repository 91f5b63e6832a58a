#include "parallel/stages/stage_squares.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/square_sums.h"
#include "tensor/graph/builder.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/interpreter.h"

namespace colossus {
namespace {

// Protects: part by part, wherever the parts are cut, the sum has the bits of one stage, also where
// gradients of several groups take turns and a part has none of some.
TEST(StageSquaresTest, BitsOfOneStage) {
  std::mt19937_64 random(TestSeed());
  const Mesh mesh;
  for (int round = 0; round < 30; ++round) {
    std::vector<PartGradient> gradients;
    HostTensors values;
    int part = 0;
    for (int i = 0; i < 12; ++i) {
      part += static_cast<int>(random() % 3);
      const Type type{DType::kF32, {static_cast<int64_t>(random() % 3000)}};
      const std::string name = absl::StrCat("gradient/", i);
      gradients.push_back({part, name, type, {}});
      HostTensor& value = values[name] = HostTensor(type);
      for (float& x : value.data<float>()) {
        x = static_cast<float>(static_cast<double>(random() % 20011) / 1e4 - 1);
      }
    }
    GraphBuilder one("one");
    SquareSums sums(one, mesh);
    for (const PartGradient& gradient : gradients) {
      sums.Add({{gradient.axes, one.Feed(gradient.name, gradient.type)}});
    }
    one.Output("sum_squares", sums.Total());
    ASSERT_OK_AND_ASSIGN(const Graph whole, std::move(one).Build());
    ASSERT_OK_AND_ASSIGN(const HostTensors expected, Interpret(whole, values));

    const StageSquares squares = StageSquares::Of(gradients);
    HostTensors made = values;
    for (size_t i = 0; i < squares.parts.size(); ++i) {
      ASSERT_OK_AND_ASSIGN(const Graph graph, PartSquaresGraph(squares, i, mesh));
      HostTensors fed;
      for (ValueId feed : graph.feeds()) {
        fed[graph.value(feed).name] = made.at(graph.value(feed).name);
      }
      ASSERT_OK_AND_ASSIGN(HostTensors outputs, Interpret(graph, fed));
      made.merge(outputs);
    }
    EXPECT_EQ(made.at("sum_squares"), expected.at("sum_squares"));
  }
}

TEST(StageSquaresTest, TotalsOfGroupsGoOn) {
  const Type type{DType::kF32, {8}};
  const StageSquares squares = StageSquares::Of({{0, "a", type, {"tensor"}},
                                                 {0, "b", type, {}},
                                                 {2, "c", type, {}},
                                                 {5, "d", type, {"tensor"}}});
  EXPECT_EQ(squares.parts, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(squares.sums.at(2), (std::vector<AxisNames>{{"tensor"}, {}}));
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{"stage", 3}, {"tensor", 2}}));
  ASSERT_OK_AND_ASSIGN(const Graph middle, PartSquaresGraph(squares, 1, mesh));
  EXPECT_EQ(middle.feeds().size(), 3u);  // both totals, and c
  EXPECT_EQ(middle.outputs().size(), 2u);
  EXPECT_EQ(middle.nodes().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Graph last, PartSquaresGraph(squares, 2, mesh));
  EXPECT_EQ(last.outputs()[0].name, "sum_squares");
}

}  // namespace
}  // namespace colossus
