// Stages of a plan: their ranks, schedule and borders.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/plan.h"
#include "shardformer/model.h"

namespace colossus {
namespace {

absl::Status Refuse(std::string why) {
  return absl::InvalidArgumentError(absl::StrCat("plan: ", why));
}

absl::Status CheckRanks(const Plan& plan) {
  int next = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (int rank : plan.stages[s].ranks) {
      if (rank == next++) continue;
      return Refuse(absl::StrCat("stage ", s, " has rank ", rank, " where ", next - 1,
                                 " comes next; ranks are numbered stage by stage"));
    }
  }
  return absl::OkStatus();
}

// What would do where there are more parts than blocks.
std::string FewerParts(const PipelineShape& shape, int blocks) {
  if (const int stages = blocks / shape.chunks; stages > 1) {
    return absl::StrCat("use at most ", stages, " stages, or fewer chunks");
  }
  if (const int chunks = blocks / shape.stages; chunks > 0) {
    return absl::StrCat("use at most ", chunks, " chunks, or fewer stages");
  }
  return absl::StrCat("use at most ", blocks, " stages, of one chunk");
}

// Every stage computes the rows of a whole micro-batch.
absl::Status CheckRows(const Plan& plan) {
  const int64_t rows = plan.micro_batch * plan.AxisSize("data");
  const int64_t multiple = plan.AxisMultiple("data");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const int64_t data = plan.OfStage(static_cast<int>(s)).AxisSize("data");
    if (rows % data == 0) continue;
    return Refuse(absl::StrCat("a micro-batch of ", rows, " rows cannot be shared out over data=",
                               data, " of stage ", s, "; use a multiple of ",
                               multiple / plan.AxisSize("data"), " as micro_batch, the rows of ",
                               "each rank along data of stage ", plan.stage));
  }
  return absl::OkStatus();
}

absl::Status CheckBorders(const Plan& plan, const std::vector<std::string>& blocks, int parts) {
  if (plan.borders.empty()) return absl::OkStatus();
  if (static_cast<int>(plan.borders.size()) != parts - 1) {
    return Refuse(absl::StrCat(plan.borders.size(), " borders cut a model into ",
                               plan.borders.size() + 1, " parts, but the stages hold ", parts,
                               "; name ", parts - 1, " blocks as borders, or none"));
  }
  size_t last = 0;
  for (const std::string& border : plan.borders) {
    const size_t at =
        static_cast<size_t>(std::find(blocks.begin(), blocks.end(), border) - blocks.begin());
    if (at == blocks.size()) {
      return Refuse(absl::StrCat("border '", border, "' is no block of the model",
                                 NearestNameHint(border, blocks), "; blocks are ",
                                 absl::StrJoin(blocks, ", ")));
    }
    if (at <= last) {
      return Refuse(absl::StrCat("border '", border,
                                 "' leaves a part without blocks; borders name "
                                 "the first block of each part but the first, in order"));
    }
    last = at;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PipelineShape> ShapeOf(const Plan& plan) {
  ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(plan.schedule));
  PipelineShape shape;
  shape.stages = static_cast<int>(plan.stages.size());
  shape.chunks = plan.chunks > 0 ? plan.chunks : schedule->default_chunks;
  shape.micro_batches = static_cast<int>(plan.micro_batches);
  return shape;
}

absl::Status CheckStages(const Plan& plan, const ModelConfig& config) {
  if (plan.chunks < 0) return Refuse(absl::StrCat("chunks is ", plan.chunks, ", below 0"));
  if (plan.stages.size() == 1) {
    if (plan.schedule != Plan().schedule || plan.chunks > 1 || !plan.borders.empty()) {
      return Refuse(
          "schedule, chunks and borders have no effect with one stage; leave them out, or give the "
          "mesh an axis stage of several");
    }
    return absl::OkStatus();
  }
  if (plan.accumulation_order == AccumulationOrder::kVertical) {
    return Refuse(absl::StrCat("accumulation_order ", Name(plan.accumulation_order),
                               " does not go with several stages, whose schedule orders "
                               "micro-batches; leave it out, or use one stage"));
  }
  RETURN_IF_ERROR(CheckRanks(plan));
  RETURN_IF_ERROR(CheckRows(plan));
  if (!plan.same_meshes() && plan.recomputation == Recomputation::kAuto) {
    return Refuse(
        "recompute auto is chosen for one mesh, but stages have different ones; name what is to be "
        "recomputed: none, cheap, selective or block");
  }
  ASSIGN_OR_RETURN(const PipelineShape shape, ShapeOf(plan));
  const std::vector<std::string> blocks = ModelBlocks(config);
  if (shape.parts() > static_cast<int>(blocks.size())) {
    return Refuse(absl::StrCat(shape.stages, " stages of ", shape.chunks, " chunks are ",
                               shape.parts(), " parts, but the model has ", blocks.size(),
                               " blocks; ", FewerParts(shape, static_cast<int>(blocks.size()))));
  }
  RETURN_IF_ERROR(CheckBorders(plan, blocks, shape.parts()));
  ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(plan.schedule));
  if (plan.schedule == "searched") return absl::OkStatus();  // defined for all
  ScheduleInput input;
  input.shape = shape;
  return schedule->rules(input).status();
}

}  // namespace colossus
