#include "tensor/ops/chain.h"

#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr DType kF = DType::kF32;

absl::Status Check(const Strings& steps, const Ints& results, const Types& operands) {
  const Attributes attributes{{"steps", steps}, {"results", results}};
  return ChainOp().Infer({operands, attributes}).status();
}

// Protects: each step rounds to its element type, and what leaves is what `results` lists.
TEST(ChainTest, RoundsAtEveryBorder) {
  // 1 + 2^-8 is halfway between bf16 neighbours 1 and 1 + 2^-7: rounding gives 1, then 1 - 1 = 0.
  const HostTensor x = HostTensor::Of<float>({2}, {0x1p-8f, 3});
  const HostTensor one = HostTensor::Of<float>({}, {1});
  std::vector<HostTensor> y =
      RunOp(ChainOp(), {x, one},
            {{"steps", Strings{"add x0 x1", "convert t0 dtype=bf16", "convert t1 dtype=f32",
                               "sub t2 x1"}},
             {"results", Ints{1, 3}}});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].type(), (Type{DType::kBF16, {2}}));
  EXPECT_EQ(y[0].Get(0), 1);
  EXPECT_TRUE(y[1] == HostTensor::Of<float>({2}, {0, 3}));
}

// Protects: a program is what its text says, attributes to the bit.
TEST(ChainTest, TextIsTheProgram) {
  const Attributes attributes{
      {"steps", Strings{"scale x1 factor=0x1.999999999999ap-4", "select x0 t0 x1",
                        "convert t1 dtype=f16"}},
      {"results", Ints{0, 2}}};
  absl::StatusOr<ChainProgram> program = ParseChain(attributes, 2);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->steps[0].attributes.Float("factor"), 0.1);
  EXPECT_EQ(program->steps[1].values, (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(program->ToAttributes(), attributes);
}

TEST(ChainTest, Constraints) {
  const Types one = {{kF, {2, 3}}}, two = {{kF, {2, 3}}, {kF, {3}}};
  EXPECT_OK(Check({"add x0 x1", "neg t0"}, {1}, two));
  EXPECT_THAT(Check({}, {0}, one),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chain_c1")));
  EXPECT_THAT(Check(Strings(17, "neg x0"), {0}, one).message(), HasSubstr("chain_c1"));
  const Attributes more{{"steps", Strings{"neg x0"}}, {"results", Ints{0}}, {"x", 1}};
  EXPECT_THAT(ChainOp().Infer({one, more}).status().message(), HasSubstr("chain_c1"));
  const Types drop = {{kF, {2, 3}}, {DType::kI64, {2}}, {DType::kI64, {}}};
  EXPECT_OK(Check({"dropout x0 x1 x2 rate=0x1p-2 site=h.0/out"}, {0}, drop));
  EXPECT_THAT(Check({"dropout x0 x1 x2 origin=[0, 1] rate=0x1p-2 site=a"}, {0}, drop).message(),
              HasSubstr("chain_c2"));
  EXPECT_THAT(Check({"dropout x0 x1 x2 rate=0x1p+1 site=a"}, {0}, drop).message(),
              HasSubstr("chain_c3"));
  for (const char* step : {"reshape x0", "", "neg x1", "neg t0", "neg  x0", "neg x0 ", "neg x00",
                           "scale x0 factor=0.5", "scale factor=0x1p-1 x0"}) {
    EXPECT_THAT(Check({step}, {0}, one).message(), HasSubstr("chain_c2")) << step;
  }
  for (const char* step : {"add x0", "scale x0", "convert x0 dtype=f99", "logical_not x0"}) {
    EXPECT_THAT(Check({step}, {0}, one).message(), HasSubstr("chain_c3")) << step;
  }
  EXPECT_THAT(Check({"neg x1", "add x0 t0"}, {1}, two).message(), HasSubstr("chain_c4"));
  for (const Ints& results : {Ints{}, Ints{1, 0}, Ints{1, 1}, Ints{2}, Ints{-1}, Ints{0}}) {
    EXPECT_THAT(Check({"neg x0", "neg t0"}, results, one).message(), HasSubstr("chain_c5"));
  }
  EXPECT_THAT(Check({"neg x0"}, {0}, two).message(), HasSubstr("chain_c5"));
}

}  // namespace
}  // namespace colossus
