// PlanMesh: which axes a stage's mesh has once the model's heads and the layout are known.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "parallel/mesh_text.h"
#include "parallel/plan.h"

namespace colossus {
namespace {

absl::Status Refuse(std::string why) {
  return absl::InvalidArgumentError(absl::StrCat("plan: ", why));
}

absl::Status CheckAxes(const StagePlan& stage) {
  ASSIGN_OR_RETURN(Mesh mesh, Mesh::Make(stage.mesh));
  for (const MeshAxis& axis : stage.mesh) {
    if (axis.name != "data" && axis.name != "tensor" && axis.name != "sequence") {
      return Refuse(absl::StrCat("mesh axis '", axis.name, "'; there are data, tensor, sequence"));
    }
  }
  if (mesh.ranks() != static_cast<int>(stage.ranks.size())) {
    return Refuse(absl::StrCat("mesh ", stage.mesh.empty() ? "without axes" : MeshText(stage.mesh),
                               " has ", mesh.ranks(), mesh.ranks() == 1 ? " rank" : " ranks",
                               ", but there are ", stage.ranks.size()));
  }
  return absl::OkStatus();
}

// A positive size is split over an axis of `size`: how many parts of the axis split it, if the
// other parts can repeat it.
struct HeadSplit {
  bool fits = true;
  int64_t group = 1;  // ranks along the axis that hold different heads
  int64_t left = 1;   // heads that each of them holds
};

HeadSplit SplitHeads(int64_t heads, int64_t size) {
  if (heads % size == 0) return {true, size, heads / size};
  if (size % heads == 0) return {true, heads, 1};
  return {false, 1, 1};
}

// Heads of attention are split over `tensor` and, if they are exchanged for positions, over
// `sequence`.
struct AttentionSplit {
  HeadSplit tensor, sequence;
  bool fits = false;
};

AttentionSplit SplitAttention(const ModelConfig& config, int64_t tensor, int64_t sequence) {
  AttentionSplit split;
  split.tensor = SplitHeads(config.kv_heads, tensor);
  split.sequence = SplitHeads(split.tensor.left, sequence);
  split.fits = config.heads % (tensor * sequence) == 0 && split.tensor.fits && split.sequence.fits;
  return split;
}

// Sizes of one axis that would do, the other as it is.
std::string FittingSizes(const ModelConfig& config, int64_t sequence, int64_t tensor,
                         bool of_tensor) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= config.heads; ++size) {
    if (SplitAttention(config, of_tensor ? size : tensor, of_tensor ? sequence : size).fits) {
      sizes.push_back(size);
    }
  }
  return absl::StrJoin(sizes, ", ");
}

// `tensor`: ranks that heads are split over; in a 2-D layout the root of the axis's size.
absl::Status RefuseHeads(const ModelConfig& config, int64_t tensor, int64_t exchanged,
                         bool panels) {
  const std::string heads =
      absl::StrCat(config.heads, " query heads and ", config.kv_heads, " key/value heads");
  if (!SplitAttention(config, tensor, 1).fits) {
    return Refuse(absl::StrCat(
        heads, " cannot be split over ", panels ? "a side of a 2-D layout of " : "tensor=", tensor,
        panels ? "; these sizes of a side would do: " : "; these tensor sizes would do: ",
        FittingSizes(config, 1, tensor, true)));
  }
  return Refuse(
      absl::StrCat(heads, " cannot be split over tensor=", tensor, " and sequence=", exchanged,
                   " by --sequence=all_to_all; these sequence sizes would do: ",
                   FittingSizes(config, exchanged, tensor, false), "; --sequence=ring takes any"));
}

void AddSplit(const std::string& name, int64_t size, int64_t group, std::vector<MeshAxis>& axes) {
  if (group == size || group == 1) {
    axes.push_back({name, size});
    return;
  }
  axes.push_back({name + ".group", group});
  axes.push_back({name + ".member", size / group});
}

}  // namespace

absl::StatusOr<Mesh> PlanMesh(const Plan& plan, const ModelConfig& config) {
  const bool same = plan.same_meshes();
  const StagePlan& stage = plan.stages[same ? 0 : static_cast<size_t>(plan.stage)];
  RETURN_IF_ERROR(CheckAxes(stage));
  const int64_t tensor = plan.AxisSize("tensor"), sequence = plan.AxisSize("sequence");
  const int64_t exchanged = plan.sequence == SequenceParallelism::kAllToAll ? sequence : 1;
  const bool panels = plan.tensor_layout == TensorLayout::k2d;
  const int64_t columns = panels ? SideOf2d(tensor) : tensor;
  if (panels && columns * columns != tensor) {
    return Refuse(absl::StrCat(
        "tensor_layout=2d needs a square number of ranks, not tensor=", tensor,
        "; tensor=", columns * columns, " or tensor=", (columns + 1) * (columns + 1), " would do"));
  }
  const AttentionSplit split = SplitAttention(config, columns, exchanged);
  if (!split.fits) return RefuseHeads(config, columns, exchanged, panels);
  std::vector<MeshAxis> axes;
  if (same && plan.stages.size() > 1) axes.push_back({"stage", plan.AxisSize("stage")});
  for (const MeshAxis& axis : stage.mesh) {
    if (axis.name == "tensor" && panels && tensor > 1) {
      axes.push_back({"tensor.row", columns});
      AddSplit("tensor.column", columns, split.tensor.group, axes);
    } else if (axis.name == "tensor") {
      AddSplit(axis.name, axis.size, split.tensor.group, axes);
    } else if (axis.name == "sequence") {
      AddSplit(axis.name, axis.size, exchanged == 1 ? axis.size : split.sequence.group, axes);
    } else {
      axes.push_back(axis);
    }
  }
  return Mesh::Make(std::move(axes));
}

}  // namespace colossus
