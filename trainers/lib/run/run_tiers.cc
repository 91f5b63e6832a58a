#include "trainers/lib/run/run_tiers.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/launcher.h"
#include "gemini/placement.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "tensor/exec/disk/null_disk_tier.h"
#include "trainers/lib/ranks/run_device.h"
#include "trainers/lib/report/progress.h"

namespace colossus {
namespace {

// Of what the system has left; the rest is for the program itself and its libraries.
constexpr double kShareOfAvailable = 0.85;

// What a rank may take of the machine's memory for the host tier.
int64_t HostMemory(const Options& options, int ranks, const Device& device) {
  if (options.run.host_memory > 0) return options.run.host_memory / ranks;
  const int64_t available = AvailableHostBytes();
  if (!device.computes() || available == INT64_MAX) return INT64_MAX;
  // The capped device's memory is part of the same machine's.
  const int64_t own = device.kind() == DeviceKind::kCapped ? device.capacity_bytes() : 0;
  const auto share = static_cast<int64_t>(kShareOfAvailable * static_cast<double>(available));
  return std::max<int64_t>(0, share / ranks - own);
}

// Whether the disk's own buffers leave anything.
absl::Status CheckBuffers(const ProgramOptions& program, int ranks) {
  const int64_t buffers = program.disk->staging_bytes();
  if (buffers <= program.host_memory_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "run.host_memory gives a rank ", BytesText(program.host_memory_bytes), ", less than the ",
      BytesText(buffers),
      " through which the disk is read and written; give at least --host_memory=", buffers * ranks,
      " and what passes through it"));
}

// Empty: there is none.
absl::StatusOr<std::string> AddDisk(const Options& options, int ranks, const Device& device,
                                    const FileDiskTierOptions& offload, ProgramOptions* program) {
  const Options::Run& run = options.run;
  if (!device.computes()) {
    program->disk_memory_bytes = run.disk_memory / ranks;
    if (program->disk_memory_bytes == 0) return "";
    program->disk = NewNullDiskTier(program->disk_memory_bytes);
    RETURN_IF_ERROR(CheckBuffers(*program, ranks));
    return absl::StrCat(", ", BytesText(program->disk_memory_bytes), " of disk");
  }
  if (run.offload_dir.empty()) return "";
  absl::StatusOr<std::unique_ptr<FileDiskTier>> disk = NewFileDiskTier(run.offload_dir, offload);
  if (!disk.ok()) return Annotate(disk.status(), "--offload_dir");
  program->disk_memory_bytes = (*disk)->capacity_bytes() / ranks;
  const std::string text = absl::StrCat(", ", BytesText(program->disk_memory_bytes), " of disk in ",
                                        run.offload_dir, " by ", (*disk)->method());
  program->disk = *std::move(disk);
  RETURN_IF_ERROR(CheckBuffers(*program, ranks));
  return text;
}

void SetRates(const Options::Run& run, ProgramOptions* program) {
  program->rates = DeclaredRates(run);
  if (run.host_gbps > 0) program->host_rates.bytes_per_second = run.host_gbps * 1e9;
  if (run.link_gbps > 0) program->transfer_rates.link_bytes_per_second = run.link_gbps * 1e9;
}

}  // namespace

absl::StatusOr<std::string> AddTiers(const Options& options, int ranks, const Device& device,
                                     ProgramOptions* program, const FileDiskTierOptions& offload) {
  if (device.kind() == DeviceKind::kHost) return "";
  const Launched launched = LaunchedProcess();
  if (launched.ranks > 1) ranks = launched.local_ranks;
  GeminiOptions gemini;
  ASSIGN_OR_RETURN(gemini.policy, ParsePlacementPolicy(options.plan.placement));
  SetRates(options.run, program);
  gemini.link_bytes_per_second = program->transfer_rates.link_bytes_per_second;
  gemini.disk_bytes_per_second = std::min(program->transfer_rates.disk_read_bytes_per_second,
                                          program->transfer_rates.disk_write_bytes_per_second);
  program->placer = std::make_shared<GeminiPlacer>(gemini);
  program->place_only_what_does_not_fit = gemini.policy == PlacementPolicy::kAuto;
  program->host_memory_bytes = HostMemory(options, ranks, device);
  ASSIGN_OR_RETURN(const std::string disk, AddDisk(options, ranks, device, offload, program));
  const bool bounded = program->host_memory_bytes < INT64_MAX;
  return absl::StrCat("tiers: a rank may use ",
                      bounded ? BytesText(program->host_memory_bytes) : "any amount",
                      " of host memory", disk, "; placement ", Name(gemini.policy));
}

absl::Status ReopenDisk(const Options& options, const FileDiskTierOptions& offload,
                        ProgramOptions* program) {
  if (program->disk == nullptr || options.run.offload_dir.empty()) return absl::OkStatus();
  program->disk.reset();  // its space is free before it is taken again
  absl::StatusOr<std::unique_ptr<FileDiskTier>> disk =
      NewFileDiskTier(options.run.offload_dir, offload);
  if (!disk.ok()) return Annotate(disk.status(), "--offload_dir");
  program->disk = *std::move(disk);
  return absl::OkStatus();
}

absl::Status AgreeOnTiers(RankGroup group, ProgramOptions* program) {
  if (program->placer == nullptr) return absl::OkStatus();  // on no rank
  std::vector<int64_t> numbers = {-program->host_memory_bytes, -program->disk_memory_bytes};
  RETURN_IF_ERROR(group.MaxOfEach(numbers, "tiers"));
  program->host_memory_bytes = -numbers[0];
  program->disk_memory_bytes = -numbers[1];
  return absl::OkStatus();
}

absl::Status NameTiers(const absl::Status& refusal, const Options& options,
                       const ProgramOptions& program) {
  if (!absl::IsResourceExhausted(refusal)) return refusal;
  std::string message(refusal.message());
  const int64_t host = options.run.host_memory;
  if (absl::StrContains(message, "the host ") && host > program.host_memory_bytes) {
    absl::StrAppend(&message, " (of the ", host, " bytes of run.host_memory each rank has ",
                    program.host_memory_bytes, ", so that it takes ",
                    host / std::max<int64_t>(1, program.host_memory_bytes),
                    " times what a rank needs)");
  }
  if (program.disk != nullptr) {
    const bool planned = options.run.offload_dir.empty();
    absl::StrAppend(&message, " (the disk is ",
                    planned ? "run.disk_memory" : "run.offload_dir=" + options.run.offload_dir,
                    ", where a rank may take ", program.disk_memory_bytes,
                    " bytes that are free; its buffers take ", program.disk->staging_bytes(),
                    " bytes of that host memory)");
  } else if (absl::StrContains(message, "with a disk ")) {
    absl::StrAppend(&message, " (--offload_dir, or --disk of a plan; its buffers take ",
                    StagingBytes({}), " bytes of host memory)");
  }
  return absl::ResourceExhaustedError(message);
}

int64_t AvailableHostBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    std::getline(file, name);
  }
  return INT64_MAX;
}

}  // namespace colossus
