#include "trainers/lib/dry_run.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/training_step.h"
#include "tensor/exec/timeline.h"
#include "trainers/lib/progress.h"
#include "trainers/lib/session.h"
#include "trainers/lib/tier_report.h"

namespace colossus {
namespace {

constexpr std::array<int, 3> kUpdate = {kAccumulatePhase, kMeasurePhase, kUpdatePhase};

std::optional<int64_t> Bound(int64_t bytes) {
  return bytes > 0 ? std::optional<int64_t>(bytes) : std::nullopt;
}

std::array<DryTier, 3> TiersOf(const Options::Run& run, const MemoryPlan& plan) {
  return {DryTier{"device", Bound(run.device_memory), plan.device_bytes, plan.contributors},
          DryTier{"host", Bound(run.host_memory), plan.host_bytes, plan.host_contributors},
          DryTier{"disk", run.disk_memory, plan.disk_bytes, plan.disk_contributors}};
}

void Describe(Session& session, DryRun* run) {
  const Program& program = session.training->program();
  run->fits = true;
  for (const StateInfo& info : session.training->parameters()) {
    run->parameters += ElementCount(info.global_dims);
  }
  run->tiers = TiersOf(session.config.options.run, program.plan());
  for (const int phase : kUpdate) run->traffic += TrafficOf(program.plan(), phase);
  run->traffic_bound = TrafficLowerBound(program);
  run->hidden = HiddenTransferFraction(program);
  run->seconds = PredictPhases(program, kUpdate).seconds;
}

std::string TrafficText(const MovedBytes& bytes) {
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < kMovedKinds; ++kind) {
    if (bytes[kind] == 0) continue;
    parts.push_back(absl::StrCat(Name(static_cast<Moved>(kind)), " ", BytesText(bytes[kind])));
  }
  return absl::StrCat(Total(bytes), " bytes",
                      parts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(parts, ", "), ")"));
}

nlohmann::ordered_json TrafficJson(const MovedBytes& bytes) {
  nlohmann::ordered_json json;
  for (size_t kind = 0; kind < kMovedKinds; ++kind) {
    json[std::string(Name(static_cast<Moved>(kind)))] = bytes[kind];
  }
  return json;
}

