#include "trainers/lib/config/plan_file.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/status.h"
#include "parallel/mesh_text.h"
#include "parallel/plan.h"
#include "parallel/plan_toml.h"
#include "parallel/sharding/override.h"

namespace colossus {
namespace {

class PlanKeys {
 public:
  PlanKeys(absl::string_view path, Plan plan, std::map<std::string, int> lines)
      : path_(path), plan_(std::move(plan)), lines_(std::move(lines)) {}

  absl::StatusOr<std::vector<Assignment>> Assign() {
    RETURN_IF_ERROR(Check());
    if (Given("mesh") || stages() > 1) Set("plan.mesh", "mesh", WholeMesh());
    if (Counts("schedule", stages() > 1, plan_.schedule == Plan().schedule)) {
      Set("plan.schedule", "schedule", plan_.schedule);
    }
    if (Counts("chunks", stages() > 1, plan_.chunks == 0)) {
      Set("plan.chunks", "chunks", plan_.chunks);
    }
    if (!plan_.borders.empty()) {
      Set("plan.borders", "borders", absl::StrJoin(plan_.borders, ","));
    }
    if (Given("micro_batch")) Set("batch.micro_batch", "micro_batch", plan_.micro_batch);
    if (Given("micro_batches")) Set("batch.global_batch", "micro_batches", plan_.rows());
    if (Given("sequence_length")) {
      Set("data.sequence_length", "sequence_length", plan_.sequence_length);
    }
    if (Given("compute")) {
      Set("precision.compute", "compute", PrecisionText(plan_.precision.compute));
    }
    if (Given("gradient") && plan_.precision.compute == DType::kBF16) {
      Set("precision.gradient", "gradient", PrecisionText(plan_.precision.gradient));
    }
    if (Given("zero")) Set("plan.zero", "zero", plan_.zero);
    if (Counts("chunk_elements", Shares(), plan_.chunk_elements == Plan().chunk_elements)) {
      Set("plan.chunk_elements", "chunk_elements", plan_.chunk_elements);
    }
    if (!plan_.overrides.empty()) {
      Set("plan.overrides", "override", OverridesText(plan_.overrides));
    }
    if (Given("recompute")) Set("plan.recompute", "recompute", Name(plan_.recomputation));
    if (Given("recompute_budget") && plan_.recomputation == Recomputation::kOptimal) {
      Set("plan.recompute_budget", "recompute_budget", plan_.recompute_budget_bytes);
    }
    if (Given("accumulation_order")) {
      Set("plan.accumulation_order", "accumulation_order", Name(plan_.accumulation_order));
    }
    if (Given("update")) Set("plan.update", "update", Name(plan_.update));
    if (plan_.placement) Set("plan.placement", "placement", Name(*plan_.placement));
    if (Given("packed")) {
      Set("data.packing", "packed", plan_.packed ? "borders" : "join");
      // Rows that no text is in are not packed anyway.
      assignments_.back().if_it_counts = !plan_.packed;
    }
    // The model's own rates, or none.
    if (Given("dropout")) Set("model.dropout", "dropout", plan_.dropout ? -1 : 0);
    if (Counts("sequence", Has("sequence"), plan_.sequence == Plan().sequence)) {
      Set("plan.sequence", "sequence", Name(plan_.sequence));
    }
    if (Counts("tensor_layout", Has("tensor"), plan_.tensor_layout == Plan().tensor_layout)) {
      Set("plan.tensor_layout", "tensor_layout", Name(plan_.tensor_layout));
    }
    if (Counts("norms", Has("tensor"), plan_.norms == Plan().norms)) {
      Set("plan.norms", "norms", Name(plan_.norms));
    }
    return std::move(assignments_);
  }

