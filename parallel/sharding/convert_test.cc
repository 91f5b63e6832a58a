#include "parallel/sharding/convert.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/mesh_slice.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

const Type kX{DType::kF32, {512, 768}};

// "reduce_scatter(a)0": kind, axes, dim; all_to_all(a)0>1 puts together dim 0 and splits dim 1.
std::string Chain(const Sharding& from, const Sharding& to, const Mesh& mesh,
                  const Type& global = kX) {
  absl::StatusOr<Conversion> conversion = PlanConversion(global, from, to, mesh);
  if (!conversion.ok()) return std::string(conversion.status().message());
  return absl::StrJoin(conversion->steps, " ", [](std::string* out, const ConversionStep& step) {
    absl::StrAppend(out, Name(step.kind), "(", absl::StrJoin(step.axes, ","), ")");
    if (step.dim >= 0) absl::StrAppend(out, step.dim);
    if (step.split >= 0) absl::StrAppend(out, ">", step.split);
  });
}

Mesh Cube() { return *Mesh::Make({{"a", 2}, {"b", 2}, {"c", 2}}); }

TEST(ConvertTest, CheapestChains) {
  const Mesh mesh = Cube();
  const Sharding whole = Replicated(2);
  EXPECT_EQ(Chain(whole, whole, mesh), "");
  EXPECT_EQ(Chain(whole, {{{"a"}, {"b"}}, {}}, mesh), "slice(a)0 slice(b)1");
  EXPECT_EQ(Chain({{{}, {}}, {"a"}}, whole, mesh), "all_reduce(a)");
  EXPECT_EQ(Chain({{{}, {}}, {"b", "a"}}, whole, mesh), "all_reduce(a,b)");
  EXPECT_EQ(Chain({{{}, {}}, {"a"}}, {{{}, {"a"}}, {}}, mesh), "reduce_scatter(a)1");
  EXPECT_EQ(Chain({{{"a", "b"}, {}}, {}}, {{{"a"}, {}}, {}}, mesh), "all_gather(b)0");
  EXPECT_EQ(Chain({{{"a"}, {}}, {}}, {{{}, {"a"}}, {}}, mesh), "all_to_all(a)0>1");
  EXPECT_EQ(Chain({{{}, {}}, {"a", "b"}}, {{{}, {}}, {"b"}}, mesh), "all_reduce(a)");
  EXPECT_EQ(Chain({{{"a"}, {}}, {"b"}}, {{{"a", "b"}, {}}, {}}, mesh), "reduce_scatter(b)0");
  // A sum to add up and another axis to split by: the smaller value is reduced.
  EXPECT_EQ(Chain({{{}, {}}, {"a"}}, {{{"b"}, {}}, {}}, mesh), "slice(b)0 all_reduce(a)");
}

// Protects: axes of size 1 cost nothing, wherever they stand.
TEST(ConvertTest, AxesOfSizeOneAreFree) {
  const Mesh mesh = *Mesh::Make({{"a", 1}, {"b", 2}});
  EXPECT_EQ(Chain({{{"a"}, {}}, {}}, {{{}, {"a"}}, {}}, mesh), "");
  EXPECT_EQ(Chain({{{}, {}}, {"a"}}, Replicated(2), mesh), "");
  EXPECT_EQ(Chain(Replicated(2), {{{}, {}}, {"a"}}, mesh), "");
  EXPECT_EQ(Chain({{{"a", "b"}, {}}, {}}, {{{"b"}, {"a"}}, {}}, mesh), "");
}

TEST(ConvertTest, Refuses) {
  const Mesh mesh = Cube();
  const Type odd{DType::kF32, {6, 3}};
  EXPECT_THAT(Chain(Replicated(2), {{{}, {"a"}}, {}}, mesh, odd), HasSubstr("3 is not divisible"));
  EXPECT_THAT(Chain({{{"a", "b"}, {}}, {}}, Replicated(2), mesh, odd),
              HasSubstr("dim 0 of [6,3] cannot be split over a, b: 6 is not divisible by 4"));
  EXPECT_THAT(Chain(Replicated(2), {{{}, {}}, {"a"}}, mesh),
              HasSubstr("does not become partial over 'a'"));
  EXPECT_THAT(Chain(Replicated(2), Replicated(1), mesh), HasSubstr("1 dims"));
}

// Protects: a way is found where a shorter one would need uneven parts.
TEST(ConvertTest, UnevenPartsAreGoneAround) {
  const Mesh mesh = Cube();
  const Type odd{DType::kF32, {4, 3}};
  EXPECT_EQ(Chain({{{"a", "b"}, {}}, {}}, {{{"b", "a"}, {}}, {}}, mesh, odd),
            "all_gather(a,b)0 slice(b,a)0");
}

}  // namespace
}  // namespace colossus
