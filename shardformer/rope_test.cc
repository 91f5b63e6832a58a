#include "shardformer/rope.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string name;
  RopeParameters rope;
  struct {
    int64_t rotary_dim, max_positions, sequence_length;
  } sizes;
  std::vector<double> inverse_frequencies;
  double attention_factor = 1.0;
};

// Every type against values of an independent implementation in single precision, hence the limit
// of 3e-7 relative: two roundings of 2^-24 and that of the decimal digits.
std::vector<Case> Cases() {
  const RopeParameters short_llama3 = {.type = RopeType::kLlama3,
                                       .factor = 8,
                                       .original_max_positions = 64,
                                       .low_freq_factor = 1,
                                       .high_freq_factor = 4};
  RopeParameters llama3 = short_llama3;
  llama3.theta = 500000;
  llama3.original_max_positions = 8192;
  const RopeParameters linear = {.type = RopeType::kLinear, .factor = 4};
  const RopeParameters dynamic = {.type = RopeType::kDynamic, .factor = 2};
  return {
      {"default", {}, {8, 64, 64}, {1, 0.1, 0.01, 0.001}},
      {"linear", linear, {8, 64, 64}, {0.25, 0.025, 0.0025, 0.00025}},
      {"short llama3", short_llama3, {8, 512, 512}, {1, 0.0130422562, 0.00125, 0.000125}},
      {"llama3",
       llama3,
       {16, 131072, 131072},
       {1, 0.193922758, 0.0376060307, 0.00729266508, 0.000524846022, 3.42810235e-05, 6.64786967e-06,
        1.28917316e-06}},
      {"dynamic, within the length", dynamic, {8, 12, 7}, {1, 0.1, 0.01, 0.001}},
      {"dynamic, beyond", dynamic, {8, 12, 30}, {1, 0.0629960522, 0.00396850286, 0.00025}},
  };
}

std::vector<Case> YarnCases() {
  RopeParameters plain = {
      .type = RopeType::kYarn, .theta = 1000, .factor = 4, .original_max_positions = 32};
  RopeParameters mscales = {
      .type = RopeType::kYarn, .factor = 40, .original_max_positions = 4096, .mscale = 0.707};
  mscales.mscale_all_dim = 1.0;
  RopeParameters fractional = {
      .type = RopeType::kYarn, .theta = 150000, .factor = 32, .original_max_positions = 4096};
  fractional.truncate = false;
  const RopeParameters own = {.type = RopeType::kYarn,
                              .factor = 8,
                              .original_max_positions = 64,
                              .attention_factor = 1.25,
                              .beta_fast = 16,
                              .beta_slow = 2};
  return {
      {"yarn",
       plain,
       {16, 128, 128},
       {1, 0.263560325, 0.0444569848, 0.0187473539, 0.00790569466, 0.00333380373, 0.00140585331,
        0.000592843455},
       1.138629436111989},
      {"yarn, both mscales",
       mscales,
       {16, 163840, 163840},
       {1, 0.316227764, 0.1, 0.0239147246, 0.00512499968, 0.000849862176, 2.5e-05, 7.90569447e-06},
       0.9210423553163399},
      {"yarn, not truncated",
       fractional,
       {16, 131072, 131072},
       {1, 0.225418001, 0.0508132726, 0.00679495931, 0.000456483918, 1.8188337e-05, 4.09997847e-06,
        9.24208962e-07},
       1.3465735902799727},
      {"yarn, own betas and attention factor",
       own,
       {16, 512, 512},
       {1, 0.177878112, 0.0125, 0.00395284733, 0.00125, 0.000395284733, 0.000125, 3.95284733e-05},
       1.25},
  };
}

TEST(Rope, G1_InverseFrequenciesOfEveryType) {
  std::vector<Case> cases = Cases();
  for (const Case& yarn : YarnCases()) cases.push_back(yarn);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_OK_AND_ASSIGN(RopeFrequencies rope,
                         ComputeRopeFrequencies(c.rope, c.sizes.rotary_dim, c.sizes.max_positions,
                                                c.sizes.sequence_length));
    ASSERT_EQ(rope.inverse_frequencies.size(), c.inverse_frequencies.size());
    for (size_t i = 0; i < c.inverse_frequencies.size(); ++i) {
      const double limit = 3e-7 * c.inverse_frequencies[i];
      EXPECT_NEAR(rope.inverse_frequencies[i], c.inverse_frequencies[i], limit) << i;
    }
    EXPECT_NEAR(rope.attention_factor, c.attention_factor, 1e-12);
  }
}

TEST(Rope, NamesParseBack) {
  for (RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kDynamic,
                        RopeType::kLlama3, RopeType::kYarn}) {
    ASSERT_OK_AND_ASSIGN(RopeType parsed, ParseRopeType(Name(type)));
    EXPECT_EQ(parsed, type);
  }
  EXPECT_THAT(ParseRopeType("mrope"), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("\"mrope\" is not supported")));
}

TEST(Rope, RefusesWhatItCannotComputeWith) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Bad {
    RopeParameters rope;
    int64_t rotary_dim;
    std::string message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {{}, 7, "must be even"},
           {{}, 0, "must be even"},
           {{.theta = 0}, 8, "rope_theta 0"},
           {{.theta = nan}, 8, "rope_theta"},
           {{.type = RopeType::kLinear, .factor = -1}, 8, "rope factor -1"},
           {{.type = RopeType::kDynamic, .factor = 2}, 2, "more than 2 turning entries"},
           {{.type = RopeType::kLlama3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4},
            8,
            "original_max_position_embeddings"},
           {{.type = RopeType::kLlama3,
           .factor = 8,
           .original_max_positions = 64,
           .low_freq_factor = 4,
           .high_freq_factor = 4},
            8,
            "low_freq_factor < high_freq_factor"},
           {{.type = RopeType::kYarn,
           .factor = 8,
           .original_max_positions = 64,
           .beta_fast = 1,
           .beta_slow = 2},
            8,
            "beta_slow <= beta_fast"},
       }) {
    EXPECT_THAT(ComputeRopeFrequencies(bad.rope, bad.rotary_dim, 64, 64),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

}  // namespace
}  // namespace colossus