 private:
  size_t stages() const { return plan_.stages.size(); }
  std::string WholeMesh() const {
    std::vector<MeshAxis> mesh = plan_.stages[0].mesh;
    if (!plan_.same_meshes()) {
      std::vector<std::vector<MeshAxis>> meshes;
      for (const StagePlan& stage : plan_.stages) meshes.push_back(stage.mesh);
      return StageMeshesText(meshes);
    }
    if (stages() > 1) mesh.insert(mesh.begin(), {"stage", static_cast<int64_t>(stages())});
    return MeshText(mesh);
  }
  // A whole plan has every key: a default may stand where it has no effect. Another value is passed
  // on, to be refused as a flag is.
  bool Counts(const std::string& key, bool has_effect, bool is_default) const {
    return Given(key) && (has_effect || !is_default);
  }
  // Whether the ranks of any stage share parameters.
  bool Shares() const {
    return std::any_of(plan_.stages.begin(), plan_.stages.end(), [](const StagePlan& stage) {
      return SizeOfAxis(stage.mesh, "data") * SizeOfAxis(stage.mesh, "sequence") > 1;
    });
  }
  bool Given(const std::string& key) const { return lines_.count(key) > 0; }
  bool Has(absl::string_view axis) const { return plan_.AxisMultiple(axis) > 1; }
  std::string Place(const std::string& key) const {
    return absl::StrCat(path_, ":", Given(key) ? lines_.at(key) : 1);
  }
  absl::Status Refuse(const std::string& key, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(Place(key), ": ", why));
  }

  void Set(const char* name, const std::string& from, const absl::AlphaNum& value) {
    const Key* key = FindKey(name);
    CHECK(key != nullptr) << name;
    assignments_.push_back({key, std::string(value.Piece()), Place(from)});
  }

  absl::Status Check() const {
    int next = 0;
    for (const StagePlan& stage : plan_.stages) {
      for (int rank : stage.ranks) {
        if (rank == next++) continue;
        return Refuse("ranks", "ranks are numbered from 0 on, stage by stage");
      }
    }
    for (const StagePlan& stage : plan_.stages) {
      const int64_t ranks = RanksOf(stage.mesh), has = static_cast<int64_t>(stage.ranks.size());
      if (!Given("ranks") || ranks == has) continue;
      return Refuse("mesh", absl::StrCat("the mesh ", MeshText(stage.mesh), " is of ", ranks,
                                         " ranks, but the stage has ", has));
    }
    RETURN_IF_ERROR(CheckRows());
    if (plan_.precision.compute == DType::kF64) {
      return Refuse("compute", "a run computes in fp32, bf16 or fp16");
    }
    const bool bf16 = plan_.precision.compute == DType::kBF16;
    const DType gradient = plan_.precision.gradient;
    if (Given("gradient") && gradient != DType::kF32 && !(bf16 && gradient == DType::kBF16)) {
      return Refuse("gradient", absl::StrCat("the gradient of a run in ",
                                             PrecisionText(plan_.precision.compute), " is ",
                                             bf16 ? "bf16 or fp32" : "fp32"));
    }
    return absl::OkStatus();
  }

  // Rows of an update are a product, which must not run over, nor be 0: that is another default.
  absl::Status CheckRows() const {
    if (!Given("micro_batches")) return absl::OkStatus();
    if (!Given("micro_batch")) {
      return Refuse("micro_batches", "micro_batches needs micro_batch beside it");
    }
    const int64_t rows = plan_.micro_batch, times = plan_.micro_batches;
    if (rows < 1) return Refuse("micro_batch", "micro_batch must be at least 1");
    if (times < 1) return Refuse("micro_batches", "micro_batches must be at least 1");
    constexpr int64_t kMostRows = 1'000'000'000'000'000;
    if (times <= kMostRows / rows / plan_.AxisSize("data")) return absl::OkStatus();
    return Refuse("micro_batches", absl::StrCat("micro_batches of micro_batch rows are more than ",
                                                kMostRows, " rows an update"));
  }

  const std::string path_;
  const Plan plan_;
  const std::map<std::string, int> lines_;
  std::vector<Assignment> assignments_;
};

}  // namespace

absl::StatusOr<std::vector<Assignment>> ParsePlanFile(absl::string_view path,
                                                      absl::string_view text) {
  std::map<std::string, int> lines;
  ASSIGN_OR_RETURN(Plan plan, ParsePlan(text, path, &lines));
  return PlanKeys(path, std::move(plan), std::move(lines)).Assign();
}

}  // namespace colossus
