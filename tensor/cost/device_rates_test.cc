#include "tensor/cost/device_rates.h"

#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr DeviceRates kRates = {
    .flops_f32 = 100, .flops_16 = 400, .bytes_per_second = 10, .launch_seconds = 0.5};

// Protects: the roofline: the larger of the two times, at the rate of the first float operand.
TEST(DeviceRatesTest, Roofline) {
  const Type f32{DType::kF32, {2}}, bf16{DType::kBF16, {2}}, f16{DType::kF16, {2}},
      f64{DType::kF64, {2}}, ids{DType::kI32, {2}};
  const struct {
    Cost cost;
    Types operands;
    double seconds;
  } rows[] = {
      {{0, 0}, {}, 0.5},                    // a launch costs
      {{200, 10}, {f32}, 2.5},              // arithmetic
      {{200, 30}, {f32}, 3.5},              // memory
      {{200, 0}, {bf16}, 1},                // 16 bits
      {{200, 0}, {f16, f32}, 1},            //
      {{200, 0}, {f32, bf16}, 2.5},         // the first decides
      {{200, 0}, {ids, bf16}, 1},           // of the floats
      {{200, 0}, {ids}, 2.5},
      {{200, 0}, {f64}, 2.5},
  };
  for (const auto& row : rows) EXPECT_EQ(OpSeconds(kRates, row.cost, row.operands), row.seconds);
}

}  // namespace
}  // namespace colossus
