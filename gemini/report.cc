#include "gemini/report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensor/exec/disk_tier.h"
#include "tensor/exec/timeline.h"

namespace colossus {
namespace {

constexpr size_t kNamed = 5;

// 1,234,567
std::string Grouped(int64_t value) {
  std::string digits = absl::StrCat(value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

// Adds one more; only the largest stay.
void KeepLargest(std::vector<Contributor>& largest, Contributor one) {
  largest.push_back(std::move(one));
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Contributor& a, const Contributor& b) { return a.bytes > b.bytes; });
  if (largest.size() > kNamed) largest.resize(kNamed);
}

TierReport ReportTier(const StepTrace& trace, const Placement& placement, Tier tier,
                      int64_t capacity) {
  TierReport report;
  report.capacity = capacity;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const TracedBuffer& buffer = trace.buffers[b];
    if (!buffer.role.has_value() || placement.home[b] != tier) continue;
    report.homes += buffer.bytes;
    KeepLargest(report.largest, {buffer.what, buffer.bytes});
  }
  std::vector<int64_t> change(trace.instructions.size() + 1, 0);
  for (const Stay& stay : placement.stays) {
    if (stay.tier != tier) continue;
    change[stay.first] += trace.buffers[stay.buffer].bytes;
    change[stay.last + 1] -= trace.buffers[stay.buffer].bytes;
  }
  report.peak = report.homes;
  int64_t now = report.homes;
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    now += change[i];
    if (now <= report.peak) continue;
    report.peak = now;
    report.instruction = static_cast<int64_t>(i);
  }
  for (const Stay& stay : placement.stays) {
    if (stay.tier != tier || stay.first > report.instruction || stay.last < report.instruction) {
      continue;
    }
    KeepLargest(report.largest,
                {trace.buffers[stay.buffer].what, trace.buffers[stay.buffer].bytes});
  }
  return report;
}

TierReport TierOf(int64_t capacity, int64_t homes, int64_t peak,
                  const std::vector<Contributor>& largest) {
  TierReport report;
  report.capacity = capacity;
  report.homes = homes;
  report.peak = peak;
  report.largest = largest;
  return report;
}

// What copies of the trace's buffers carry at least: they end where the values end, and buffers
// where the next one may begin.
std::vector<int64_t> BytesOfCopies(const MemoryPlan& plan, const StepTrace& trace) {
  std::map<std::string, int64_t> known;  // the least of those with one name
  auto learn = [&](const std::string& name, int64_t bytes) {
    auto [at, added] = known.try_emplace(name, bytes);
    if (!added) at->second = std::min(at->second, bytes);
  };
  for (const StateHome& home : plan.states) learn(home.info.name, home.type.bytes());
  for (const Instruction& instruction : plan.instructions) {
    const bool moves = instruction.kind == InstructionKind::kLoad ||
                       instruction.kind == InstructionKind::kStore;
    if (moves) learn(instruction.name, instruction.results[0].bytes);
  }
  std::vector<int64_t> copied;
  for (const TracedBuffer& buffer : trace.buffers) {
    const auto at = known.find(buffer.what);
    const bool same = at != known.end() && AlignedBytes(at->second) == buffer.bytes;
    copied.push_back(same ? at->second : std::max<int64_t>(0, buffer.bytes - AlignedBytes(1) + 1));
  }
  return copied;
}

void AddDiskBuffers(const Program& program, TierReport& host) {
  const std::shared_ptr<DiskTier>& disk = program.options().disk;
  if (disk == nullptr || disk->staging_bytes() == 0) return;
  host.peak += disk->staging_bytes();
  KeepLargest(host.largest, {"buffers of the disk", disk->staging_bytes()});
}

std::string MovedText(const MovedBytes& bytes) {
  std::string text;
  for (size_t kind = 0; kind < kMovedKinds; ++kind) {
    absl::StrAppend(&text, kind == 0 ? "" : ", ", Name(static_cast<Moved>(kind)), " ",
                    Grouped(bytes[kind]));
  }
  return text;
}

std::string PartsText(const HeldBytes& parts) {
  std::string text;
  for (size_t kind = 0; kind < kHeldKinds; ++kind) {
    if (parts[kind] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "  of it: " : ", ", Name(static_cast<Held>(kind)), " ",
                    Grouped(parts[kind]));
  }
  return text.empty() ? "" : text + "\n";
}

std::string CapacityText(int64_t bytes) {
  return bytes == INT64_MAX ? "any number of" : Grouped(bytes);
}

