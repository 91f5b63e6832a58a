#include "tensor/ops/collective.h"

#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/text.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

const Type kX{DType::kF32, {6, 4}};

Attributes Group(std::initializer_list<std::pair<const char*, AttributeValue>> more,
                 int64_t parts = 2) {
  Attributes attributes{{"axes", Strings{"tensor"}}, {"parts", parts}};
  for (const auto& item : more) attributes.Set(item.first, item.second);
  return attributes;
}

// Protects: what a rank gets.
TEST(CollectiveTest, Types) {
  const Attributes sum = Group({{"reduction", "sum"}, {"site", "h.0/x"}});
  EXPECT_EQ((*InferOp(AllReduceOp(), {kX}, sum))[0], kX);
  EXPECT_EQ((*InferOp(AllGatherOp(), {kX}, Group({{"dim", 1}})))[0], (Type{DType::kF32, {6, 8}}));
  EXPECT_EQ((*InferOp(ReduceScatterOp(), {kX}, Group({{"dim", 0}}, 3)))[0],
            (Type{DType::kF32, {2, 4}}));
  EXPECT_EQ((*InferOp(AllToAllOp(), {kX}, Group({{"split", 1}, {"join", 0}}, 4)))[0],
            (Type{DType::kF32, {24, 1}}));
  const Types both{kX, {DType::kI32, {5}}};
  EXPECT_EQ(*InferOp(ShiftOp(), both, Group({{"by", -1}})), both);
  EXPECT_EQ((*InferOp(AllGatherOp(), {{DType::kF32, {0, 2}}}, Group({{"dim", 0}})))[0],
            (Type{DType::kF32, {0, 2}}));
}

struct Refusal {
  const Op& op;
  const char* constraint;
  Types operands;
  Attributes attributes;
};

TEST(CollectiveTest, SendAndReceive) {
  ASSERT_OK_AND_ASSIGN(const Types sent, InferOp(SendOp(), {kX}, Group({{"to", 1}})));
  EXPECT_EQ(sent, (Types{{DType::kI32, {1}}}));
  ASSERT_OK_AND_ASSIGN(
      const Types received,
      InferOp(ReceiveOp(), {}, Group({{"from", 1}, {"dtype", "bool"}, {"dims", Ints{2, 3}}})));
  EXPECT_EQ(received, (Types{{DType::kBool, {2, 3}}}));
}

