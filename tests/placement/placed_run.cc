#include "tests/placement/placed_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "gemini/memory_bound.h"
#include "tensor/exec/device.h"
#include "tensor/exec/testing/memory_disk.h"
#include "tests/placement/recording_placer.h"

namespace colossus {

std::string Caps::ToString() const {
  return absl::StrCat("device ", absl::StrJoin(device, " "), ", host ", host, ", disk ", disk, ", ",
                      Name(policy));
}

LayoutRun Capped(LayoutRun run, const Caps& caps, uint64_t seed) {
  run.device = [caps, seed](int rank, KernelList kernels) {
    absl::StatusOr<std::unique_ptr<Device>> device =
        NewCappedDevice({.memory_bytes = caps.DeviceOf(rank),
                         .threads = 1,
                         .kernels = std::move(kernels),
                         .late_seed = seed + static_cast<uint64_t>(rank)});
    CHECK_OK(device.status());
    return *std::move(device);
  };
  run.change_options = [caps](int, TrainingOptions& options) {
    // Caps differ from rank to rank; borders do not go by them.
    options.pipeline.device_bytes = INT64_MAX;
    ProgramOptions& program = options.compile.program;
    program.placer = std::make_shared<GeminiPlacer>(GeminiOptions{.policy = caps.policy});
    program.place_only_what_does_not_fit = caps.place_only_what_does_not_fit;
    program.host_memory_bytes = caps.host;
    if (caps.disk == 0) return;
    program.disk_memory_bytes = caps.disk;
    program.disk = std::make_shared<MemoryDisk>(caps.disk);
  };
  return run;
}

std::vector<StepTrace> TracesOf(const LayoutRun& on_host) {
  LayoutRun run = Capped(on_host, {.device = {int64_t{1} << 30}}, 0);
  run.updates = 0;
  std::vector<std::shared_ptr<RecordingPlacer>> placers;
  for (int rank = 0; rank < run.plan.ranks(); ++rank) {
    placers.push_back(
        std::make_shared<RecordingPlacer>(std::make_shared<GeminiPlacer>(GeminiOptions())));
  }
  run.change_options = [&placers](int rank, TrainingOptions& options) {
    options.compile.program.placer = placers[static_cast<size_t>(rank)];
  };
  CHECK_OK(Train(run).status());
  std::vector<StepTrace> traces;
  for (const auto& placer : placers) traces.push_back(placer->trace());
  return traces;
}

int64_t PlainBytes(const StepTrace& trace) {
  int64_t bytes = 0;
  for (const TracedBuffer& buffer : trace.buffers) bytes += buffer.bytes;
  return bytes;
}

DeviceRange DeviceRangeOf(const LayoutRun& run) {
  DeviceRange range;
  for (const StepTrace& trace : TracesOf(run)) {
    range.bound.push_back(DeviceBound(trace).bytes);
    range.plain.push_back(std::max(PlainBytes(trace), 2 * range.bound.back()));
  }
  return range;
}

Caps OfBound(const DeviceRange& range, int percent) {
  Caps caps;
  for (int64_t bound : range.bound) caps.device.push_back(bound * percent / 100 / 64 * 64);
  return caps;
}

int64_t Between(int64_t least, int64_t end, std::mt19937_64& random) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(end - least));
}

}  // namespace colossus
