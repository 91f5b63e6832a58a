// Updates of several parameters in one node: the bits of a node for each.
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/parallel_for.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/op_list.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using Bytes = std::vector<std::vector<char>>;
using Tensors = std::vector<HostTensor>;

// The results of the fast kernel, over whatever operands they may overwrite.
Bytes RunInPlace(const Op& op, const Attributes& attributes, Tensors operands) {
  Types types;
  for (const HostTensor& operand : operands) types.push_back(operand.type());
  absl::StatusOr<Types> result_types = op.Infer({types, attributes});
  EXPECT_OK(result_types);
  absl::StatusOr<PlannedKernel> kernel =
      PlanKernel(CpuKernels(), {&op, &attributes, types, *result_types, Threads()});
  EXPECT_OK(kernel);
  EXPECT_NE(kernel->name, "reference");
  Tensors results(result_types->begin(), result_types->end());
  std::vector<const void*> x;
  std::vector<void*> y;
  for (const HostTensor& operand : operands) x.push_back(operand.raw());
  for (HostTensor& result : results) y.push_back(result.raw());
  for (auto [result, operand] : op.MayAlias({types, attributes})) {
    y[result] = operands[operand].raw();
  }
  kernel->run({x, y, nullptr, nullptr});
  Bytes bytes;
  for (size_t i = 0; i < y.size(); ++i) {
    const char* from = static_cast<const char*>(y[i]);
    bytes.emplace_back(from, from + (*result_types)[i].bytes());
  }
  return bytes;
}

void Append(const Tensors& added, Tensors& tensors) {
  tensors.insert(tensors.end(), added.begin(), added.end());
}

struct Update {
  const char* op;
  Attributes attributes;
  int states;  // of a parameter: master and moments
  std::vector<double> scalars;
};

// Protects: sizes around a block's, empty and 0-d parameters, each with its own decay; every thread
// count splits the row of blocks elsewhere.
TEST(UpdateManyTest, EachParameterAsAlone) {
  const Dims shapes[] = {{1}, {0}, {1023}, {3, 1024}, {}, {1025}, {7, 13}, {40000}, {0, 3}, {5}};
  const Update updates[] = {
      {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"compute", "bf16"}}, 3,
       {1e-2, 0.7, 0.19, 0.0975}},
      {"sgd", {{"momentum", 0.9}, {"compute", "bf16"}}, 2, {1e-2, 0.7}}};
  std::mt19937_64 random(TestSeed());
  for (const Update& update : updates) {
    const Op& op = *FindOp(update.op);
    Attributes attributes = update.attributes;
    Tensors scalars;
    for (double value : update.scalars) {
      scalars.emplace_back(Type{DType::kF32, {}});
      scalars.back().Set(0, value);
    }
    for (DType grad : {DType::kF32, DType::kBF16, DType::kF16}) {
      Tensors all;
      Bytes expected;
      Floats decay;
      SetThreads(1);
      for (const Dims& dims : shapes) {
        Tensors one;
        for (int i = 0; i < 1 + update.states; ++i) {
          one.push_back(RandomTensor(i == 1 ? grad : DType::kF32, dims, random));
        }
        HostTensor& last = one.back();  // adamw's mean square
        for (int64_t i = 0; i < last.type().elements(); ++i) last.Set(i, std::abs(last.Get(i)));
        Append(one, all);
        Append(scalars, one);
        decay.push_back(0.1 * static_cast<double>(decay.size() % 3));
        attributes.Set("weight_decay", Floats{decay.back()});
        for (std::vector<char>& bytes : RunInPlace(op, attributes, one)) {
          expected.push_back(std::move(bytes));
        }
      }
      Append(scalars, all);
      attributes.Set("weight_decay", decay);
      for (int threads : {1, 2, 3, 8}) {
        SetThreads(threads);
        EXPECT_TRUE(RunInPlace(op, attributes, all) == expected) << update.op << " " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace colossus