TEST(CollectiveTest, Refuses) {
  const Attributes sum = Group({{"reduction", "sum"}}), dim = Group({{"dim", 0}});
  Attributes twice = dim, none = dim, integer = dim;
  twice.Set("axes", Strings{"a", "a"});
  none.Set("axes", Strings{});
  integer.Set("axes", 1);
  const Refusal refusals[] = {
      {AllReduceOp(), "collective_c1", {}, sum},
      {AllReduceOp(), "collective_c1", {kX, kX}, sum},
      {AllReduceOp(), "collective_c1", {{DType::kBool, {2}}}, sum},
      {ShiftOp(), "collective_c1", Types(17, kX), Group({{"by", 1}})},
      {AllReduceOp(), "collective_c2", {kX}, Group({})},
      {AllReduceOp(), "collective_c2", {kX}, Group({{"reduction", 1}})},
      {AllGatherOp(), "collective_c2", {kX}, Group({{"dim", 0}, {"reduction", "sum"}})},
      {AllGatherOp(), "collective_c2", {kX}, Group({{"dim", "0"}})},
      {AllGatherOp(), "collective_c2", {kX}, Group({{"dim", 0}, {"site", 1}})},
      {AllToAllOp(), "collective_c2", {kX}, Group({{"split", 0}})},
      {ShiftOp(), "collective_c2", {kX}, Group({{"by", 1}, {"to", 1}})},
      {ReduceScatterOp(), "collective_c2", {kX}, integer},
      {ReduceScatterOp(), "collective_c3", {kX}, twice},
      {ReduceScatterOp(), "collective_c3", {kX}, none},
      {ReduceScatterOp(), "collective_c3", {kX}, Group({{"dim", 0}}, 0)},
      {AllGatherOp(), "collective_c3", {kX}, Group({{"dim", 0}}, (int64_t{1} << 20) + 1)},
      {AllGatherOp(), "collective_c4", {kX}, Group({{"dim", 2}})},
      {ReduceScatterOp(), "collective_c4", {kX}, Group({{"dim", -1}})},
      {AllToAllOp(), "collective_c4", {kX}, Group({{"split", 0}, {"join", 0}})},
      {AllToAllOp(), "collective_c4", {kX}, Group({{"split", 0}, {"join", 2}})},
      {ReduceScatterOp(), "collective_c5", {kX}, Group({{"dim", 0}}, 4)},
      {AllToAllOp(), "collective_c5", {kX}, Group({{"split", 1}, {"join", 0}}, 3)},
      {AllGatherOp(), "collective_c5", {{DType::kF32, {int64_t{1} << 40}}}, Group({{"dim", 0}})},
      {AllReduceOp(), "collective_c6", {kX}, Group({{"reduction", "mean"}})},
      {SendOp(), "collective_c2", {kX}, Group({})},
      {SendOp(), "collective_c7", {kX, kX}, Group({{"to", 0}})},
      {SendOp(), "collective_c7", {kX}, Group({{"to", 2}})},
      {ReceiveOp(), "collective_c2", {}, Group({{"from", 0}, {"dtype", "f32"}})},
      {ReceiveOp(),
       "collective_c7",
       {kX},
       Group({{"from", 0}, {"dtype", "f32"}, {"dims", Ints{2}}})},
      {ReceiveOp(),
       "collective_c7",
       {},
       Group({{"from", -1}, {"dtype", "f32"}, {"dims", Ints{2}}})},
      {ReceiveOp(),
       "collective_c7",
       {},
       Group({{"from", 0}, {"dtype", "f32"}, {"dims", Ints{-2}}})},
  };
  for (const Refusal& r : refusals) {
    EXPECT_THAT(InferOp(r.op, r.operands, r.attributes).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)))
        << r.op.name() << r.attributes.ToString();
  }
}

// Protects: nothing may be split or differentiated; only a reduction may be done in place.
TEST(CollectiveTest, FactorsAndAliases) {
  const Types x{kX};
  const Attributes sum = Group({{"reduction", "sum"}}), dim = Group({{"dim", 0}});
  for (const Factor& factor : AllGatherOp().Factors({x, dim}).factors) {
    EXPECT_EQ(factor.kind, FactorKind::kWhole);
  }
  EXPECT_EQ(AllReduceOp().MayAlias({x, sum}).size(), 1u);
  EXPECT_TRUE(AllGatherOp().MayAlias({x, dim}).empty());
  EXPECT_TRUE(IsCollective(ShiftOp()));
  EXPECT_EQ(AllReduceOp().CostOf({x, sum}).flops, 0);
}

// Protects: helpers know their place in the program, and vanish in a group of one.
TEST(CollectiveTest, Helpers) {
  GraphBuilder b("local");
  ValueId x = b.Feed("x", kX);
  EXPECT_EQ(AllReduce(b, x, {"tensor"}, 1), x);
  EXPECT_EQ(Shift(b, {x}, {"tensor"}, 1, 1), ValueIds{x});
  b.SetBlock("h.3");
  ValueId y = AllToAll(b, AllReduce(b, x, {"tensor"}, 2), {"data", "tensor"}, 4, 1, 0);
  y = ReduceScatter(b, AllGather(b, y, {"tensor"}, 2, 1), {"tensor"}, 2, 1);
  b.Output("y", Shift(b, {y}, {"tensor"}, 2, 1, "moved")[0]);
  absl::StatusOr<Graph> graph = std::move(b).Build();
  ASSERT_OK(graph.status());
  const std::string text = ToText(*graph);
  EXPECT_THAT(text, HasSubstr("%h.3/all_to_all: f32[24,1] = all_to_all(%h.3/all_reduce) "
                              "{axes=[\"data\", \"tensor\"], join=0, parts=4, "
                              "site=\"h.3/all_to_all\", split=1} @h.3"));
  EXPECT_THAT(text, HasSubstr("%moved: f32[24,1] = shift("));
  absl::StatusOr<Graph> again = ParseGraph(text);
  ASSERT_OK(again.status());
  EXPECT_EQ(ToText(*again), text);
}

}  // namespace
}  // namespace colossus
