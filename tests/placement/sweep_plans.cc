// Prints the second part of the tables of docs/gemini.md: recomputation beside placement,
// micro-batches in vertical order, updates that are whole and layer by layer.
//
//   bazel run //tests/placement:sweep_plans
#include <cstdint>
#include <cstdio>

#include "gemini/traffic.h"
#include "parallel/plan.h"
#include "tests/placement/placed_preset.h"

namespace colossus {
namespace {

constexpr int64_t kHost = 64'000'000'000;

PresetRun RunWith(const PresetJob& job, double device_gb, int64_t host = kHost,
                  int64_t disk = 0) {
  return RunPreset(job, {.device = static_cast<int64_t>(device_gb * 1e9),
                         .host = host,
                         .disk = disk});
}

void SweepRecomputation() {
  std::printf(
      "Seconds of an update of gpt2-1.5b, 4 x 1024 tokens, by what is computed again:\n\n"
      "| device GB | none | selective | block | optimal | auto |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (double gigabytes : {2.0, 6.0, 12.0, 24.0, 32.0}) {
    std::printf("| %.0f |", gigabytes);
    for (Recomputation way : {Recomputation::kNone, Recomputation::kSelective,
                              Recomputation::kBlock, Recomputation::kOptimal,
                              Recomputation::kAuto}) {
      PresetJob job = {"gpt2-1.5b", 4, 1024, 1};
      job.recomputation = way;
      const PresetRun run = RunWith(job, gigabytes);
      if (run.status.ok()) {
        std::printf(" %.3f |", run.seconds);
      } else {
        std::printf(" does not fit |");
      }
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void SweepMicroBatches() {
  std::printf(
      "\nMicro-batches of 1 x 1024 tokens in vertical order, gpt2-1.5b: model data moved, and the "
      "least that\nmust be, in GB.\n\n"
      "| device GB | 1 | least | 2 | least | 4 | least | 8 | least |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (double gigabytes : {1.0, 1.5, 2.0, 4.0, 6.0}) {
    std::printf("| %.1f |", gigabytes);
    for (int64_t micro_batches : {1, 2, 4, 8}) {
      PresetJob job = {"gpt2-1.5b", 1, 1024, micro_batches};
      job.order = AccumulationOrder::kVertical;
      const PresetRun run = RunWith(job, gigabytes);
      if (run.status.ok()) {
        std::printf(" %.2f | %.2f |", ModelBytes(run.report.moved) / 1e9,
                    run.report.bound.model() / 1e9);
      } else {
        std::printf(" does not fit | |");
      }
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void SweepUpdates() {
  std::printf(
      "\nWhole and layer-wise updates of gpt2-1.5b, 1 x 1024 tokens, 6 GB of device:\n\n"
      "| updates | host GB | peak of host GB | on disk GB | seconds |\n"
      "| --- | --- | --- | --- | --- |\n");
  for (UpdateTime update : {UpdateTime::kWhole, UpdateTime::kLayerwise}) {
    for (double host : {64.0, 13.0}) {
      PresetJob job = {"gpt2-1.5b", 1, 1024, 1};
      job.update = update;
      const PresetRun run =
          RunWith(job, 6, static_cast<int64_t>(host * 1e9), /*disk=*/60'000'000'000);
      if (!run.status.ok()) {
        std::printf("| %s | %.0f | does not fit | | |\n", Name(update).data(), host);
        continue;
      }
      std::printf("| %s | %.0f | %.2f | %.2f | %.2f |\n", Name(update).data(), host,
                  run.report.tiers[1].peak / 1e9, run.report.tiers[2].homes / 1e9, run.seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace colossus

int main() {
  colossus::SweepRecomputation();
  colossus::SweepMicroBatches();
  colossus::SweepUpdates();
}
