// The null device plans what the host device plans, byte for byte.
#include <cstdint>
#include <memory>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "shardformer/config.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

void ExpectSameRanges(const std::vector<BufferRange>& a, const std::vector<BufferRange>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].offset, b[i].offset);
    ASSERT_EQ(a[i].bytes, b[i].bytes);
  }
}

TEST(NullPlanTest, Gpt124mEqualsTheHostDevice) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config, PresetConfig("gpt2-124m"));
  for (DType compute : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(Name(compute));
    Plan plan;
    plan.micro_batch = 2;
    plan.micro_batches = 2;
    plan.sequence_length = 1024;
    plan.precision = {compute, compute};
    std::unique_ptr<Device> null = NewNullDevice({.threads = 2, .kernels = CpuKernels()});
    std::unique_ptr<Device> host = NewHostDevice({.threads = 2, .kernels = CpuKernels()});
    ASSERT_OK_AND_ASSIGN(CompiledTraining on_null, CompileTraining(config, plan, {}, *null));
    ASSERT_OK_AND_ASSIGN(CompiledTraining on_host, CompileTraining(config, plan, {}, *host));
    const MemoryPlan &a = on_null.program->plan(), &b = on_host.program->plan();
    EXPECT_EQ(a.device_bytes, b.device_bytes);
    EXPECT_EQ(a.host_bytes, b.host_bytes);
    EXPECT_EQ(a.state_bytes, b.state_bytes);
    ASSERT_EQ(a.instructions.size(), b.instructions.size());
    for (size_t i = 0; i < a.instructions.size(); ++i) {
      ExpectSameRanges(a.instructions[i].operands, b.instructions[i].operands);
      ExpectSameRanges(a.instructions[i].results, b.instructions[i].results);
    }
  }
}

}  // namespace
}  // namespace colossus
