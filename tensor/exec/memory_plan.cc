#include "tensor/exec/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/late_waits.h"
#include "tensor/exec/place_step.h"
#include "tensor/exec/plan_offsets.h"
#include "tensor/exec/range_waits.h"
#include "tensor/exec/step_storage.h"
#include "tensor/exec/step_trace.h"
#include "tensor/exec/stream_waits.h"

namespace colossus {
namespace {

constexpr int kMostPlacements = 10, kExactPlacements = 3;
// Gaps grow by this part of the device where less changes nothing.
constexpr int64_t kGapsPart = 256;

// Takes off `tiers` what the plan of try `tried` needs beyond `limits`, of host and disk ever more
// where that has not helped: as much again may be lost between buffers. Returns whether there was
// any.
bool TakeExcess(const MemoryPlan& plan, const TierBytes& limits, int tried, TierBytes& tiers) {
  const int64_t times = int64_t{1} << 2 * std::max(0, tried - kExactPlacements + 1);
  auto excess = [](int64_t need, int64_t limit) {
    return need <= limit ? 0 : AlignedBytes(need - limit);
  };
  const int64_t device = excess(plan.device_bytes, limits.device);
  const int64_t host = excess(plan.host_bytes, limits.host);
  const int64_t disk = excess(plan.disk_bytes, limits.disk);
  tiers.gaps += device;
  tiers.host -= host * times;
  tiers.disk -= disk * times;
  return device + host + disk > 0;
}

bool SameStays(const Placement& a, const Placement& b) {
  auto key = [](const Stay& stay) {
    return std::tie(stay.buffer, stay.tier, stay.first, stay.last, stay.load, stay.store_after);
  };
  return a.home == b.home && std::equal(a.stays.begin(), a.stays.end(), b.stays.begin(),
                                        b.stays.end(), [&](const Stay& x, const Stay& y) {
                                          return key(x) == key(y);
                                        });
}

void KeepHomes(const MemoryPlan& plan, StepTrace& trace) {
  for (TracedBuffer& buffer : trace.buffers) {
    if (!buffer.role.has_value()) continue;
    buffer.home = plan.FindState(buffer.what)->range.tier;
  }
}

void SetTimes(const StepTimes& times, StepTrace& trace) {
  for (size_t t = 0; t < trace.instructions.size(); ++t) {
    if (times.device[t] > 0) trace.instructions[t].seconds = times.device[t];
    if (times.host[t] > 0) trace.instructions[t].host_seconds = times.host[t];
  }
  trace.link_bytes_per_second = times.link;
  trace.disk_read_bytes_per_second = times.disk_read;
  trace.disk_write_bytes_per_second = times.disk_write;
}

std::string RangeText(const BufferRange& range) {
  return absl::StrCat(
      range.tier == Tier::kDevice ? " [" : absl::StrCat(" ", Name(range.tier), " ["), range.offset,
      ",", range.offset + range.bytes, ")");
}

void AppendContributors(const std::vector<Contributor>& contributors, std::string& message) {
  for (const Contributor& contributor : contributors) {
    absl::StrAppend(&message, "\n  ", contributor.bytes, " bytes  ", contributor.what);
  }
}

absl::Status CheckTier(absl::string_view tier, int64_t need, int64_t capacity, int64_t state_bytes,
                       const std::vector<Contributor>& contributors) {
  if (need <= capacity) return absl::OkStatus();
  std::string message = absl::StrCat("the ", tier, " has ", capacity, " bytes, the plan needs ",
                                     need, " (", state_bytes, " of state). Largest at the peak:");
  AppendContributors(contributors, message);
  absl::StrAppend(&message, "\nIt would fit with a ", tier, " memory of ", need,
                  " bytes, or with a smaller micro-batch, a shorter sequence or recomputation.");
  return absl::ResourceExhaustedError(message);
}

}  // namespace

const StateHome* MemoryPlan::FindState(absl::string_view name) const {
  for (const StateHome& home : states) {
    if (home.info.name == name) return &home;
  }
  return nullptr;
}

absl::StatusOr<MemoryPlan> PlanMemory(const Step& step, const std::vector<Executable>& executables,
                                      bool overlap) {
  ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables, overlap));
  AddWaits(step, storage);
  MemoryPlan plan = PlanOffsets(std::move(storage));
  AddLateWaits(plan);
  return plan;
}

