#include "tensor/ops/pack.h"

#include <random>
#include <utility>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Protects: which element goes where, and zeros in the gaps.
TEST(PackTest, Elements) {
  const HostTensor x = HostTensor::Of<float>({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::vector<HostTensor> parts =
      RunOp(UnpackOp(), {x},
            {{"offsets", Ints{1, 8, 9}}, {"ranks", Ints{2, 0, 1}}, {"dims", Ints{2, 3, 1}}});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(parts[0] == HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(parts[1] == HostTensor::Of<float>({}, {8}));
  EXPECT_TRUE(parts[2] == HostTensor::Of<float>({1}, {9}));
  const Attributes places{{"offsets", Ints{1, 8, 9}}, {"elements", 12}};
  EXPECT_TRUE(RunOp(PackOp(), parts, places)[0] ==
              HostTensor::Of<float>({12}, {0, 1, 2, 3, 4, 5, 6, 0, 8, 9, 0, 0}));
}

// Protects: what executors read.
TEST(PackTest, Places) {
  const Type x{DType::kF32, {40}}, y{DType::kF32, {2}};
  const Attributes unpack{{"offsets", Ints{0, 16}}, {"ranks", Ints{1, 0}}, {"dims", Ints{2}}};
  const Attributes pack{{"offsets", Ints{1, 8}}, {"elements", 12}};
  EXPECT_TRUE(UnpackOp().IsView({{x}, unpack}));
  // 32 bytes: no buffer begins there.
  EXPECT_FALSE(UnpackOp().IsView({{{DType::kBF16, {40}}}, unpack}));
  EXPECT_THAT(UnpackOp().ViewOffsets({{x}, unpack}), ElementsAre(0, 16));
  EXPECT_FALSE(PackOp().IsView({{y, y}, pack}));
  EXPECT_THAT(PackOp().OperandPlaces({{y, y}, pack}), ElementsAre(1, 8));
  EXPECT_TRUE(UnpackOp().OperandPlaces({{x}, unpack}).empty());
}

// Protects: gradients, and that a part without a cotangent gives zeros.
TEST(PackTest, Gradients) {
  std::mt19937_64 random(TestSeed());
  const HostTensor x = RandomTensor(DType::kF64, {11}, random);
  const HostTensor y = RandomTensor(DType::kF64, {2, 3}, random);
  ExpectGradient(UnpackOp(), {x},
                 {{"offsets", Ints{0, 4}}, {"ranks", Ints{1, 2}}, {"dims", Ints{4, 2, 3}}}, {0});
  ExpectGradient(PackOp(), {y, y}, {{"offsets", Ints{1, 8}}, {"elements", 15}}, {0, 1});
  ExpectFlops(PackOp(), {y, y}, {{"offsets", Ints{1, 8}}, {"elements", 15}});
}

// Protects: more results than most ops have; and a builder after an error.
TEST(PackTest, ManyTensors) {
  GraphBuilder b("many");
  const ValueId x = b.Feed("x", {DType::kF32, {kMaxPacked}});
  std::vector<PackedTensor> tensors;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < kMaxPacked; ++i) {
    tensors.push_back({i, {1}});
    offsets.push_back(i);
  }
  const ValueIds parts = Unpack(b, x, tensors);
  EXPECT_EQ(parts.size(), static_cast<size_t>(kMaxPacked));
  EXPECT_EQ(b.type(Pack(b, parts, offsets, 300)), (Type{DType::kF32, {300}}));
  EXPECT_OK(b.status());
  tensors.push_back({kMaxPacked, {1}});
  EXPECT_EQ(Unpack(b, x, tensors).size(), static_cast<size_t>(kMaxPacked) + 1);
  EXPECT_THAT(b.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unpack_c2")));
}

TEST(PackTest, Constraints) {
  const Type x{DType::kF32, {10}}, square{DType::kF32, {2, 5}}, y{DType::kF32, {2, 3}};
  auto unpack = [](Ints offsets, Ints ranks, Ints dims) {
    return Attributes{
        {"offsets", std::move(offsets)}, {"ranks", std::move(ranks)}, {"dims", std::move(dims)}};
  };
  auto pack = [](Ints offsets, int64_t elements) {
    return Attributes{{"offsets", std::move(offsets)}, {"elements", elements}};
  };
  const struct {
    const char* constraint;
    const Op& op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"unpack_c1", UnpackOp(), {}, unpack({0}, {1}, {2})},
      {"unpack_c1", UnpackOp(), {x, x}, unpack({0}, {1}, {2})},
      {"unpack_c1", UnpackOp(), {square}, unpack({0}, {1}, {2})},
      {"unpack_c2", UnpackOp(), {x}, {{"offsets", Ints{0}}, {"ranks", Ints{1}}}},
      {"unpack_c2", UnpackOp(), {x}, {{"offsets", 0}, {"ranks", Ints{1}}, {"dims", Ints{1}}}},
      {"unpack_c2", UnpackOp(), {x}, unpack({}, {}, {})},
      {"unpack_c2", UnpackOp(), {x}, unpack({0, 1}, {0}, {})},
      {"unpack_c2", UnpackOp(), {x}, unpack(Ints(257, 0), Ints(257, 0), {})},
      {"unpack_c3", UnpackOp(), {x}, unpack({0}, {-1}, {})},
      {"unpack_c3", UnpackOp(), {x}, unpack({0}, {2}, {1})},
      {"unpack_c3", UnpackOp(), {x}, unpack({0}, {1}, {1, 2})},
      {"unpack_c3", UnpackOp(), {x}, unpack({0}, {1}, {-1})},
      {"unpack_c3", UnpackOp(), {x}, unpack({0}, {2}, {int64_t{1} << 40, int64_t{1} << 40})},
      {"unpack_c4", UnpackOp(), {x}, unpack({5}, {1}, {6})},
      {"unpack_c4", UnpackOp(), {x}, unpack({-1}, {1}, {1})},
      {"unpack_c4", UnpackOp(), {x}, unpack({11}, {1}, {0})},
      {"unpack_c4", UnpackOp(), {x}, unpack({0, 1}, {1, 1}, {2, 2})},
      {"pack_c1", PackOp(), {}, pack({}, 3)},
      {"pack_c1", PackOp(), {y, {DType::kBF16, {1}}}, pack({0, 6}, 9)},
      {"pack_c1", PackOp(), Types(257, {DType::kF32, {0}}), pack(Ints(257, 0), 9)},
      {"pack_c2", PackOp(), {y}, pack({0, 6}, 9)},
      {"pack_c2", PackOp(), {y}, pack({0}, -1)},
      {"pack_c2", PackOp(), {y}, {{"offsets", Ints{0}}}},
      {"pack_c2", PackOp(), {y}, {{"offsets", Ints{0}}, {"elements", 9}, {"dim", 0}}},
      {"pack_c3", PackOp(), {y, y}, pack({0, 5}, 20)},
      {"pack_c3", PackOp(), {y, y}, pack({0, 6}, 11)},
      {"pack_c3", PackOp(), {y}, pack({-1}, 11)},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
