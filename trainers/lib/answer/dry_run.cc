#include "trainers/lib/answer/dry_run.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "gemini/peak_parts.h"
#include "parallel/plan.h"
#include "tensor/exec/memory_plan.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/report/progress.h"
#include "trainers/lib/report/tier_report.h"
#include "trainers/lib/run/session.h"

namespace colossus {
namespace {

constexpr std::array<Tier, 3> kTiers = {Tier::kDevice, Tier::kHost, Tier::kDisk};

std::array<int64_t, 3> CapacityOf(const Options::Run& run, int ranks) {
  const auto bound = [](int64_t bytes) { return bytes > 0 ? bytes : INT64_MAX; };
  return {bound(run.device_memory), run.host_memory > 0 ? run.host_memory / ranks : INT64_MAX,
          run.disk_memory / ranks};
}

// "rank 3", "ranks 4 to 7".
std::string NameOf(const RankClass& ranks) {
  if (ranks.count == 1) return absl::StrCat("rank ", ranks.first);
  return absl::StrCat("ranks ", ranks.first, " to ", ranks.first + ranks.count - 1);
}

int64_t Elements(const Session& session) {
  int64_t sum = 0;
  for (const StateInfo& info : session.training->parameters()) {
    sum += ElementCount(info.global_dims);
  }
  return sum;
}

// Adds the class, or says why it does not fit.
absl::Status AddClass(const Options& options, const ModelConfig& model, RankClass ranks,
                      DryRun* run) {
  Session session;
  session.config.options = options;
  const absl::Status status = PlanSession(options, model, ranks.first, &session);
  run->tokens = session.plan.rows() * session.plan.sequence_length;
  if (absl::IsResourceExhausted(status)) {
    run->fits = false;
    run->refusal = absl::StrCat(run->ranks > 1 ? NameOf(ranks) + ": " : "", status.message());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(status);
  run->parameters = Elements(session);
  ranks.report = ReportUpdate(session.training->program());
  ranks.choices = ChosenByAuto(session);
  run->classes.push_back(std::move(ranks));
  return absl::OkStatus();
}

nlohmann::ordered_json BytesOrNull(int64_t bytes) {
  return bytes == INT64_MAX ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(bytes);
}

nlohmann::ordered_json TrafficJson(const MovedBytes& bytes) {
  nlohmann::ordered_json json;
  for (size_t kind = 0; kind < kMovedKinds; ++kind) {
    json[std::string(Name(static_cast<Moved>(kind)))] = bytes[kind];
  }
  return json;
}

nlohmann::ordered_json ClassJson(const RankClass& ranks) {
  const PlacementReport& report = ranks.report;
  nlohmann::ordered_json json;
  json["choices"] = ranks.choices;
  for (const Tier tier : kTiers) {
    const TierReport& of = report.tiers[static_cast<size_t>(tier)];
    const std::string name(Name(tier));
    json["peak_bytes"][name] = of.peak;
    json["home_bytes"][name] = of.homes;
    for (size_t kind = 0; kind < kHeldKinds; ++kind) {
      json["parts_bytes"][name][std::string(Name(static_cast<Held>(kind)))] = of.parts[kind];
    }
    json["largest"][name] = nlohmann::ordered_json::array();
    for (const Contributor& part : of.largest) {
      json["largest"][name].push_back({{"what", part.what}, {"bytes", part.bytes}});
    }
  }
  const int64_t least = report.least_device.bytes;
  json["least_device_bytes"] = least > 0 ? nlohmann::ordered_json(least) : nullptr;
  json["traffic"]["host_to_device"] = TrafficJson(report.moved.host_to_device);
  json["traffic"]["device_to_host"] = TrafficJson(report.moved.device_to_host);
  json["traffic"]["disk_read"] = TrafficJson(report.moved.disk_read);
  json["traffic"]["disk_written"] = TrafficJson(report.moved.disk_written);
  json["traffic_lower_bound_bytes"] = report.bound.model();
  json["activation_lower_bound_bytes"] = report.bound.activations();
  json["hidden_transfer_fraction"] = report.time.copying > 0
                                         ? nlohmann::ordered_json(report.time.hidden())
                                         : nlohmann::ordered_json(nullptr);
  json["step_seconds"] = report.time.seconds;
  return json;
}

// A setting to try, and how to say it.
struct Remedy {
  std::string text;
  std::function<void(Options&)> apply;
};

bool FitsAsItIs(const Options& options, const ModelConfig& model) {
  const absl::StatusOr<DryRun> run = PlanDryRun(options, model);
  return run.ok() && run->fits;
}

Options WithBlocksRecomputed(Options options) {
  options.plan.recompute = "block";
  return options;
}

// What fits by one way to recompute fits by the choice of all, which is made much more slowly.
bool Fits(const Options& options, const ModelConfig& model) {
  if (options.plan.recompute == "auto" && FitsAsItIs(WithBlocksRecomputed(options), model)) {
    return true;
  }
  return FitsAsItIs(options, model);
}

// The device's peak where it has room for everything; none if the tiers below are too small.
std::optional<int64_t> UnboundedPeak(Options options, const ModelConfig& model) {
  options.run.device_memory = 0;
  const absl::StatusOr<DryRun> run = PlanDryRun(options, model);
  if (!run.ok() || !run->fits) return std::nullopt;
  int64_t peak = 0;
  for (const RankClass& ranks : run->classes) {
    peak = std::max(peak, ranks.report.tiers[static_cast<size_t>(Tier::kDevice)].peak);
  }
  return peak;
}

// The least device memory that does with the rest as it is, to about a hundredth.
std::optional<int64_t> LeastDeviceMemory(Options options, const ModelConfig& model) {
  if (options.run.device_memory == 0) return std::nullopt;
  if (options.plan.recompute == "auto") options = WithBlocksRecomputed(options);
  const std::optional<int64_t> peak = UnboundedPeak(options, model);
  if (!peak.has_value()) return std::nullopt;
  int64_t low = options.run.device_memory, high = std::max(low, *peak);
  const auto fits_in = [&](int64_t bytes) {
    options.run.device_memory = bytes;
    return FitsAsItIs(options, model);
  };
  if (!fits_in(high)) {
    high *= 2;  // what an unbounded device leaves on the host may need room between its copies
    if (!fits_in(high)) return std::nullopt;
  }
  while (high - low > high / 100) {
    const int64_t middle = low + (high - low) / 2;
    (fits_in(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double DryRun::seconds() const {
  double most = 0;
  for (const RankClass& ranks : classes) most = std::max(most, ranks.report.time.seconds);
  return most;
}

absl::StatusOr<DryRun> PlanDryRun(const Options& options, const ModelConfig& model) {
  CHECK_EQ(options.run.device, "null");
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(options));
  DryRun run;
  run.fits = true;
  run.ranks = layout.ranks;
  run.capacity = CapacityOf(options.run, layout.ranks);
  const Plan plan = PlanOf(layout, options.plan);
  for (const StagePlan& stage : plan.stages) {
    const RankClass ranks = {stage.ranks.front(), static_cast<int>(stage.ranks.size()), {}, {}};
    if (run.fits) RETURN_IF_ERROR(AddClass(options, model, ranks, &run));
  }
  return run;
}

std::vector<std::string> WhatWouldFit(const Options& options, const ModelConfig& model) {
  std::vector<Remedy> remedies;
  // auto has tried it.
  if (options.plan.recompute != "block" && options.plan.recompute != "auto") {
    remedies.push_back({"--recompute=block", [](Options& o) { o.plan.recompute = "block"; }});
  }
  if (options.plan.placement != "auto") {
    remedies.push_back({"--placement=auto", [](Options& o) { o.plan.placement = "auto"; }});
  }
  if (options.batch.micro_batch != 1) {
    remedies.push_back({"--micro_batch=1", [](Options& o) { o.batch.micro_batch = 1; }});
  }
  const absl::StatusOr<RunLayout> layout = LayoutOf(options);
  const bool share =
      layout.ok() && layout->LargestSize("data") * layout->LargestSize("sequence") > 1;
  if (share && options.plan.zero < 3) {
    remedies.push_back({"--zero=3", [](Options& o) { o.plan.zero = 3; }});
  }
  if (options.run.host_memory > 0) {
    remedies.push_back({"more --host_memory", [](Options& o) { o.run.host_memory = 0; }});
  }
  remedies.push_back(
      {"more --disk (--offload_dir)", [](Options& o) { o.run.disk_memory = int64_t{1} << 50; }});
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) {
    Options trial = options;
    remedy.apply(trial);
    if (Fits(trial, model)) texts.push_back(remedy.text);
  }
  if (const std::optional<int64_t> least = LeastDeviceMemory(options, model)) {
    texts.push_back(absl::StrCat("--device_memory=", *least, " (", BytesText(*least), ")"));
  }
  return texts;
}

std::vector<std::string> DryRunLines(const DryRun& run) {
  if (!run.fits) return {"fits: no", absl::StrCat("reason: ", run.refusal)};
  std::vector<std::string> lines = {"fits: yes", absl::StrCat("parameters: ", run.parameters)};
  for (const RankClass& ranks : run.classes) {
    if (run.ranks > 1) {
      lines.push_back(absl::StrCat(NameOf(ranks), ranks.count > 1 ? ", each" : "", ":"));
    }
    lines.insert(lines.end(), ranks.choices.begin(), ranks.choices.end());
    for (absl::string_view line : absl::StrSplit(ToText(ranks.report), '\n', absl::SkipEmpty())) {
      lines.push_back(std::string(line));
    }
  }
  const double seconds = run.seconds();
  lines.push_back(absl::StrFormat(
      "predicted seconds an update of %d tokens: %.6g (%.6g tokens a second)%s", run.tokens,
      seconds, static_cast<double>(run.tokens) / seconds,
      run.classes.size() > 1 ? ", without waits of stages for each other" : ""));
  return lines;
}

nlohmann::ordered_json DryRunJson(const DryRun& run) {
  nlohmann::ordered_json json;
  json["fits"] = run.fits;
  json["reason"] = run.fits ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(run.refusal);
  json["parameters"] = run.parameters;
  json["tokens"] = run.tokens;
  json["ranks"] = run.ranks;
  for (const Tier tier : kTiers) {
    json["capacity_bytes"][std::string(Name(tier))] =
        BytesOrNull(run.capacity[static_cast<size_t>(tier)]);
  }
  if (!run.fits) return json;
  if (run.classes.size() == 1) {
    json.update(ClassJson(run.classes[0]));
    return json;
  }
  for (const RankClass& ranks : run.classes) {
    nlohmann::ordered_json of = {{"first_rank", ranks.first}, {"ranks", ranks.count}};
    of.update(ClassJson(ranks));
    json["rank_classes"].push_back(std::move(of));
  }
  json["step_seconds"] = run.seconds();
  return json;
}

}  // namespace colossus
