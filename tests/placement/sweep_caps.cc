// Prints the tables of docs/gemini.md: one model under device caps with each policy, and the
// largest model that each trains.
//
//   bazel run //tests/placement:sweep_caps
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "gemini/memory_bound.h"
#include "gemini/report.h"
#include "gemini/traffic.h"
#include "tests/placement/placed_preset.h"
#include "trainers/lib/answer/largest.h"

namespace colossus {
namespace {

struct Policy {
  const char* name;
  bool placed;
  PlacementPolicy policy;
};

constexpr Policy kPolicies[] = {{"plain", false, PlacementPolicy::kAuto},
                                {"static", true, PlacementPolicy::kStatic},
                                {"auto", true, PlacementPolicy::kAuto}};

PresetRun RunWith(const PresetJob& job, const Policy& policy, int64_t device) {
  return RunPreset(
      job,
      {.device = device, .host = 64'000'000'000, .placed = policy.placed, .policy = policy.policy});
}

void SweepCaps() {
  const PresetJob job = {"gpt2-1.5b", 4, 1024, 1};
  const StepTrace trace = TraceOfPreset(job);
  const MemoryBound bound = DeviceBound(trace);
  std::printf(
      "gpt2-1.5b, 4 x 1024 tokens an update, bf16, blocks recomputed; no device below "
      "%.3f GB can run it.\n\n| device GB | policy | moved GB | least GB | seconds | "
      "hidden |\n| --- | --- | --- | --- | --- | --- |\n",
      bound.bytes / 1e9);
  for (double gigabytes : {1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0}) {
    for (const Policy& policy : kPolicies) {
      const PresetRun run = RunWith(job, policy, static_cast<int64_t>(gigabytes * 1e9));
      if (!run.status.ok()) {
        std::printf("| %.0f | %s | does not fit | | | |\n", gigabytes, policy.name);
        continue;
      }
      const PlacementReport& report = run.report;
      const TrafficBound& least = report.bound;
      std::printf("| %.0f | %s | %.2f | %.2f | %.2f | %.0f %% |\n", gigabytes, policy.name,
                  (ModelBytes(report.moved) + ActivationBytes(report.moved)) / 1e9,
                  (least.model() + least.activations()) / 1e9,
                  run.seconds, 100 * (policy.placed ? report.time.hidden() : 1));
      std::fflush(stdout);
    }
  }
  // The smallest that is accepted, to 1 % of the bound.
  for (int percent = 100;; ++percent) {
    const PresetRun run = RunWith(job, kPolicies[2], bound.bytes * percent / 100);
    if (!run.status.ok()) continue;
    std::printf("\nThe smallest accepted device has %.3f GB, %.2f times the bound.\n",
                bound.bytes * percent / 1e11, percent / 100.0);
    return;
  }
}

void SweepLayers() {
  std::printf(
      "\nLargest number of gpt2-1.5b's layers, 4 x 1024 tokens, 64 GB of host:\n\n"
      "| device GB | policy | layers | parameters | moved GB | seconds |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (double gigabytes : {2.0, 6.0, 24.0}) {
    for (const Policy& policy : kPolicies) {
      PresetRun best;
      const absl::StatusOr<int64_t> layers = LargestFitting(1, 256, [&](int64_t n) {
        PresetRun run = RunWith({"", 4, 1024, 1, n}, policy, static_cast<int64_t>(gigabytes * 1e9));
        const bool fits = run.status.ok();
        if (fits) best = std::move(run);
        return absl::StatusOr<bool>(fits);
      });
      std::printf("| %.0f | %s | %lld | %.2f e9 | %.1f | %.2f |\n", gigabytes, policy.name,
                  static_cast<long long>(*layers), best.parameters / 1e9,
                  (ModelBytes(best.report.moved) + ActivationBytes(best.report.moved)) / 1e9,
                  best.seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace colossus

int main() {
  colossus::SweepCaps();
  colossus::SweepLayers();
}
