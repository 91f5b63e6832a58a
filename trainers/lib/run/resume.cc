#include "trainers/lib/run/resume.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/json.h"
#include "trainers/lib/config/config_file.h"
#include "trainers/lib/config/schema.h"

namespace colossus {
namespace {

struct RuleRow {
  const char* key;
  ResumeRule rule;
};

constexpr RuleRow kRules[] = {
    // The model itself is compared, not where it came from.
    {"model.preset", ResumeRule::kFree},
    {"model.directory", ResumeRule::kFree},
    {"model.initialize", ResumeRule::kFree},
    {"model.require_tied", ResumeRule::kFree},
    // So is the tokenizer: RunOutput::CheckTokenizer.
    {"data.tokenizer", ResumeRule::kFree},
    {"data.validation_file", ResumeRule::kFree},
    {"plan.recompute", ResumeRule::kFree},
    {"plan.recompute_budget", ResumeRule::kFree},
    {"plan.accumulation_order", ResumeRule::kFree},
    {"plan.update", ResumeRule::kFree},
    {"plan.zero", ResumeRule::kFree},
    {"plan.schedule", ResumeRule::kFree},
    {"plan.chunks", ResumeRule::kFree},
    {"plan.borders", ResumeRule::kFree},
    // Sums over ranks are taken in another order.
    {"plan.mesh", ResumeRule::kNoted},
    {"plan.sequence", ResumeRule::kNoted},
    {"plan.norms", ResumeRule::kNoted},
    {"plan.tensor_layout", ResumeRule::kNoted},
    {"plan.chunk_elements", ResumeRule::kNoted},
    {"plan.overrides", ResumeRule::kNoted},
    {"run.ranks", ResumeRule::kNoted},
    {"run.out", ResumeRule::kFree},
    {"run.metrics", ResumeRule::kFree},
    {"run.validate_every", ResumeRule::kFree},
    {"run.save_every", ResumeRule::kFree},
    {"run.keep", ResumeRule::kFree},
    {"run.resume", ResumeRule::kFree},
    {"run.skip_nonfinite", ResumeRule::kFree},
    {"run.stall_seconds", ResumeRule::kFree},
    {"run.device_memory", ResumeRule::kFree},
    {"plan.placement", ResumeRule::kFree},
    {"run.host_memory", ResumeRule::kFree},
    {"run.offload_dir", ResumeRule::kFree},
    {"run.disk_memory", ResumeRule::kFree},
    {"run.link_gbps", ResumeRule::kFree},
    {"run.dump_graphs", ResumeRule::kFree},
    {"run.profile", ResumeRule::kFree},
    {"run.profile_file", ResumeRule::kFree},
    // Sums are taken in another order, so the last bits may differ.
    {"batch.micro_batch", ResumeRule::kNoted},
    {"run.threads", ResumeRule::kNoted},
    {"run.device", ResumeRule::kNoted},
    // A longer or shorter run: a schedule that ends at the last update changes from here on.
    {"run.steps", ResumeRule::kNoted},
    {"run.epochs", ResumeRule::kNoted},
};

absl::StatusOr<Config> SavedConfig(const Checkpoint& checkpoint) {
  const std::string name = absl::StrCat(checkpoint.path(), " (config)");
  ASSIGN_OR_RETURN(const std::vector<Assignment> values,
                   ParseConfigFile(name, checkpoint.record().config));
  return MergeLayers(Trainer::kPretrain, values, {});
}

std::string Difference(const std::string& name, const Config& saved, const Config& now) {
  const Key* key = FindKey(name);
  CHECK(key != nullptr) << name;
  return absl::StrCat(name, " was ", TomlValue(*key, saved.options), ", is ",
                      TomlValue(*key, now.options));
}

absl::Status CheckModel(const Checkpoint& checkpoint, const ModelConfig& model) {
  ASSIGN_OR_RETURN(const nlohmann::json saved,
                   ParseJson(checkpoint.record().model, checkpoint.path()));
  if (saved == model.raw) return absl::OkStatus();
  std::vector<std::string> keys;
  for (const auto& item : saved.items()) {
    if (!model.raw.contains(item.key()) || model.raw.at(item.key()) != item.value()) {
      keys.push_back(item.key());
    }
  }
  for (const auto& item : model.raw.items()) {
    if (!saved.contains(item.key())) keys.push_back(item.key());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint.path(), " is of another model; its config.json differs in ",
                   absl::StrJoin(keys, ", "), ". Use the same model, or another --out"));
}

}  // namespace

ResumeRule RuleOf(absl::string_view key) {
  for (const RuleRow& row : kRules) {
    if (key == row.key) return row.rule;
  }
  return ResumeRule::kRefused;
}

absl::Status CheckSameRun(const Checkpoint& checkpoint, const Config& config,
                          const ModelConfig& model, int64_t data_rows, Log& log) {
  RETURN_IF_ERROR(CheckModel(checkpoint, model));
  ASSIGN_OR_RETURN(const Config saved, SavedConfig(checkpoint));
  std::vector<std::string> refused;
  for (const std::string& name : DifferingKeys(saved, config)) {
    const ResumeRule rule = RuleOf(name);
    if (rule == ResumeRule::kRefused) refused.push_back(Difference(name, saved, config));
    if (rule == ResumeRule::kNoted) {
      log.Warning(absl::StrCat("resumed with another value: ", Difference(name, saved, config),
                               "; numbers differ from those of an unchanged run"));
    }
  }
  if (!refused.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.path(), " is of another run: ", absl::StrJoin(refused, "; "),
                     ". Give the same values, or another --out"));
  }
  if (checkpoint.record().data_rows != data_rows) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.path(), ": the training data had ",
                                                   checkpoint.record().data_rows,
                                                   " rows when it was saved and has ", data_rows,
                                                   " now; give the same data, or another --out"));
  }
  return absl::OkStatus();
}

}  // namespace colossus