absl::StatusOr<MemoryPlan> PlanPlacedMemory(const Step& step,
                                            const std::vector<Executable>& executables,
                                            bool overlap, const Placer& placer,
                                            const TierBytes& tiers, const PlannedBefore& before) {
  ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables, overlap));
  AddWaits(step, storage);
  TracedStep traced = TraceStep(step, executables, storage);
  if (before.plan != nullptr) KeepHomes(*before.plan, traced.trace);
  if (before.times != nullptr) SetTimes(*before.times, traced.trace);
  TierBytes left = tiers;
  const int64_t feeds = DiskBytes(FeedStagingBytes(storage));
  left.staging += feeds;
  left.host -= feeds;
  const TierBytes all = left;
  MemoryPlan plan;
  Placement last;
  for (int tried = 0; tried < kMostPlacements; ++tried) {
    absl::StatusOr<Placement> placement = placer.Place(traced.trace, left);
    // With less than there is: then what did not fit side by side says more.
    if (!placement.ok()) return tried == 0 ? placement.status() : CheckFits(plan, tiers);
    RETURN_IF_ERROR(CheckPlacement(traced.trace, *placement));
    if (tried > 0 && SameStays(*placement, last)) {
      if (left.sparse) left.gaps = 2 * left.gaps + tiers.device / kGapsPart;
      left.sparse = true;
      continue;
    }
    plan = PlanOffsets(PlaceStep(traced, *placement, storage), &tiers);
    last = *std::move(placement);
    if (TakeExcess(plan, tiers, tried, left)) continue;
    plan.placed = true;
    plan.placed_step = std::make_shared<PlacedStep>(
        PlacedStep{std::move(traced.trace), all, std::move(last)});
    plan.outlasts.assign(plan.phase_end.size(), false);
    AddRangeWaits(plan);
    return plan;
  }
  return CheckFits(plan, tiers);
}

absl::string_view Name(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kFeed:
      return "feed";
    case InstructionKind::kKernel:
      return "kernel";
    case InstructionKind::kCopy:
      return "copy";
    case InstructionKind::kFetch:
      return "fetch";
    case InstructionKind::kLoad:
      return "load";
    case InstructionKind::kStore:
      return "store";
    case InstructionKind::kReadDisk:
      return "read";
    case InstructionKind::kWriteDisk:
      return "write";
  }
  CHECK(false) << "unknown instruction kind";
  return "";
}

absl::string_view Name(Moved moved) {
  switch (moved) {
    case Moved::kParameters:
      return "parameters";
    case Moved::kGradients:
      return "gradients";
    case Moved::kStates:
      return "states";
    case Moved::kActivations:
      return "activations";
  }
  CHECK(false) << "unknown kind of what moves";
  return "";
}

