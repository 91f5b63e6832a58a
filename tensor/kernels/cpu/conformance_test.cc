// Every CPU kernel passes the conformance suite on the cases of all ops.
#include <string>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/testing/op_cases.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {
namespace {

class CpuConformanceTest : public ::testing::TestWithParam<DType> {};

TEST_P(CpuConformanceTest, EveryKernelOnEveryCase) {
  for (int threads : {1, 3}) EXPECT_OK(CheckKernels(CpuKernels(), OpCases(GetParam()), threads));
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuConformanceTest,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace colossus