template <class Value>
nlohmann::ordered_json OrNull(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// A setting to try, and how to say it.
struct Remedy {
  std::string text;
  std::function<void(Options&)> apply;
};

bool Fits(const Options& options, const ModelConfig& model) {
  const absl::StatusOr<DryRun> run = PlanDryRun(options, model);
  return run.ok() && run->fits;
}

// The least device memory that does with the rest as it is, to about a hundredth; none up to 64
// times what is given.
std::optional<int64_t> LeastDeviceMemory(Options options, const ModelConfig& model) {
  constexpr int kMostDoublings = 6;
  const auto fits_in = [&](int64_t bytes) {
    options.run.device_memory = bytes;
    return Fits(options, model);
  };
  int64_t high = options.run.device_memory;
  if (high == 0) return std::nullopt;
  for (int doublings = 0;; ++doublings) {
    if (doublings == kMostDoublings) return std::nullopt;
    high *= 2;
    if (fits_in(high)) break;
  }
  for (int64_t low = high / 2; high - low > high / 100;) {
    const int64_t middle = low + (high - low) / 2;
    (fits_in(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

absl::StatusOr<DryRun> PlanDryRun(const Options& options, const ModelConfig& model) {
  CHECK_EQ(options.run.device, "null");
  Session session;
  session.config.options = options;
  const absl::Status status = PlanSession(options, model, &session);
  DryRun run;
  run.tokens = session.plan.rows() * session.plan.sequence_length;
  if (absl::IsResourceExhausted(status)) {
    run.refusal = std::string(status.message());
    run.tiers = TiersOf(options.run, {});
    return run;
  }
  RETURN_IF_ERROR(status);
  Describe(session, &run);
  return run;
}

std::vector<std::string> WhatWouldFit(const Options& options, const ModelConfig& model) {
  std::vector<Remedy> remedies;
  if (options.plan.recompute != "block") {
    remedies.push_back({"--recompute=block", [](Options& o) { o.plan.recompute = "block"; }});
  }
  if (options.plan.placement == "static") {
    remedies.push_back({"--placement=auto", [](Options& o) { o.plan.placement = "auto"; }});
  }
  if (options.batch.micro_batch > 1) {
    remedies.push_back({"--micro_batch=1", [](Options& o) { o.batch.micro_batch = 1; }});
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
  std::vector<std::string> lines;
  if (!run.fits) {
    lines.push_back("fits: no");
    lines.push_back(absl::StrCat("reason: ", run.refusal));
    return lines;
  }
  lines.push_back("fits: yes");
  lines.push_back(absl::StrCat("parameters: ", run.parameters));
  for (const DryTier& tier : run.tiers) {
    std::vector<std::string> largest;
    for (const Contributor& part : tier.largest) {
      largest.push_back(absl::StrCat(part.what, " ", BytesText(part.bytes)));
    }
    lines.push_back(absl::StrCat(
        tier.name, ": ", tier.peak, " bytes (", BytesText(tier.peak), ") of ",
        tier.capacity ? BytesText(*tier.capacity) : "no bound",
        largest.empty() ? "" : absl::StrCat("; largest: ", absl::StrJoin(largest, ", "))));
  }
  lines.push_back(absl::StrCat("host to device: ", TrafficText(run.traffic.host_to_device)));
  lines.push_back(absl::StrCat("device to host: ", TrafficText(run.traffic.device_to_host)));
  lines.push_back(absl::StrCat("disk read: ", TrafficText(run.traffic.disk_read)));
  lines.push_back(absl::StrCat("disk write: ", TrafficText(run.traffic.disk_written)));
  lines.push_back(absl::StrCat(
      "lower bound of both directions for parameters and gradients: ",
      run.traffic_bound ? absl::StrCat(*run.traffic_bound, " bytes") : "nothing has to move"));
  if (run.hidden) {
    lines.push_back(absl::StrFormat("time of copies that is hidden: %.1f %%", 100 * *run.hidden));
  }
  lines.push_back(
      absl::StrFormat("predicted seconds an update of %d tokens: %.6g", run.tokens, run.seconds));
  return lines;
}

nlohmann::ordered_json DryRunJson(const DryRun& run) {
  nlohmann::ordered_json json;
  json["fits"] = run.fits;
  json["reason"] = run.fits ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(run.refusal);
  json["parameters"] = run.parameters;
  json["tokens"] = run.tokens;
  for (const DryTier& tier : run.tiers) {
    json["peak_bytes"][tier.name] =
        run.fits ? nlohmann::ordered_json(tier.peak) : nlohmann::ordered_json(nullptr);
    json["capacity_bytes"][tier.name] = OrNull(tier.capacity);
    json["largest"][tier.name] = nlohmann::ordered_json::array();
    for (const Contributor& part : tier.largest) {
      json["largest"][tier.name].push_back({{"what", part.what}, {"bytes", part.bytes}});
    }
  }
  if (!run.fits) return json;
  json["traffic"]["host_to_device"] = TrafficJson(run.traffic.host_to_device);
  json["traffic"]["device_to_host"] = TrafficJson(run.traffic.device_to_host);
  json["traffic"]["disk_read"] = TrafficJson(run.traffic.disk_read);
  json["traffic"]["disk_written"] = TrafficJson(run.traffic.disk_written);
  json["traffic_lower_bound_bytes"] = OrNull(run.traffic_bound);
  json["hidden_transfer_fraction"] = OrNull(run.hidden);
  json["step_seconds"] = run.seconds;
  return json;
}

}  // namespace colossus
