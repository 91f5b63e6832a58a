#include "tensor/host_tensor.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

// Values at every border of the narrower types: ties, subnormals, overflow, zeros of both signs,
// NaN, and whole numbers beyond each integer's range.
HostTensor Borders() {
  const double inf = std::numeric_limits<double>::infinity();
  return HostTensor::Of<double>(
      {5, 6}, {0.0,          -0.0,         1.0,    -1.5,          1.00390625, 1.01171875,
               65504.0,      65519.9,      65520., -1e6,          3.4e38,     1e39,
               0x1p-24,      0x1p-25,      0x3p-26, -0x1p-149,    1e-320,     inf,
               -inf,         std::nan(""), 255.0,  256.0,         -1.0,       2147483647.0,
               2147483648.0, 0x1p53,       0x1p63, 1 + 0x1.8p-24, 1 + 0x1p-8, 0x1.fffffep-1});
}

// Protects: the fast way gives the bits of the slow one, for every pair of types.
TEST(HostTensorTest, ConvertedIsElementByElement) {
  const HostTensor borders = Borders();
  for (DType src : kAllDTypes) {
    HostTensor x(Type{src, borders.type().dims});
    for (int64_t i = 0; i < x.type().elements(); ++i) x.Set(i, borders.Get(i));
    for (DType dst : kAllDTypes) {
      HostTensor expected(Type{dst, x.type().dims});
      for (int64_t i = 0; i < x.type().elements(); ++i) expected.Set(i, x.Get(i));
      EXPECT_TRUE(x.Converted(dst) == (src == dst ? x : expected)) << Name(src) << Name(dst);
    }
  }
}

// Protects: ranges of threads cover everything once.
TEST(HostTensorTest, ConvertsManyAndNone) {
  HostTensor x(Type{DType::kF32, {300'001}});
  for (int64_t i = 0; i < x.type().elements(); ++i) x.Set(i, static_cast<double>(i % 256));
  const HostTensor y = x.Converted(DType::kBF16);
  for (int64_t i = 0; i < x.type().elements(); ++i) ASSERT_EQ(y.Get(i), i % 256) << i;
  EXPECT_EQ(HostTensor(Type{DType::kF32, {0, 3}}).Converted(DType::kI32).type(),
            (Type{DType::kI32, {0, 3}}));
}

// Protects: a copy owns its bytes; equality is of types and bytes.
TEST(HostTensorTest, CopiesAndCompares) {
  HostTensor a = HostTensor::Of<float>({2}, {0.0f, 1.0f});
  HostTensor b = a;
  EXPECT_TRUE(a == b);
  b.Set(0, -0.0);
  EXPECT_FALSE(a == b);
  EXPECT_EQ(a.Get(0), 0);
  EXPECT_FALSE(HostTensor::Of<float>({1, 2}, {0, 1}) == a);
  EXPECT_EQ(HostTensor(Type{DType::kF16, {3}}).ToDoubles(), (std::vector<double>{0, 0, 0}));
}

// Protects: kernels rely on 64-byte alignment, and callers on zeros.
TEST(HostTensorTest, StartsAsZerosAligned) {
  for (DType dtype : kAllDTypes) {
    HostTensor t(Type{dtype, {3, 5}});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u);
    EXPECT_EQ(t.ToDoubles(), std::vector<double>(15, 0.0)) << Name(dtype);
  }
}

TEST(HostTensorDeathTest, TheWrongElementTypeIsABug) {
  HostTensor t(Type{DType::kBF16, {2}});
  EXPECT_DEATH(t.data<float>(), "bf16");
  EXPECT_DEATH(HostTensor::Of<float>({3}, {1}), "CHECK");
}

}  // namespace
}  // namespace colossus
