#include "base/dtype.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint16_t HalfBits(_Float16 value) {
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Conversion to bf16 by definition: of the two neighbours the nearer, of equally near the even one.
uint16_t SlowBF16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t below = u >> 16;
  const auto value = [](uint16_t bits) -> double {
    // The first number past the largest bf16, where the format would go on.
    if ((bits & 0x7fffu) == 0x7f80u) return std::copysign(0x1p128, (bits >> 15) != 0 ? -1.0 : 1.0);
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  };
  const uint16_t above = below + 1;
  const double to_below = std::fabs(double{f} - value(below));
  const double to_above = std::fabs(double{f} - value(above));
  if (to_below != to_above) return to_below < to_above ? below : above;
  return (below & 1u) == 0 ? below : above;
}

TEST(DType, NamesSizesAndParsingAgree) {
  for (DType dtype : kAllDTypes) {
    const std::string name(Name(dtype));
    absl::StatusOr<DType> parsed = ParseDType(name);
    ASSERT_OK(parsed) << name;
    EXPECT_EQ(*parsed, dtype);
    DispatchDType(dtype, [&](auto zero) {
      EXPECT_EQ(DTypeOf<decltype(zero)>(), dtype) << name;
      EXPECT_EQ(static_cast<int64_t>(sizeof(zero)), SizeOf(dtype)) << name;
    });
    EXPECT_EQ(IsFloat(dtype), name[0] == 'f' || name == "bf16");
  }
  EXPECT_THAT(ParseDType("float32"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"float32\"")));
  EXPECT_DEATH(SizeOf(static_cast<DType>(8)), "not a DType: 8");
}

TEST(BF16, EveryBitPatternRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = BF16{static_cast<uint16_t>(bits)}.F();
    const BF16 back = BF16::From(f);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(back.F())) << bits;
      EXPECT_EQ(back.bits, bits | 0x40u) << "quiet, sign and payload kept";
    } else {
      EXPECT_EQ(back.bits, bits);
    }
  }
}

TEST(BF16, RoundsToNearestEven) {
  struct Case { float f; uint16_t bits; };
  const Case cases[] = {
      {0.0f, 0x0000}, {-0.0f, 0x8000}, {1.0f, 0x3f80}, {kInf, 0x7f80}, {-kInf, 0xff80},
      {0x1.01p0f, 0x3f80},        // tie between 1 and 1 + 2^-7: to even
      {0x1.03p0f, 0x3f82},        // tie above an odd one: up
      {0x1.010002p0f, 0x3f81},    // just above the tie
      {0x1.fep127f, 0x7f7f},      // the largest bf16
      {0x1.fefffep127f, 0x7f7f},  // just below the tie with infinity
      {0x1.ffp127f, 0x7f80},      // the tie
      {std::numeric_limits<float>::max(), 0x7f80},
      {0x1p-133f, 0x0001},        // the smallest subnormal
      {0x1p-134f, 0x0000},        // its half: to even
      {0x1.8p-134f, 0x0001},
  };
  for (const Case& c : cases) EXPECT_EQ(BF16::From(c.f).bits, c.bits) << c.f;
  // NaNs whose payload lies only in the lower half must not become infinities.
  EXPECT_TRUE(std::isnan(BF16::From(std::bit_cast<float>(0x7f800001u)).F()));
  EXPECT_EQ(BF16::From(std::bit_cast<float>(0xffffffffu)).bits, 0xffff);
}

TEST(BF16, RandomFloatsRoundAsDefined) {
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 1000000; ++i) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(f)) continue;
    ASSERT_EQ(BF16::From(f).bits, SlowBF16(f)) << std::hexfloat << f;
  }
}