int64_t Total(const MovedBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

TierTraffic& TierTraffic::operator+=(const TierTraffic& other) {
  for (size_t i = 0; i < kMovedKinds; ++i) {
    host_to_device[i] += other.host_to_device[i];
    device_to_host[i] += other.device_to_host[i];
    disk_read[i] += other.disk_read[i];
    disk_written[i] += other.disk_written[i];
  }
  return *this;
}

TierTraffic TrafficOf(const MemoryPlan& plan, int phase) {
  TierTraffic traffic;
  for (size_t t = phase == 0 ? 0 : plan.phase_end[phase - 1]; t < plan.phase_end[phase]; ++t) {
    const Instruction& instruction = plan.instructions[t];
    const size_t what = static_cast<size_t>(instruction.moved);
    switch (instruction.kind) {
      case InstructionKind::kLoad:
        traffic.host_to_device[what] += instruction.results[0].bytes;
        break;
      case InstructionKind::kStore:
        traffic.device_to_host[what] += instruction.results[0].bytes;
        break;
      case InstructionKind::kReadDisk:
        traffic.disk_read[what] += instruction.results[0].bytes;
        break;
      case InstructionKind::kWriteDisk:
        traffic.disk_written[what] += instruction.results[0].bytes;
        break;
      default:
        break;
    }
  }
  return traffic;
}

absl::string_view Name(StepStream stream) {
  static constexpr absl::string_view kNames[] = {"compute", "link",    "in",      "out",
                                                 "host",    "disk_in", "disk_out"};
  return kNames[static_cast<size_t>(stream)];
}

StepStream StreamOf(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kLoad:
      return StepStream::kIn;
    case InstructionKind::kStore:
      return StepStream::kOut;
    case InstructionKind::kReadDisk:
      return StepStream::kDiskIn;
    case InstructionKind::kWriteDisk:
      return StepStream::kDiskOut;
    default:
      break;
  }
  if (instruction.on_host) return StepStream::kHost;
  return instruction.link ? StepStream::kLink : StepStream::kCompute;
}

std::string ToText(const MemoryPlan& plan) {
  std::string text = absl::StrCat("device ", plan.device_bytes, " bytes, ", plan.state_bytes,
                                  " of state; host ", plan.host_bytes, " bytes");
  if (plan.placed) {
    absl::StrAppend(&text, ", ", plan.host_state_bytes, " of state; disk ", plan.disk_bytes,
                    " bytes, ", plan.disk_state_bytes, " of state");
  }
  absl::StrAppend(&text, "\n");
  for (const StateHome& home : plan.states) {
    absl::StrAppend(&text, "state ", home.info.name, " ", Name(home.info.role), " ",
                    ToString(home.type), RangeText(home.range), "\n");
  }
  size_t phase = 0;
  for (size_t t = 0; t < plan.instructions.size(); ++t) {
    for (; phase < plan.phase_end.size() && (phase == 0 || plan.phase_end[phase - 1] <= t);
         ++phase) {
      absl::StrAppend(&text, "phase ", phase, "\n");
    }
    const Instruction& instruction = plan.instructions[t];
    absl::StrAppend(&text, t, " ", Name(instruction.kind), " ", instruction.name);
    if (instruction.micro_batch >= 0) absl::StrAppend(&text, ".", instruction.micro_batch);
    for (const BufferRange& r : instruction.operands) absl::StrAppend(&text, RangeText(r));
    if (!instruction.results.empty()) absl::StrAppend(&text, " ->");
    for (const BufferRange& r : instruction.results) absl::StrAppend(&text, RangeText(r));
    if (instruction.workspace.bytes > 0) {
      absl::StrAppend(&text, " workspace", RangeText(instruction.workspace));
    }
    if (instruction.link) absl::StrAppend(&text, " on link");
    if (instruction.on_host) absl::StrAppend(&text, " on host");
    if (instruction.wait >= 0) absl::StrAppend(&text, " after ", instruction.wait);
    for (int late : instruction.late_waits) absl::StrAppend(&text, " after late ", late);
    for (int wait : instruction.waits) absl::StrAppend(&text, " after ", wait);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

absl::Status CheckFits(const MemoryPlan& plan, int64_t capacity_bytes) {
  return CheckTier("device", plan.device_bytes, capacity_bytes, plan.state_bytes,
                   plan.contributors);
}

absl::Status CheckFits(const MemoryPlan& plan, const TierBytes& tiers) {
  RETURN_IF_ERROR(CheckFits(plan, tiers.device));
  RETURN_IF_ERROR(CheckTier("host", plan.host_bytes + tiers.staging, tiers.host + tiers.staging,
                            plan.host_state_bytes, plan.host_contributors));
  return CheckTier("disk", plan.disk_bytes, tiers.disk, plan.disk_state_bytes,
                   plan.disk_contributors);
}

}  // namespace colossus
