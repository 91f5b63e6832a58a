// One op, split over a mesh, on the ranks' threads: what its factor rule and its lowering promise.
//
// Purpose: the tests of Op::Expand and of origins: the parts of the operands go in, the results of
// all ranks come out together, and beside them what the whole op gives.
// Thread-safety: reentrant. Ownership: values; the op is a singleton.
//
//   ShardedOp split{.op = &EmbeddingOp(), .operands = {table, ids}, .axes = {{"v", {"tensor"}}}};
//   ASSERT_OK_AND_ASSIGN(ShardedRun run, RunSharded(split, mesh));
//   EXPECT_TRUE(TensorNear(run.results[0].ToDoubles(), RunWhole(split)[0].ToDoubles(), limit));
#ifndef COLOSSUS_TENSOR_TESTING_SHARDED_OP_H_
#define COLOSSUS_TENSOR_TESTING_SHARDED_OP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/op.h"
#include "tensor/testing/run_on_ranks.h"

namespace colossus {

struct ShardedOp {
  const Op* op = nullptr;
  Attributes attributes = {};
  std::vector<HostTensor> operands;
  std::map<std::string, AxisNames> axes = {};  // of the factors that are split
  // How operands lie and results are wanted, where factors do not tell (panel products).
  std::vector<Sharding> x_shardings = {}, wanted = {};
};

struct ShardedRun {
  std::vector<Graph> graphs;  // by rank
  std::vector<RankRun> runs;  // by rank; results are outputs "y0", "y1", ...
  std::vector<Sharding> shardings;
  std::vector<HostTensor> results;  // put together
};

// Every rank's graph, operands as feeds "x0", "x1", ...: what RunSharded runs.
absl::StatusOr<std::vector<Graph>> LowerSharded(const ShardedOp& split, const Mesh& mesh);

// Lowers by Op::Expand if a factor of kind kExpand is split or x_shardings are given, else by
// Localize, and runs. Error: of the lowering or the run; ranks differ where they must not.
absl::StatusOr<ShardedRun> RunSharded(const ShardedOp& split, const Mesh& mesh,
                                      KernelList kernels = ReferenceKernels());

// The reference's results of the op that is not split.
std::vector<HostTensor> RunWhole(const ShardedOp& split);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_SHARDED_OP_H_