std::string BoundText(int64_t model, int64_t activations) {
  return absl::StrCat("; least ", Grouped(model), " and ", Grouped(activations),
                      " of activations\n");
}

}  // namespace

PlacementReport ReportPlacement(const StepTrace& trace, const Placement& placement,
                                const TierBytes& tiers, const PlacedTimeOptions& rates,
                                int phases) {
  PlacementReport report;
  const std::array<int64_t, 3> capacity = {tiers.device, tiers.host, tiers.disk};
  for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const size_t index = static_cast<size_t>(tier);
    report.tiers[index] = ReportTier(trace, placement, tier, capacity[index]);
  }
  const std::vector<TierTraffic> moved = PlacedTraffic(trace, placement);
  const std::vector<TrafficBound> bounds = BoundTraffic(trace, placement, tiers.device);
  const std::vector<int64_t> evictions = CountEvictions(trace, placement);
  for (size_t p = 0; p < moved.size(); ++p) {
    if (phases >= 0 && p >= static_cast<size_t>(phases)) break;
    report.moved += moved[p];
    report.bound += bounds[p];
    report.evictions += evictions[p];
  }
  report.least_device = DeviceBound(trace);
  report.time = TimePlacement(trace, placement, rates);
  return report;
}

PlacementReport ReportProgram(Program& program, absl::Span<const int> phases) {
  const MemoryPlan& plan = program.plan();
  const ProgramOptions& options = program.options();
  PlacementReport report;
  report.tiers = {
      TierOf(program.device().capacity_bytes(), plan.state_bytes, plan.device_bytes,
             plan.contributors),
      TierOf(options.host_memory_bytes, plan.host_state_bytes, plan.host_bytes,
             plan.host_contributors),
      TierOf(options.disk_memory_bytes, plan.disk_state_bytes, plan.disk_bytes,
             plan.disk_contributors)};
  const std::array<HeldBytes, 3> parts = PeakParts(program);
  for (size_t tier = 0; tier < parts.size(); ++tier) report.tiers[tier].parts = parts[tier];
  const PhaseTime time = PredictPhases(program, phases);
  report.time = {time.seconds, time.seconds - time.exposed_transfer, time.transfer};
  if (!plan.placed) return report;
  AddDiskBuffers(program, report.tiers[static_cast<size_t>(Tier::kHost)]);
  const PlacedStep& step = *plan.placed_step;
  const std::vector<TrafficBound> bounds = BoundTraffic(
      step.trace, step.placement, step.tiers.device, BytesOfCopies(plan, step.trace));
  const std::vector<int64_t> evictions = CountEvictions(step.trace, step.placement);
  for (const int phase : phases) {
    report.moved += TrafficOf(plan, phase);
    report.bound += bounds[static_cast<size_t>(phase)];
    report.evictions += evictions[static_cast<size_t>(phase)];
  }
  report.least_device = DeviceBound(step.trace);
  return report;
}

std::string ToText(const PlacementReport& report) {
  std::string text;
  for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const TierReport& of = report.tiers[static_cast<size_t>(tier)];
    absl::StrAppend(&text, Name(tier), ": peak ", Grouped(of.peak), " of ",
                    CapacityText(of.capacity), " bytes, ", Grouped(of.homes), " of them homes");
    if (tier == Tier::kDevice && report.least_device.bytes > 0) {
      absl::StrAppend(&text, "; no cap below ", Grouped(report.least_device.bytes));
    }
    absl::StrAppend(&text, "\n", PartsText(of.parts));
    for (const Contributor& one : of.largest) {
      absl::StrAppend(&text, "  ", Grouped(one.bytes), "  ", one.what, "\n");
    }
  }
  absl::StrAppend(&text, "to device: ", MovedText(report.moved.host_to_device),
                  BoundText(report.bound.model_to_device, report.bound.activations_to_device));
  absl::StrAppend(&text, "to host: ", MovedText(report.moved.device_to_host),
                  BoundText(report.bound.model_to_host, report.bound.activations_to_host));
  absl::StrAppend(&text, "from disk: ", MovedText(report.moved.disk_read), "\n");
  absl::StrAppend(&text, "to disk: ", MovedText(report.moved.disk_written), "\n");
  absl::StrAppendFormat(&text, "evictions: %d; %.1f %% of copy time hidden, %.3f s a step\n",
                        report.evictions, 100 * report.time.hidden(), report.time.seconds);
  return text;
}

}  // namespace colossus
