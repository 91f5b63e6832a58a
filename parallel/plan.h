// Plan: how a model is run. A person writes it, or a planner finds it; there is no other switch.
//
// Purpose: stages with their ranks and meshes, micro-batches, precision, recomputation. Every
// technique is a field here and a rewrite in compile.cc.
// Thread-safety: a plain value.
//
//   Plan plan;
//   plan.micro_batch = 4;
//   plan.micro_batches = 2;            // 8 rows an update
//   plan.sequence_length = 1024;
//   RETURN_IF_ERROR(Validate(plan, config));
#ifndef COLOSSUS_PARALLEL_PLAN_H_
#define COLOSSUS_PARALLEL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "collectives/mesh.h"
#include "shardformer/config.h"

namespace colossus {

enum class Recomputation : uint8_t {
  kNone,   // forward results are kept until backward reads them
  kCheap,  // but for pointwise ops and norms whose operands are kept anyway: they run again
  kBlock,  // of each layer only its input is kept; the rest is computed again
};
absl::string_view Name(Recomputation recomputation);

struct Precision {
  DType compute = DType::kF32;   // parameters in products, activations
  DType gradient = DType::kF32;  // the finished gradient, rounded once
};

// A part of the model and the ranks that run it.
struct StagePlan {
  std::vector<int> ranks = {0};
  std::vector<MeshAxis> mesh;  // sizes multiply to the number of ranks
};

struct Plan {
  std::vector<StagePlan> stages = {StagePlan{}};
  int64_t micro_batch = 1;      // rows
  int64_t micro_batches = 1;    // per update
  int64_t sequence_length = 1;  // tokens a row
  Precision precision;
  Recomputation recomputation = Recomputation::kNone;
  bool packed = false;          // rows hold several documents
  bool dropout = false;         // the model's rates apply

  int64_t rows() const { return micro_batch * micro_batches; }
};

// Error: InvalidArgument naming what does not fit and what would.
absl::Status Validate(const Plan& plan, const ModelConfig& config);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLAN_H_
