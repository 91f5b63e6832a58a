#include "parallel/plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/mesh_text.h"

namespace colossus {

int64_t SideOf2d(int64_t tensor) {
  int64_t side = 1;
  while ((side + 1) * (side + 1) <= tensor) ++side;
  return side;
}

int Plan::ranks() const {
  size_t ranks = 0;
  for (const StagePlan& stage : stages) ranks += stage.ranks.size();
  return static_cast<int>(ranks);
}

namespace {

// Size of the axis "tensor.row", which splits positions too.
int64_t RowsOf2d(const Plan& plan, const StagePlan& stage) {
  const bool panels = plan.tensor_layout == TensorLayout::k2d;
  return panels ? SideOf2d(SizeOfAxis(stage.mesh, "tensor")) : 1;
}

}  // namespace

bool Plan::same_meshes() const {
  return std::all_of(stages.begin(), stages.end(), [&](const StagePlan& stage) {
    return stage.mesh == stages[0].mesh;
  });
}

int Plan::StageOfRank(int rank) const {
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::vector<int>& ranks = stages[s].ranks;
    if (std::count(ranks.begin(), ranks.end(), rank) > 0) return static_cast<int>(s);
  }
  return 0;
}

Plan Plan::OfStage(int of) const {
  Plan own = *this;
  own.stage = same_meshes() ? 0 : of;
  own.micro_batch = micro_batch * AxisSize("data") / own.AxisSize("data");
  return own;
}

int64_t Plan::AxisSize(absl::string_view axis) const {
  if (axis == "stage") return static_cast<int64_t>(stages.size());
  return SizeOfAxis(stages[static_cast<size_t>(stage)].mesh, axis);
}

int64_t Plan::AxisMultiple(absl::string_view axis) const {
  int64_t multiple = 1;
  for (const StagePlan& stage : stages) multiple = std::lcm(multiple, SizeOfAxis(stage.mesh, axis));
  return multiple;
}

int64_t Plan::attention_parts() const {
  int64_t parts = 1;
  for (const StagePlan& own : stages) {
    const bool rings = sequence == SequenceParallelism::kRing;
    const int64_t ring = rings ? SizeOfAxis(own.mesh, "sequence") : 1;
    parts = std::lcm(parts, RowsOf2d(*this, own) * ring);
  }
  return parts;
}

int64_t Plan::padded_length() const {
  const int64_t parts = attention_parts();
  int64_t multiple = parts == 1 ? 1 : 2 * parts;
  for (const StagePlan& own : stages) {
    multiple = std::lcm(multiple, SizeOfAxis(own.mesh, "sequence") * RowsOf2d(*this, own));
  }
  return (sequence_length + multiple - 1) / multiple * multiple;
}

std::vector<int64_t> Plan::Order() const {
  const int64_t parts = attention_parts();
  if (parts == 1) return {};
  const int64_t length = padded_length(), half = length / (2 * parts);
  std::vector<int64_t> order;
  for (int64_t rank = 0; rank < parts; ++rank) {
    for (int64_t first : {rank * half, length - (rank + 1) * half}) {
      for (int64_t i = 0; i < half; ++i) order.push_back(first + i);
    }
  }
  return order;
}

namespace {

// Far beyond what is of use, and small enough that planning itself has room: the ids of a
// micro-batch and the order of all segments of an update are in host memory.
constexpr int64_t kMostTokens = int64_t{1} << 28;
constexpr int64_t kMostMicroBatches = int64_t{1} << 16;
constexpr int64_t kMostChunkElements = int64_t{1} << 30;

// Where they do not divide, "auto" leaves positions whole; "sharded" promises to split them.
absl::Status CheckNorms(const Plan& plan) {
  const int64_t parts = plan.AxisSize("tensor") * plan.AxisSize("sequence");
  if (plan.norms != NormLayout::kSharded || parts < 1) return absl::OkStatus();  // no mesh at all
  if (plan.padded_length() % parts == 0) return absl::OkStatus();
  Plan shortest = plan;
  shortest.sequence_length = 1;
  const int64_t unit = std::lcm(shortest.padded_length(), parts);
  const int64_t below = plan.sequence_length / unit * unit;
  return absl::InvalidArgumentError(absl::StrCat(
      "plan: norms=sharded splits the positions of a row into ", parts,
      " parts, tensor=", plan.AxisSize("tensor"), " times sequence=", plan.AxisSize("sequence"),
      ", which do not divide sequence_length ", plan.sequence_length, "; use a sequence_length of ",
      below > 0 ? absl::StrCat(below, " or ") : "", below + unit, ", or norms=auto"));
}

absl::Status CheckRecomputation(const Plan& plan) {
  const bool optimal = plan.recomputation == Recomputation::kOptimal;
  if (plan.recompute_budget_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("plan: recompute_budget ",
                                                   plan.recompute_budget_bytes, " is negative"));
  }
  if (plan.recompute_budget_bytes > 0 && !optimal) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: recompute_budget goes with recompute=optimal only, not with ",
                     Name(plan.recomputation)));
  }
  if (optimal && plan.stages.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: recompute=optimal plans the layers of one stage, there are ",
                     plan.stages.size(), "; use recompute=block, selective or auto"));
  }
  return absl::OkStatus();
}

