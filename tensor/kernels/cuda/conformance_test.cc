// The CUDA kernels, run on the host unit by unit, pass the conformance suite on the cases of all
// ops; what the list lacks is refused by name.
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cuda/cuda_list.h"
#include "tensor/ops/op_list.h"
#include "tensor/testing/op_cases.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaConformanceTest : public ::testing::TestWithParam<DType> {};

TEST_P(CudaConformanceTest, EveryKernelOnEveryCase) {
  EXPECT_OK(CheckKernels(CudaKernels(), OpCases(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaConformanceTest,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Protects: a bias of -infinity hides its key, and a query with nothing else has no gradient.
TEST(CudaKernelsTest, BiasHidesKeys) {
  std::vector<OpCase> cases;
  for (OpCase& c : OpCases(DType::kF32)) {
    if (c.name != "attention/bias" && c.name != "attention_grad/bias") continue;
    // The suite compares finite numbers: an lse of -infinity is an operand only.
    const bool gradient = c.name == "attention_grad/bias";
    c.prepare = [gradient, prepare = c.prepare](std::vector<HostTensor>& x) {
      HostTensor& bias = x.back();  // [4, 5, 5]
      const double hidden = -std::numeric_limits<double>::infinity();
      bias.Set(3, hidden);
      for (int64_t j = 0; gradient && j < 5; ++j) bias.Set(2 * 5 + j, hidden);
      if (prepare) prepare(x);
    };
    cases.push_back(std::move(c));
  }
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_OK(CheckKernels(CudaKernels(), cases));
}

// Ops without a CUDA kernel, for any dtype.
const std::set<std::string>& Missing() {
  static const auto* const missing = new std::set<std::string>{
      "attention_merge",    "chain",    "combine",       "combine_grad",   "cross_entropy_merge",
      "cross_entropy_part", "dispatch", "dispatch_grad", "grouped_matmul", "grouped_matmul_grad_w"};
  return *missing;
}

// Moments in bf16 are rounded by CPU kernels only.
bool NarrowMoments(const OpCase& c) { return absl::EndsWith(c.name, "/narrow_moments"); }

// Protects: a case is not passed over because its kernel declines.
TEST(CudaKernelsTest, AcceptEveryCaseOfSmallFloats) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const OpCase& c : OpCases(dtype)) {
      absl::StatusOr<Types> results = c.op->Infer({c.operands, c.attributes});
      ASSERT_OK(results.status()) << c.name;
      absl::StatusOr<PlannedKernel> planned =
          PlanKernel(CudaKernels(), {c.op, &c.attributes, c.operands, *results, 1});
      const bool missing = Missing().count(std::string(c.op->name())) > 0;
      if (!missing && !NarrowMoments(c)) {
        EXPECT_OK(planned.status()) << c.name;
        continue;
      }
      EXPECT_THAT(planned.status(),
                  StatusIs(absl::StatusCode::kUnimplemented,
                           AllOf(HasSubstr("no kernel computes " + std::string(c.op->name())),
                                 HasSubstr(missing ? "no CUDA kernel" : "moments in bf16"),
                                 HasSubstr("--device=host"))))
          << c.name;
    }
  }
}

}  // namespace
}  // namespace colossus
