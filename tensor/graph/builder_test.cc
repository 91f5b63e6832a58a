#include "tensor/graph/builder.h"

#include <string>
#include <utility>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
const Type kMatrix{DType::kF32, {3, 3}};

StateInfo Info(const std::string& name) {
  StateInfo info;
  info.name = name;
  info.global_dims = info.disk_dims = kMatrix.dims;
  return info;
}

TEST(GraphBuilder, BuildsWhatTheCallsSay) {
  GraphBuilder b("example");
  ValueId x = b.Feed("x", kMatrix), w = b.AddState(Info("w"), kMatrix);
  ValueId y;
  {
    BlockScope block(b, "h.0");
    y = Matmul(b, "m k, k n -> m n", x, w);
  }
  ValueId z = Add(b, y, w);
  b.UpdateState(w, z);
  b.Output("y", y);
  ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Build());
  EXPECT_EQ(graph.name(), "example");
  ASSERT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.nodes()[0].block, "h.0");
  EXPECT_EQ(graph.nodes()[1].block, "");
  EXPECT_EQ(graph.value(y).name, "h.0/matmul");
  EXPECT_EQ(graph.value(y).producer, 0);
  EXPECT_EQ(graph.FindOutput("y"), y);
  EXPECT_EQ(graph.FindState("w")->in, w);
  EXPECT_EQ(graph.FindState("w")->out, z);
  EXPECT_EQ(graph.StateOf(x), nullptr);
  EXPECT_EQ(graph.Uses()[w], (std::vector<NodeId>{0, 1}));
}

TEST(GraphBuilder, NamesAreUnique) {
  GraphBuilder b("names");
  ValueId x = b.Feed("x", kMatrix);
  ValueId first = b.Apply1(PointwiseOp("exp"), {x}, {}, "e");
  ValueId second = b.Apply1(PointwiseOp("exp"), {x}, {}, "e");
  EXPECT_EQ(b.graph().value(first).name, "e");
  EXPECT_NE(b.graph().value(second).name, "e");
  EXPECT_EQ(b.graph().FindValue(b.graph().value(second).name), second);
}

TEST(GraphBuilder, TheFirstErrorSticks) {
  GraphBuilder b("errors");
  ValueId x = b.Feed("x", kMatrix), v = b.Feed("v", {DType::kF32, {2}});
  {
    BlockScope block(b, "h.1");
    ValueId bad = Add(b, x, v);
    EXPECT_EQ(bad, kNoValue);
    EXPECT_EQ(b.type(bad), Type{});
    EXPECT_EQ(Exp(b, bad), kNoValue);
  }
  b.Fail(absl::InvalidArgumentError("later"));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(kInvalid, HasSubstr("add in block h.1: pointwise_c3")));
}

TEST(GraphBuilder, RefusesNamesAndStatesThatDoNotFit) {
  auto refused = [](auto build, const char* message) {
    GraphBuilder b("refused");
    ValueId x = b.Feed("x", kMatrix);
    build(b, x);
    EXPECT_THAT(b.status(), StatusIs(kInvalid, HasSubstr(message)));
  };
  refused([](GraphBuilder& b, ValueId) { b.Feed("x", kMatrix); }, "exists already");
  refused([](GraphBuilder& b, ValueId) { b.Feed("a b", kMatrix); }, "not a value name");
  refused([](GraphBuilder& b, ValueId) { b.AddState(Info("x"), kMatrix); }, "exists already");
  refused([](GraphBuilder& b, ValueId x) { b.UpdateState(x, x); }, "not a state");
  refused(
      [](GraphBuilder& b, ValueId x) {
        b.UpdateState(b.AddState(Info("w"), {DType::kF32, {2}}), x);
      },
      "cannot become");
  refused([](GraphBuilder& b, ValueId) { b.Output("y", 99); }, "not a value");
  refused(
      [](GraphBuilder& b, ValueId x) {
        b.Output("y", x);
        b.Output("y", x);
      },
      "bad or taken");
}

// Values are moved when nodes are added; a type that was asked for stays.
TEST(GraphBuilder, TypesOutliveTheGrowthOfTheGraph) {
  GraphBuilder b("growth");
  ValueId x = b.Feed("x", kMatrix);
  const Dims& dims = b.type(x).dims;
  for (int i = 0; i < 100; ++i) Exp(b, x);
  EXPECT_EQ(dims, kMatrix.dims);
}

}  // namespace
}  // namespace colossus
