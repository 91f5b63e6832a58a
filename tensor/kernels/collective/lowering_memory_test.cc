// What rings and panels need in memory: planned as a program, not more with more ranks.
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/testing/sharded_op.h"

namespace colossus {
namespace {

// Bytes of the arena of one rank's program of the split op.
absl::StatusOr<int64_t> PlannedBytes(const ShardedOp& split, const Mesh& mesh, bool overlap) {
  ASSIGN_OR_RETURN(std::vector<Graph> graphs, LowerSharded(split, mesh));
  const CollectiveKernels kernels(mesh, ReferenceKernels());
  KernelCache cache(kernels.list(), 1);
  const Segment segment{"split", std::make_shared<const Graph>(graphs.back())};
  ASSIGN_OR_RETURN(Executable executable, Compile(segment, cache, DeviceRates{}));
  StepBuilder builder({"run"});
  StepSegment of_step;
  of_step.segment = segment;
  for (const Output& output : segment.graph->outputs()) of_step.fetched.push_back(output.name);
  builder.AddCall(builder.AddSegment(of_step), -1, 0);
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory(step, {executable}, overlap));
  return plan.device_bytes;
}

HostTensor Zeros(Dims dims) { return HostTensor(Type{DType::kF32, std::move(dims)}); }

// Blocks of 64 keys on each rank, forward or backward.
ShardedOp Ring(int64_t ranks, bool backward) {
  const Dims q{1, 64 * ranks, 2, 8}, lse{1, 2, 64 * ranks};
  std::vector<HostTensor> operands = {Zeros(q), Zeros(q), Zeros(q)};
  if (backward) operands = {Zeros(q), Zeros(q), Zeros(q), Zeros(q), Zeros(q), Zeros(lse)};
  return {.op = backward ? &AttentionGradOp() : &AttentionOp(),
          .attributes = {{"scale", 1.0}, {"causal", true}},
          .operands = std::move(operands),
          .axes = {{"s", {"sequence"}}, {"t", {"sequence"}}}};
}

TEST(LoweringMemoryTest, RingsDoNotGrowWithRanks) {
  for (bool overlap : {false, true}) {
    for (bool backward : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "overlap " << overlap << " backward " << backward);
      std::vector<int64_t> bytes;
      for (int64_t ranks : {4, 8}) {
        const Mesh mesh = *Mesh::Make({{"sequence", ranks}});
        ASSERT_OK_AND_ASSIGN(int64_t planned, PlannedBytes(Ring(ranks, backward), mesh, overlap));
        bytes.push_back(planned);
      }
      EXPECT_EQ(bytes[1], bytes[0]);
      // Forward: q, two blocks of k and v, a result and its sum, and what merges them: 8 blocks.
      if (backward) continue;
      const int64_t block = 64 * 2 * 8 * 4, rows = 64 * 2 * 4;
      EXPECT_LE(bytes[0], 8 * block + 8 * rows);
    }
  }
}

// Parts of x and w of 12 x 12 on each rank.
ShardedOp Product(int64_t q, const std::string& spec) {
  const AxisNames row{"row"}, column{"column"};
  const Sharding lies{{row, column}, {}};
  return {.op = &MatmulOp(),
          .attributes = {{"spec", spec}},
          .operands = {Zeros({12 * q, 12 * q}), Zeros({12 * q, 12 * q})},
          .x_shardings = {lies, lies},
          .wanted = {lies}};
}

TEST(LoweringMemoryTest, PanelsDoNotGrowWithRanks) {
  for (bool overlap : {false, true}) {
    for (const char* spec : {"m k, k n -> m n", "m n, k n -> m k", "m k, m n -> k n"}) {
      SCOPED_TRACE(::testing::Message() << spec << " overlap " << overlap);
      std::vector<int64_t> bytes;
      for (int64_t q : {3, 4, 6}) {
        const Mesh mesh = *Mesh::Make({{"row", q}, {"column", q}});
        ASSERT_OK_AND_ASSIGN(int64_t planned, PlannedBytes(Product(q, spec), mesh, overlap));
        bytes.push_back(planned);
      }
      // Slices are thinner and more, each aligned to 64 bytes.
      const int64_t part = 12 * 12 * 4;
      EXPECT_LE(bytes[1], bytes[0] + part);
      EXPECT_LE(bytes[2], bytes[0] + 2 * part);
      // x, w, two panels of each, the result and a panel's share of it, with slices: 10 parts.
      EXPECT_LE(bytes[0], 10 * part);
    }
  }
}

}  // namespace
}  // namespace colossus
