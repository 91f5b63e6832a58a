// Prints tables of docs/gemini.md: recomputation beside placement, micro-batches in turn, updates
// that are whole and layer by layer.
//
//   bazel run //tests/placement:sweep_plans
#include <cstdio>

#include "gemini/memory_bound.h"
#include "parallel/plan.h"
#include "tensor/exec/memory_plan.h"
#include "tests/placement/placed_preset.h"

namespace colossus {
namespace {

constexpr int64_t kHost = 64'000'000'000;

void SweepRecomputation() {
  std::printf(
      "gpt2-1.5b, 4 x 1024 tokens an update, seconds:\n\n"
      "| device GB | none | selective | block | optimal | auto |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (double gigabytes : {2.0, 6.0, 12.0, 24.0, 32.0}) {
    std::printf("| %.0f |", gigabytes);
    for (Recomputation way : {Recomputation::kNone, Recomputation::kSelective,
                              Recomputation::kBlock, Recomputation::kOptimal,
                              Recomputation::kAuto}) {
      PresetJob job = {"gpt2-1.5b", 4, 1024, 1};
      job.recomputation = way;
      const PresetRun run =
          RunPreset(job, {.device = static_cast<int64_t>(gigabytes * 1e9), .host = kHost});
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
  PresetJob job = {"gpt2-1.5b", 1, 1024, 1};
  const MemoryBound bound = DeviceBound(TraceOfPreset(job));
  std::printf(
      "\ngpt2-1.5b, micro-batches of 1 x 1024 tokens, vertical; one needs %.3f GB at least:\n\n"
      "| device GB | micro-batches | model GB | least GB | activations GB | least GB |\n"
      "| --- | --- | --- | --- | --- | --- |\n",
      bound.bytes / 1e9);
  for (double gigabytes : {1.0, 1.5, 2.0, 4.0, 6.0}) {
    for (int64_t micro_batches : {1, 2, 4, 8}) {
      job.micro_batches = micro_batches;
      job.order = AccumulationOrder::kVertical;
      const PresetRun run =
          RunPreset(job, {.device = static_cast<int64_t>(gigabytes * 1e9), .host = kHost});
      if (!run.status.ok()) {
        std::printf("| %.1f | %d | does not fit | | | |\n", gigabytes,
                    static_cast<int>(micro_batches));
        continue;
      }
      const TrafficBound& least = run.report.bound;
      std::printf("| %.1f | %d | %.2f | %.2f | %.2f | %.2f |\n", gigabytes,
                  static_cast<int>(micro_batches), ModelBytes(run.report.moved) / 1e9,
                  (least.model_to_device + least.model_to_host) / 1e9,
                  ActivationBytes(run.report.moved) / 1e9,
                  (least.activations_to_device + least.activations_to_host) / 1e9);
      std::fflush(stdout);
    }
  }
}

void SweepUpdates() {
  std::printf(
      "\ngpt2-1.5b, 1 x 1024 tokens, device of 6 GB, host of 64 and of 13 GB with a disk of "
      "60:\n\n"
      "| updates | host GB | peak of host GB | on disk GB | read GB | seconds |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (UpdateTime update : {UpdateTime::kWhole, UpdateTime::kLayerwise}) {
    for (double host : {64.0, 13.0}) {
      PresetJob job = {"gpt2-1.5b", 1, 1024, 1};
      job.update = update;
      const PresetRun run = RunPreset(job, {.device = 6'000'000'000,
                                            .host = static_cast<int64_t>(host * 1e9),
                                            .disk = 60'000'000'000});
      if (!run.status.ok()) {
        std::printf("| %s | %.0f | does not fit | | | |\n", Name(update).data(), host);
        continue;
      }
      std::printf("| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", Name(update).data(), host,
                  run.report.tiers[1].peak / 1e9, run.report.tiers[2].homes / 1e9,
                  Total(run.report.moved.disk_read) / 1e9, run.seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace colossus

int main() {
  colossus::SweepUpdates();
  colossus::SweepMicroBatches();
  colossus::SweepRecomputation();
}
