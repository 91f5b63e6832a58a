#include "tensor/kernels/cpu/kernel_case.h"

#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/parallel_for.h"
#include "base/testing/seed.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/op_list.h"

namespace colossus {
namespace {

std::vector<HostTensor> MakeOperands(const KernelCase& c) {
  static const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, c.scale);
  std::vector<HostTensor> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    HostTensor x(c.operands[i]);
    auto given = c.values.find(static_cast<int>(i));
    auto bound = c.bounds.find(static_cast<int>(i));
    const int64_t limit = bound == c.bounds.end() ? 2 : bound->second;
    for (int64_t e = 0; e < x.type().elements(); ++e) {
      if (given != c.values.end()) x.Set(e, given->second[e % given->second.size()]);
      else if (IsFloat(x.type().dtype)) x.Set(e, normal(random));
      else x.Set(e, static_cast<double>(random() % limit));
    }
    operands.push_back(std::move(x));
  }
  if (c.prepare) c.prepare(operands);
  return operands;
}

std::vector<HostTensor> Run(const PlannedKernel& kernel, const std::vector<HostTensor>& operands,
                            const Types& results) {
  std::vector<HostTensor> values(results.begin(), results.end());
  std::vector<const void*> x;
  std::vector<void*> y;
  for (const HostTensor& operand : operands) x.push_back(operand.raw());
  for (HostTensor& value : values) {
    // What was there before must not matter.
    std::memset(value.raw(), 0xa5, static_cast<size_t>(value.type().bytes()));
    y.push_back(value.raw());
  }
  constexpr int64_t kGuard = 64;
  HostTensor workspace(Type{DType::kU8, {kernel.workspace_bytes + kGuard}});
  std::memset(workspace.raw(), 0xff, static_cast<size_t>(kernel.workspace_bytes + kGuard));
  kernel.run({x, y, workspace.raw()});
  for (int64_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(workspace.data<uint8_t>()[kernel.workspace_bytes + i], 0xff) << "workspace overrun";
  }
  return values;
}

double Epsilon(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return 0x1p-8;
    case DType::kF16: return 0x1p-10;
    default: return 0;
  }
}

// Equal infinities and NaNs on both sides are agreement; the comparator sees the rest.
void CompareResult(const KernelCase& c, const HostTensor& actual, const HostTensor& expected,
                   size_t index) {
  std::vector<double> a = actual.ToDoubles(), e = expected.ToDoubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(e[i]) && (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])))) {
      a[i] = e[i] = 0;
    }
  }
  if (!IsFloat(actual.type().dtype)) {
    EXPECT_TRUE(TensorNear(a, e, {})) << "result " << index;
    return;
  }
  double limit = Epsilon(actual.type().dtype) + c.roundings * 0x1p-24;
  EXPECT_TRUE(TensorNear(a, e, {.absolute = 1e-30, .relative_to_max = limit}))
      << "result " << index;
}

}  // namespace

void Check(const KernelCase& c) {
  std::string text = absl::StrCat(c.op, " ", c.attributes.ToString());
  for (const Type& type : c.operands) absl::StrAppend(&text, " ", ToString(type));
  SCOPED_TRACE(text);
  const Op* op = FindOp(c.op);
  ASSERT_NE(op, nullptr) << "no such op";
  absl::StatusOr<Types> results = op->Infer({c.operands, c.attributes});
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  std::vector<HostTensor> operands = MakeOperands(c), first;
  for (int threads : {1, 2, 3}) {
    SetThreads(threads);
    KernelRequest request{op, &c.attributes, c.operands, *results, threads};
    absl::StatusOr<PlannedKernel> kernel = PlanKernel(CpuKernels(), request);
    ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
    EXPECT_EQ(kernel->name == "reference", c.declines) << kernel->name;
    std::vector<HostTensor> actual = Run(*kernel, operands, *results);
    if (threads == 1) {
      PlannedKernel reference = *ReferenceKernel().Plan(request);
      std::vector<HostTensor> expected = Run(reference, operands, *results);
      for (size_t i = 0; i < actual.size(); ++i) CompareResult(c, actual[i], expected[i], i);
      first = std::move(actual);
      continue;
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i] == first[i])
          << "result " << i << " has other bits with " << threads << " threads";
    }
  }
  SetThreads(1);
}

}  // namespace colossus