TEST(F16, EveryBitPatternRoundTripsAndMatchesTheCompiler) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const float f = half.F();
    const F16 back = F16::From(f);
    if (std::isnan(f)) {
      EXPECT_EQ(back.bits, bits | 0x200u) << "quiet, sign and payload kept";
      continue;
    }
    EXPECT_EQ(back.bits, bits);
    _Float16 compiler;
    std::memcpy(&compiler, &half, sizeof(half));
    EXPECT_EQ(std::bit_cast<uint32_t>(f), std::bit_cast<uint32_t>(static_cast<float>(compiler)));
  }
}

TEST(F16, RandomFloatsRoundAsTheCompilerDoes) {
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 1000000; ++i) {
    // Exponents 2^-28 to 2^19 cover zero, subnormal, normal and infinite results; then any bits.
    const uint32_t u = static_cast<uint32_t>(random());
    const uint32_t near = (u & 0x807fffffu) | ((99u + (u >> 23) % 48u) << 23);
    for (uint32_t bits : {near, near & 0xfffff000u, u}) {
      const float f = std::bit_cast<float>(bits);
      if (std::isnan(f)) continue;
      ASSERT_EQ(F16::From(f).bits, HalfBits(static_cast<_Float16>(f))) << std::hexfloat << f;
    }
  }
  EXPECT_EQ(F16::From(65519.996f).bits, 0x7bff);
  EXPECT_EQ(F16::From(65520.0f).bits, 0x7c00);
  EXPECT_EQ(F16::From(-kInf).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(F16::From(std::bit_cast<float>(0x7f800001u)).F()));
}

TEST(FromDouble, RoundsOnceToSixteenBitFloats) {
  // By way of float these become ties and then round the wrong way.
  EXPECT_EQ(FromDouble<BF16>(0x1.01p0 + 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(FromDouble<BF16>(0x1.03p0 - 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(FromDouble<F16>(-(0x1.002p0 + 0x1p-40)).bits, 0xbc01);
  EXPECT_EQ(FromDouble<BF16>(1e300).bits, 0x7f80);
  EXPECT_EQ(FromDouble<BF16>(-1e-300).bits, 0x8000);
  EXPECT_TRUE(std::isnan(FromDouble<F16>(kNan).F()));
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 300000; ++i) {
    const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                    -63 - 26 + static_cast<int>(random() % 44));
    ASSERT_EQ(FromDouble<F16>(value).bits, HalfBits(static_cast<_Float16>(value))) << value;
  }
}

TEST(FromDouble, IntegersSaturateAndCutTheFraction) {
  EXPECT_EQ(FromDouble<uint8_t>(255.9), 255);
  EXPECT_EQ(FromDouble<uint8_t>(256.0), 255);
  EXPECT_EQ(FromDouble<uint8_t>(-0.5), 0);
  EXPECT_EQ(FromDouble<int32_t>(-2.9), -2);
  EXPECT_EQ(FromDouble<int32_t>(3e9), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(FromDouble<int64_t>(0x1p63), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(FromDouble<int64_t>(-kInf), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(FromDouble<int64_t>(kNan), 0);
  EXPECT_TRUE(FromDouble<bool>(0.25));
  EXPECT_FALSE(FromDouble<bool>(-0.0));
}

TEST(LoadStore, WorkOnEveryDTypeAtAnyAlignment) {
  for (DType dtype : kAllDTypes) {
    alignas(8) unsigned char bytes[64] = {};
    for (int64_t i = 0; i < 5; ++i) StoreFromDouble(dtype, bytes + 1, i, static_cast<double>(i));
    for (int64_t i = 0; i < 5; ++i) {
      const double want = dtype == DType::kBool ? (i != 0) : static_cast<double>(i);
      EXPECT_EQ(LoadAsDouble(dtype, bytes + 1, i), want) << std::string(Name(dtype));
    }
    EXPECT_EQ(bytes[1 + 5 * SizeOf(dtype)], 0) << "wrote past the end";
  }
  const uint8_t byte = 2;
  EXPECT_EQ(LoadAsDouble(DType::kBool, &byte, 0), 1.0);
}

}  // namespace
}  // namespace colossus
