#include "trainers/lib/config/run_layout.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/launcher.h"
#include "parallel/mesh_text.h"
#include "parallel/sharding/override.h"

namespace colossus {
namespace {

// "1, 2, 4 or 8".
std::string DivisorsText(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  std::string text = absl::StrCat(divisors[0]);
  for (size_t i = 1; i < divisors.size(); ++i) {
    absl::StrAppend(&text, i + 1 == divisors.size() ? " or " : ", ", divisors[i]);
  }
  return text;
}

// What has the name. REQUIRES: one has.
template <typename T>
T Named(absl::string_view name) {
  T value = {};
  CHECK(ParseName(name, &value)) << name;
  return value;
}

}  // namespace

int64_t RunLayout::Size(absl::string_view axis) const {
  return SizeOfAxis(stages.empty() || axis == "stage" ? mesh : stages[0], axis);
}

int64_t RunLayout::LargestSize(absl::string_view axis) const {
  int64_t size = Size(axis);
  for (const std::vector<MeshAxis>& stage : stages) size = std::max(size, SizeOfAxis(stage, axis));
  return size;
}

std::string RunLayout::ToString() const {
  if (ranks == 1) return "1 rank";
  return absl::StrCat(ranks, " ranks, ", stages.empty() ? MeshText(mesh) : StageMeshesText(stages));
}

namespace {

// Stages that are all alike are those of an axis.
absl::Status ReadStages(absl::string_view mesh, RunLayout* layout) {
  ASSIGN_OR_RETURN(std::vector<std::vector<MeshAxis>> stages, ParseStageMeshes(mesh));
  layout->mesh = {{"stage", static_cast<int64_t>(stages.size())}};
  const bool alike = std::all_of(stages.begin(), stages.end(),
                                 [&](const auto& stage) { return stage == stages[0]; });
  if (alike) layout->mesh.insert(layout->mesh.end(), stages[0].begin(), stages[0].end());
  if (!alike) layout->stages = std::move(stages);
  return absl::OkStatus();
}

absl::Status ReadMesh(absl::string_view mesh, RunLayout* layout) {
  if (IsStageMeshes(mesh)) return ReadStages(mesh, layout);
  ASSIGN_OR_RETURN(layout->mesh, ParseMeshAxes(mesh));
  return absl::OkStatus();
}

int64_t RanksOf(const RunLayout& layout) {
  if (layout.stages.empty()) return RanksOf(layout.mesh);
  int64_t ranks = 0;
  for (const std::vector<MeshAxis>& stage : layout.stages) ranks += RanksOf(stage);
  return ranks;
}

}  // namespace

absl::StatusOr<RunLayout> PlanRanks(int64_t ranks, absl::string_view mesh, int world) {
  RunLayout layout;
  RETURN_IF_ERROR(Annotate(ReadMesh(mesh, &layout), "plan.mesh"));
  for (size_t a = 1; a < layout.mesh.size(); ++a) {
    if (layout.mesh[a].name != "stage") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan.mesh ", mesh,
                     ": the axis stage comes first, as stage=", layout.mesh[a].size, ",data=2"));
  }
  if (RanksOf(layout) > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat("plan.mesh ", mesh, " is of ", RanksOf(layout),
                                                   " ranks; a run has at most ", kMostRanks));
  }
  if (world == 1) world = 0;  // an ordinary process
  if (world > 0 && ranks > 0 && ranks != world) {
    return absl::InvalidArgumentError(
        absl::StrCat("run.ranks is ", ranks, ", but ", world,
                     " processes were started as ranks; leave it out, or start as many"));
  }
  if (world > 0) ranks = world;
  layout.processes = world > 0;
  if (ranks == 0) ranks = RanksOf(layout);
  layout.ranks = static_cast<int>(ranks);
  if (mesh.empty() && ranks > 1) layout.mesh = {{"data", ranks}};
  if (RanksOf(layout) == ranks) return layout;
  if (!layout.stages.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.mesh ", mesh, " has stages of ", RanksOf(layout), " ranks together, but the run has ",
        ranks, world > 0 ? " (processes)" : " (run.ranks)", "; leave out --ranks, or give the ",
        "stages as many"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.mesh ", mesh, " is a mesh of ", RanksOf(layout), " ranks, but the run has ", ranks,
      world > 0 ? " (processes)" : " (run.ranks)", ": the sizes must multiply to ", ranks,
      ", so an axis can have ", DivisorsText(ranks)));
}

absl::StatusOr<RunLayout> LayoutOf(const Options& options) {
  const Launched launched = LaunchedProcess();
  RETURN_IF_ERROR(CheckLaunched(launched));
  RETURN_IF_ERROR(Annotate(ParseOverrides(options.plan.overrides).status(), "plan.overrides"));
  return PlanRanks(options.run.ranks, options.plan.mesh, launched.ranks);
}

Plan PlanOf(const RunLayout& layout, const Options::Plan& options) {
  Plan plan;
  std::vector<MeshAxis> mesh = layout.mesh;
  const int stages = static_cast<int>(layout.Size("stage"));
  if (!mesh.empty() && mesh[0].name == "stage") mesh.erase(mesh.begin());
  plan.stages.assign(static_cast<size_t>(stages), StagePlan{{}, mesh});
  int next = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    StagePlan& stage = plan.stages[s];
    if (!layout.stages.empty()) stage.mesh = layout.stages[s];
    const int64_t ranks = layout.stages.empty() ? layout.ranks / stages : RanksOf(stage.mesh);
    for (int64_t rank = 0; rank < ranks; ++rank) stage.ranks.push_back(next++);
  }
  plan.schedule = options.schedule;
  plan.chunks = static_cast<int>(options.chunks);
  if (!options.borders.empty()) plan.borders = absl::StrSplit(options.borders, ',');
  plan.zero = static_cast<int>(options.zero);
  plan.chunk_elements = options.chunk_elements;
  absl::StatusOr<std::vector<ShardingOverride>> overrides = ParseOverrides(options.overrides);
  CHECK(overrides.ok()) << overrides.status();  // LayoutOf has read them
  plan.overrides = *std::move(overrides);
  plan.sequence = Named<SequenceParallelism>(options.sequence);
  plan.tensor_layout = Named<TensorLayout>(options.tensor_layout);
  plan.norms = Named<NormLayout>(options.norms);
  plan.recomputation = Named<Recomputation>(options.recompute);
  plan.recompute_budget_bytes = options.recompute_budget;
  plan.accumulation_order = Named<AccumulationOrder>(options.accumulation_order);
  plan.update = Named<UpdateTime>(options.update);
  return plan;
}

}  // namespace colossus
