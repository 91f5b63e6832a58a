#include "tensor/ops/sum_squares.h"

#include <algorithm>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// The rule of the header, written once more.
double ByRule(const std::vector<HostTensor>& operands) {
  double total = 0;
  for (const HostTensor& x : operands) {
    int64_t n = x.type().elements();
    for (int64_t begin = 0; begin < n; begin += 1024) {
      double block = 0;
      for (int64_t lane = 0; lane < 16; ++lane) {
        double sum = 0;
        for (int64_t i = begin + lane; i < std::min<int64_t>(begin + 1024, n); i += 16) {
          sum += x.Get(i) * x.Get(i);
        }
        block += sum;
      }
      total += block;
    }
  }
  return total;
}

TEST(SumSquaresTest, BitRule) {
  std::mt19937_64 random(TestSeed());
  for (int64_t n : {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
    std::vector<HostTensor> x{RandomTensor(DType::kF32, {n}, random),
                              RandomTensor(DType::kBF16, {3, 7}, random)};
    EXPECT_EQ(RunOp(SumSquaresOp(), x, {})[0].Get(0), ByRule(x)) << n;
    ExpectFlops(SumSquaresOp(), x, {});
  }
}

// A flat buffer cut at a block border has the bits of the whole.
TEST(SumSquaresTest, CutsAtBlockBordersChangeNoBit) {
  std::mt19937_64 random(TestSeed());
  HostTensor whole = RandomTensor(DType::kF32, {5000}, random);
  std::vector<float> values(whole.data<float>().begin(), whole.data<float>().end());
  HostTensor first = HostTensor::Of<float>({2048}, {values.begin(), values.begin() + 2048});
  HostTensor second = HostTensor::Of<float>({2952}, {values.begin() + 2048, values.end()});
  EXPECT_EQ(RunOp(SumSquaresOp(), {whole}, {})[0].Get(0),
            RunOp(SumSquaresOp(), {first, second}, {})[0].Get(0));
}

// Protects: measured one after the other, values have the bits of one node over all.
TEST(SumSquaresTest, ContinuesATotal) {
  std::mt19937_64 random(TestSeed());
  std::vector<HostTensor> x;
  for (int64_t n : {700, 0, 1024, 3000, 1}) x.push_back(RandomTensor(DType::kF32, {n}, random));
  HostTensor total = RunOp(SumSquaresOp(), {x[0], x[1]}, {})[0];
  total = RunOp(SumSquaresOp(), {total, x[2]}, {{"continues", true}})[0];
  total = RunOp(SumSquaresOp(), {total, x[3], x[4]}, {{"continues", true}})[0];
  EXPECT_EQ(total.Get(0), RunOp(SumSquaresOp(), x, {})[0].Get(0));
  ExpectFlops(SumSquaresOp(), {total, x[3]}, {{"continues", true}});
}

// Several operands: a part of one beside the whole of another must not be added up over ranks.
TEST(SumSquaresTest, Factors) {
  Type x{DType::kF32, {4, 6}};
  FactorRule rule = SumSquaresOp().Factors({Types{x}, Attributes{}});
  EXPECT_EQ(rule.ToString(), "d0 d1 -> ");
  EXPECT_EQ(rule.factors[0].kind, FactorKind::kSum);
  for (const Factor& factor : SumSquaresOp().Factors({Types{x, x}, Attributes{}}).factors) {
    EXPECT_EQ(factor.kind, FactorKind::kWhole);
  }
  const Types continued{{DType::kF64, {}}, x};
  for (const Factor& factor :
       SumSquaresOp().Factors({continued, Attributes{{"continues", true}}}).factors) {
    EXPECT_EQ(factor.kind, FactorKind::kWhole);
  }
}

TEST(SumSquaresTest, Constraints) {
  auto status = [](Types types, Attributes attributes) {
    return InferOp(SumSquaresOp(), types, attributes);
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status({}, {}), StatusIs(kInvalid, HasSubstr("sum_squares_c1")));
  EXPECT_THAT(status({{DType::kI32, {2}}}, {}), StatusIs(kInvalid, HasSubstr("sum_squares_c1")));
  EXPECT_THAT(status({{DType::kF32, {2}}}, {{"dims", 1}}),
              StatusIs(kInvalid, HasSubstr("sum_squares_c2")));
  EXPECT_THAT(status({{DType::kF64, {}}}, {{"continues", true}}),
              StatusIs(kInvalid, HasSubstr("sum_squares_c1")));
  EXPECT_THAT(status({{DType::kF32, {}}, {DType::kF32, {2}}}, {{"continues", true}}),
              StatusIs(kInvalid, HasSubstr("sum_squares_c3")));
}

}  // namespace
}  // namespace colossus
