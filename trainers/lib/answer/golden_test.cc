#include "trainers/lib/answer/golden.h"

#include <string>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCase = "tests/golden/llama_tied";

// Protects: each number is read from its own place.
TEST(GoldenTest, Reads) {
  ASSERT_OK_AND_ASSIGN(Golden golden, Golden::Open(RealFileSystem(),
                                                   JoinPath(kCase, "golden.safetensors")));
  EXPECT_EQ(golden.learning_rate, 1e-3);
  EXPECT_EQ(golden.beta1, 0.9);
  EXPECT_EQ(golden.beta2, 0.95);
  EXPECT_EQ(golden.epsilon, 1e-8);
  EXPECT_EQ(golden.weight_decay, 0.1);
  const GoldenLimits& limits = golden.limits();
  for (double limit : {limits.output, limits.gradient_l2, limits.gradient_each,
                       limits.gradient_floor, limits.loss, limits.final_abs}) {
    EXPECT_GT(limit, 0);
    EXPECT_LT(limit, 1e-2);
  }
  EXPECT_GE(limits.final_share_over, 0);
  EXPECT_TRUE(golden.Has("logits"));
  EXPECT_FALSE(golden.Has("logit"));
  ASSERT_OK_AND_ASSIGN(HostTensor logits, golden.Read("logits", DType::kF64));
  EXPECT_EQ(logits.type(), (Type{DType::kF64, {4, 9, 83}}));
  EXPECT_THAT(golden.Read("logit", DType::kF32),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensor 'logit'")));
}

// Protects: a limit that is missing or no number is refused: compared with 0 or with a NaN, a wrong
// value would read as a bug of the model.
TEST(GoldenTest, ReadsJsonStrictly) {
  FileSystem& files = RealFileSystem();
  ASSERT_OK_AND_ASSIGN(std::string good, files.ReadFile(JoinPath(kCase, "golden.json")));
  ASSERT_OK_AND_ASSIGN(std::string tensors,
                       files.ReadFile(JoinPath(kCase, "golden.safetensors")));
  const std::string folder = JoinPath(::testing::TempDir(), "golden_test");
  ASSERT_OK(files.MakeDirs(folder));
  const std::string path = JoinPath(folder, "golden.safetensors");
  ASSERT_OK(files.WriteFileAtomically(path, tensors));
  const struct {
    const char *from, *to, *message;
  } rows[] = {
      {"\"loss_abs\":", "\"loss_abs\": \"1\", \"x\":", "'suggested_fp32.loss_abs' is not a number"},
      {"\"weight_decay\"", "\"weight\"", "'adamw.weight_decay' is missing"},
      {"\"betas\"", "\"beta\"", "'adamw.betas' is missing"},
      {"\"suggested_fp32\"", "\"suggested\"", "is missing"},
  };
  for (const auto& row : rows) {
    std::string bad = good;
    const size_t at = bad.rfind(row.from);
    ASSERT_NE(at, std::string::npos) << row.from;
    bad.replace(at, std::string(row.from).size(), row.to);
    ASSERT_OK(files.WriteFileAtomically(JoinPath(folder, "golden.json"), bad));
    EXPECT_THAT(Golden::Open(files, path).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
  // Names of tensors that are only noise, or frozen, are optional.
  std::string named = good;
  const std::string empty = "\"gradient_zero_in_exact_arithmetic\": []";
  const size_t at = named.find(empty);
  ASSERT_NE(at, std::string::npos);
  named.replace(at, empty.size(), "\"gradient_zero_in_exact_arithmetic\": [\"k.bias\"]");
  ASSERT_OK(files.WriteFileAtomically(JoinPath(folder, "golden.json"), named));
  ASSERT_OK_AND_ASSIGN(Golden golden, Golden::Open(files, path));
  EXPECT_THAT(golden.noise, ::testing::ElementsAre("k.bias"));
  EXPECT_THAT(golden.frozen, ::testing::IsEmpty());
  ASSERT_OK(files.Remove(JoinPath(folder, "golden.json")));
  EXPECT_THAT(Golden::Open(files, path).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("golden.json")));
}

}  // namespace
}  // namespace colossus
