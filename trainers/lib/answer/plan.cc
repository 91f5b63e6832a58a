#include "trainers/lib/answer/plan.h"

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/presets.h"
#include "trainers/lib/answer/dry_run.h"
#include "trainers/lib/answer/largest.h"
#include "trainers/lib/run/model_options.h"

namespace colossus {
namespace {

absl::StatusOr<ModelConfig> ReadModel(FileSystem& files, const Options::Model& options) {
  ModelConfig model;
  if (!options.preset.empty()) {
    ASSIGN_OR_RETURN(model, PresetConfig(options.preset));
  } else {
    ASSIGN_OR_RETURN(model, LoadModelConfig(files, JoinPath(options.directory, "config.json")));
  }
  RETURN_IF_ERROR(ApplyModelOptions(options, &model));
  return model;
}

std::string Lines(const std::vector<std::string>& lines) {
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

Planned TextOf(const DryRun& run, const std::vector<std::string>& remedies, bool json) {
  if (json) {
    nlohmann::ordered_json object = DryRunJson(run);
    object["would_fit_with"] = remedies;
    return {run.fits, object.dump() + "\n"};
  }
  std::vector<std::string> lines = DryRunLines(run);
  if (!run.fits) {
    lines.push_back(absl::StrCat("would fit with: ", remedies.empty()
                                                         ? "no single change"
                                                         : absl::StrJoin(remedies, "; or ")));
  }
  return {run.fits, Lines(lines)};
}

Planned TextOf(const Largest& largest, bool json) {
  if (json) {
    nlohmann::ordered_json object = DryRunJson(largest.run);
    object["layers"] = largest.shape.layers;
    object["heads"] = largest.shape.heads;
    object["hidden"] = largest.shape.hidden();
    return {largest.run.fits, object.dump() + "\n"};
  }
  std::vector<std::string> lines = DryRunLines(largest.run);
  if (largest.run.fits) {
    lines.insert(lines.begin(),
                 absl::StrCat("largest GPT: ", largest.shape.layers, " layers, ",
                              largest.shape.heads, " heads, width ", largest.shape.hidden(), ", ",
                              largest.run.parameters, " parameters"));
  }
  return {largest.run.fits, Lines(lines)};
}

}  // namespace

absl::StatusOr<Planned> PlanRun(FileSystem& files, JobContext& context) {
  const Options& options = context.config.options;
  if (options.run.largest) {
    ASSIGN_OR_RETURN(const Largest largest, FindLargest(options, context.log));
    return TextOf(largest, options.run.json);
  }
  ASSIGN_OR_RETURN(const ModelConfig model, ReadModel(files, options.model));
  ASSIGN_OR_RETURN(const DryRun run, PlanDryRun(options, model));
  std::vector<std::string> remedies;
  if (!run.fits) remedies = WhatWouldFit(options, model);
  return TextOf(run, remedies, options.run.json);
}

absl::StatusOr<int> RunPlan(JobContext& context) {
  ASSIGN_OR_RETURN(const Planned planned, PlanRun(RealFileSystem(), context));
  std::fputs(planned.text.c_str(), stdout);
  return planned.fits ? 0 : 2;
}

}  // namespace colossus
