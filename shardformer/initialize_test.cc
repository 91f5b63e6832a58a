#include "shardformer/initialize.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/parallel_for.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

StateInfo Info(const std::string& name, Dims dims, Initializer init) {
  StateInfo info;
  info.name = name;
  info.global_dims = info.disk_dims = dims;
  info.init = init;
  return info;
}

// Protects: runs of different versions start alike. The numbers are what the first version gave.
TEST(InitializeTest, Pinned) {
  const HostTensor w = InitialValue(Info("w", {2, 3}, Initializer::Normal(0.02)), DType::kF64, 1);
  const double pinned[] = {0x1.2b9acad729d6p-9,  0x1.80e7b569cee72p-7,
                           -0x1.06d6083413a48p-7, -0x1.36754f1127839p-5,
                           -0x1.9c103a48acfcp-7,  -0x1.41626c0cb8033p-6};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(w.Get(i), pinned[i]) << i;
}

// Protects: values are a function of (seed, name, element) alone.
TEST(InitializeTest, IndependentOfThreadsAndShape) {
  const Initializer normal = Initializer::Normal(1);
  SetThreads(1);
  const HostTensor one = InitialValue(Info("w", {20'001}, normal), DType::kF32, 7);
  for (int threads : {2, 3}) {
    SetThreads(threads);
    EXPECT_TRUE(InitialValue(Info("w", {20'001}, normal), DType::kF32, 7) == one) << threads;
  }
  const HostTensor larger = InitialValue(Info("w", {3, 10'000}, normal), DType::kF32, 7);
  for (int64_t i = 0; i < 20'001; ++i) ASSERT_EQ(larger.Get(i), one.Get(i)) << i;
  EXPECT_NE(InitialValue(Info("v", {8}, normal), DType::kF32, 7).Get(0), one.Get(0));
  EXPECT_NE(InitialValue(Info("w", {8}, normal), DType::kF32, 8).Get(0), one.Get(0));
}

// Protects: the numbers drawn many at a time are those drawn one by one, in every dtype.
TEST(InitializeTest, IsTheDeviationTimesNormals) {
  SetThreads(2);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const HostTensor w = InitialValue(Info("w", {9'001}, Initializer::Normal(0.02)), dtype, 7);
    HostTensor want(w.type());
    for (int64_t i = 0; i < 9'001; ++i) {
      want.Set(i, 0.02 * Normal({7, 0}, SiteId("w"), static_cast<uint64_t>(i)));
    }
    EXPECT_TRUE(w == want) << Name(dtype);
  }
}

// Protects: the deviation is the initializer's. Limits are 5 standard errors of n samples: in units
// of the deviation 1 / sqrt(n) of the mean, sqrt(2 / n) of the variance, sqrt(15 / n) of the cube.
TEST(InitializeTest, Moments) {
  constexpr int64_t n = 200'000;
  constexpr double d = 0.02;
  const HostTensor w = InitialValue(Info("w", {n}, Initializer::Normal(d)), DType::kF32, 3);
  double sum = 0, squares = 0, cubes = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = w.Get(i) / d;
    sum += x;
    squares += x * x;
    cubes += x * x * x;
  }
  EXPECT_LE(std::abs(sum / n), 5 / std::sqrt(n));
  EXPECT_LE(std::abs(squares / n - 1), 5 * std::sqrt(2.0 / n));
  EXPECT_LE(std::abs(cubes / n), 5 * std::sqrt(15.0 / n));
}

// Protects: biases and norms start at their constants, in any dtype.
TEST(InitializeTest, Constants) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const HostTensor w = InitialValue(Info("w", {5}, Initializer::Constant(1)), dtype, 3);
    EXPECT_EQ(w.ToDoubles(), std::vector<double>(5, 1.0));
  }
}

}  // namespace
}  // namespace colossus
