// Every op passes the conformance suite.
#include "tensor/testing/op_cases.h"

#include <set>
#include <string>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/op_list.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {
namespace {

class OpCasesTest : public ::testing::TestWithParam<DType> {};

TEST_P(OpCasesTest, OpsConform) {
  for (const OpCase& c : OpCases(GetParam())) EXPECT_OK(CheckOp(c));
}

// The judge passes its own test: rounding and reading of every dtype.
TEST_P(OpCasesTest, ReferenceKernelConforms) {
  EXPECT_OK(CheckKernels(ReferenceKernels(), OpCases(GetParam())));
}

TEST_P(OpCasesTest, NamesAreUniqueAndEveryOpHasACase) {
  std::set<std::string> names, ops;
  for (const OpCase& c : OpCases(GetParam())) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    ops.insert(std::string(c.op->name()));
  }
  for (const Op* op : AllOps()) {
    // Collectives are defined over the values of several ranks: tensor/kernels/collective.
    EXPECT_TRUE(IsCollective(*op) || ops.count(std::string(op->name()))) << op->name();
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, OpCasesTest,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace colossus