absl::Status CheckUpdate(const Plan& plan) {
  if (plan.update == UpdateTime::kWhole) return absl::OkStatus();
  if (plan.stages.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan: update=layerwise is of one stage, there are ", plan.stages.size(),
        ": in a pipeline every stage has a backward of its own running until the update ends, and "
        "gradients of parameters that stages share are exchanged behind it; use update=whole, with "
        "zero=2 or 3 on the axis data to keep a part of the gradients, or data and tensor in place "
        "of stage"));
  }
  if (plan.precision.compute == DType::kF16) {
    return absl::InvalidArgumentError(
        "plan: update=layerwise cannot skip an update, as the loss scale of fp16 needs; use bf16 "
        "or fp32, or update=whole");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Plan& plan, const ModelConfig& config) {
  auto refuse = [](std::string why) { return absl::InvalidArgumentError(std::move(why)); };
  if (plan.stages.empty()) return refuse("plan: there is no stage");
  if (plan.zero < 0 || plan.zero > 3) {
    return refuse(absl::StrCat("plan: zero ", plan.zero, " is not in 0 to 3"));
  }
  if (plan.micro_batch < 1 || plan.micro_batches < 1 || plan.sequence_length < 1) {
    return refuse("plan: micro_batch, micro_batches and sequence_length must be at least 1");
  }
  if (plan.micro_batch > kMostTokens / plan.sequence_length) {
    return refuse(absl::StrCat("plan: a micro-batch of ", plan.micro_batch, " rows of ",
                               plan.sequence_length, " tokens has more than ", kMostTokens,
                               " tokens; use a smaller micro_batch"));
  }
  if (plan.micro_batches > kMostMicroBatches) {
    return refuse(absl::StrCat("plan: an update of ", plan.micro_batches,
                               " micro-batches has more than ", kMostMicroBatches,
                               "; use a smaller global_batch or a larger micro_batch"));
  }
  if (plan.chunk_elements < 1 || plan.chunk_elements > kMostChunkElements) {
    return refuse(absl::StrCat("plan: chunk_elements ", plan.chunk_elements, " is not in 1 to ",
                               kMostChunkElements));
  }
  if (!config.rope.has_value() && plan.sequence_length > config.max_positions) {
    return refuse(absl::StrCat("plan: sequence_length ", plan.sequence_length,
                               " is beyond the model's ", config.max_positions, " positions"));
  }
  RETURN_IF_ERROR(CheckRecomputation(plan));
  RETURN_IF_ERROR(CheckUpdate(plan));
  if (!IsFloat(plan.precision.compute) || !IsFloat(plan.precision.gradient)) {
    return refuse(absl::StrCat("plan: precision must be float types, not ",
                               Name(plan.precision.compute), " with gradients in ",
                               Name(plan.precision.gradient)));
  }
  const bool f64 = plan.precision.compute == DType::kF64;
  if (f64 != (plan.precision.gradient == DType::kF64)) {
    return refuse(absl::StrCat("plan: computing in ", Name(plan.precision.compute),
                               " with gradients in ", Name(plan.precision.gradient),
                               "; f64 goes with f64 only"));
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Plan own = plan.OfStage(static_cast<int>(s));
    const absl::Status fits = PlanMesh(own, config).status();
    // Of the same meshes the first says it for all.
    if (plan.same_meshes()) RETURN_IF_ERROR(fits);
    RETURN_IF_ERROR(Annotate(fits, absl::StrCat("stage ", s)));
    RETURN_IF_ERROR(CheckNorms(own));
  }
  return CheckStages(plan, config);
}

}  // namespace colossus
