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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "collectives/mesh.h"
#include "gemini/placement.h"
#include "parallel/pipeline/action.h"
#include "parallel/sharding/override.h"
#include "shardformer/config.h"

namespace colossus {

enum class Recomputation : uint8_t {
  kNone,       // forward results are kept until backward reads them
  kCheap,      // but for pointwise ops and norms whose operands are kept anyway: they run again
  kSelective,  // what the cores of attention make is computed again, and what kCheap computes
  kBlock,      // of each layer only its input is kept; the rest is computed again
  // Chosen for each layer, so that what is kept fits Plan::recompute_budget_bytes
  // (recompute_layers.h). Of one stage.
  kOptimal,
  kAuto,  // the fastest of them that fits, as predicted (choose_recomputation.h)
};

struct Precision {
  DType compute = DType::kF32;   // parameters in products, activations
  DType gradient = DType::kF32;  // the finished gradient, rounded once
};

// How positions are split inside attention on a mesh with an axis "sequence".
enum class SequenceParallelism : uint8_t {
  kRing,      // keys and values travel from rank to rank; positions in zigzag order
  kAllToAll,  // heads are exchanged for positions before and after attention
};

enum class TensorLayout : uint8_t {
  k1d,  // a product's weight is split over one of its dims
  k2d,  // over both; the axis "tensor" is square: "tensor.row" times "tensor.column"
};
// Of the axis "tensor" in a 2-D layout: the largest whole number whose square is not above it.
int64_t SideOf2d(int64_t tensor);

// Whether the residual stream between products is split over the tensor axes too.
enum class NormLayout : uint8_t {
  kAuto,  // split where the length divides
  kSharded,  // refused where it does not
  kReplicated,
};

// The order of an update's micro-batches.
enum class AccumulationOrder : uint8_t {
  // With layer-wise updates vertical; with a placer, on one rank, the one that moves less; else
  // horizontal.
  kAuto,
  kHorizontal,  // one whole micro-batch after another
  kVertical,    // block by block, all micro-batches: what streams in for a block comes once
};

// When parameters are updated.
enum class UpdateTime : uint8_t {
  kWhole,  // after all gradients: these are measured first, and the update may be skipped
  // A block's as soon as its gradients are finished, and the ranks' are summed up, so that few
  // other blocks' need be kept. Of one stage; without clipping, loss scale and skipping: a gradient
  // that is not finite ends the run.
  kLayerwise,
};

// As plan files and flags write them (plan_names.cc): "none", "all_to_all", "2d", ... ParseName:
// false for a text that is no name.
absl::string_view Name(Recomputation value);
absl::string_view Name(SequenceParallelism value);
absl::string_view Name(TensorLayout value);
absl::string_view Name(NormLayout value);
absl::string_view Name(AccumulationOrder value);
absl::string_view Name(UpdateTime value);
bool ParseName(absl::string_view name, Recomputation* value);
bool ParseName(absl::string_view name, SequenceParallelism* value);
bool ParseName(absl::string_view name, TensorLayout* value);
bool ParseName(absl::string_view name, NormLayout* value);
bool ParseName(absl::string_view name, AccumulationOrder* value);
bool ParseName(absl::string_view name, UpdateTime* value);

// A part of the model and the ranks that run it.
struct StagePlan {
  std::vector<int> ranks = {0};
  // Axes "data", "tensor", "sequence"; sizes multiply to the number of ranks.
  std::vector<MeshAxis> mesh;
};

struct Plan {
  // Of a pipeline, in the order of the model, each going on with ranks where the one before ends.
  std::vector<StagePlan> stages = {StagePlan{}};
  int stage = 0;                     // that AxisSize and micro_batch are about; see OfStage
  std::string schedule = "1f1b";     // of several stages: a name of pipeline/schedule_list.h
  int chunks = 0;                    // parts of the model a stage holds; 0: the schedule's default
  std::vector<std::string> borders;  // first block of each part but the first; none: balanced
  int64_t micro_batch = 1;           // rows, of each rank along the axis "data" of `stage`
  int64_t micro_batches = 1;         // per update
  int64_t sequence_length = 1;       // tokens a row
  Precision precision;
  Recomputation recomputation = Recomputation::kNone;
  // kOptimal: what layers may keep of one micro-batch, all ranks that share it together; 0: the
  // budget that is predicted to be fastest (choose_recomputation.h).
  int64_t recompute_budget_bytes = 0;
  bool packed = false;   // rows hold several documents
  bool dropout = false;  // the model's rates apply

  // 1: optimizer states, 2: gradients, 3: parameters too are split over the ranks along "data" and
  // "sequence" (zero/layout.h).
  int zero = 0;
  int64_t chunk_elements = int64_t{1} << 26;  // of parameters that ranks share, at most together
  SequenceParallelism sequence = SequenceParallelism::kRing;
  TensorLayout tensor_layout = TensorLayout::k1d;
  NormLayout norms = NormLayout::kAuto;
  AccumulationOrder accumulation_order = AccumulationOrder::kAuto;
  UpdateTime update = UpdateTime::kWhole;
  // Where parameters, optimizer states and kept values lie; none: all on the device. Which placer
  // follows from it (CompileOptions::program.placer) is up to who knows the memory there is.
  std::optional<PlacementPolicy> placement;
  std::vector<ShardingOverride> overrides;

  // Of all stages.
  int ranks() const;
  bool same_meshes() const;
  int StageOfRank(int rank) const;
  // The same plan as a stage sees it, whose rows may be shared out over another number of ranks.
  // The same for all stages of the same meshes.
  Plan OfStage(int of) const;
  // Size of an axis as the plan writes it; 1 for one that is not there. "stage": the stages.
  int64_t AxisSize(absl::string_view axis) const;
  // The least that the sizes of an axis divide, over all stages.
  int64_t AxisMultiple(absl::string_view axis) const;
  // Of an update, over all ranks.
  int64_t rows() const { return micro_batch * micro_batches * AxisSize("data"); }
  // sequence_length and the padding that makes positions divide over the axes that split them, on
  // every stage.
  int64_t padded_length() const;
  // No stage splits positions, so that rows are fed as they come.
  bool whole_rows() const { return AxisMultiple("sequence") == 1 && attention_parts() == 1; }
  // Which token of a row stands at each position: chunks of a ring are dealt out in zigzag, so that
  // causal attention is equal work for all ranks. Empty: as they come.
  std::vector<int64_t> Order() const;
  // Ranks that positions inside attention are split over: those of a ring along "sequence", and of
  // a 2-D layout those along "tensor.row"; of stages that differ what all their numbers divide.
  int64_t attention_parts() const;
};

// Error: InvalidArgument naming what does not fit and what would.
absl::Status Validate(const Plan& plan, const ModelConfig& config);

// The part of Validate that is about stages: their ranks, rows, schedule and borders
// (plan_stages.cc).
absl::Status CheckStages(const Plan& plan, const ModelConfig& config);

// Stages, chunks and micro-batches. Error: no such schedule.
absl::StatusOr<PipelineShape> ShapeOf(const Plan& plan);

// The mesh of all ranks: the axis "stage" first if there are several, then those of a stage; where
// stages have different meshes, that of plan.stage alone. With the sub-axes that the model and the
// layout need: where there are fewer key/value heads than ranks to split them, an axis becomes
// ".group" (which splits them) times ".member" (which repeats them); a 2-D layout has "tensor.row"
// and "tensor.column". Axes keep their order and size, so ranks do. Error: as Validate.
absl::StatusOr<Mesh> PlanMesh(const Plan& plan, const ModelConfig& config);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLAN_H_
