#include "gemini/placed_time.h"

#include <algorithm>
#include <array>
#include <vector>

namespace colossus {
namespace {

enum Stream { kCompute, kLink, kHostStream, kIn, kOut, kDiskIn, kDiskOut, kStreams };

class Simulation {
 public:
  Simulation(const StepTrace& trace, const Placement& placement, double link_seconds_per_byte,
             double disk_seconds_per_byte)
      : trace_(trace),
        placement_(placement),
        link_(link_seconds_per_byte),
        disk_(disk_seconds_per_byte),
        made_(trace.buffers.size(), {0, 0, 0}),
        begins_(trace.instructions.size()),
        stores_(begins_) {
    for (Tier tier : {Tier::kHost, Tier::kDevice}) {
      for (size_t s = 0; s < placement.stays.size(); ++s) {
        const Stay& stay = placement.stays[s];
        if (stay.tier == tier && stay.load) begins_[stay.first].push_back(s);
      }
    }
    for (Tier tier : {Tier::kDevice, Tier::kHost}) {
      for (size_t s = 0; s < placement.stays.size(); ++s) {
        const Stay& stay = placement.stays[s];
        if (stay.tier == tier && stay.store_after >= 0) stores_[stay.store_after].push_back(s);
      }
    }
  }

  double Run() {
    size_t t = 0;
    double total = 0;
    for (size_t p = 0; p < trace_.phase_end.size(); ++p) {
      for (double& stream : ready_) stream = std::max(stream, total);
      before_ = total;
      for (; t < trace_.phase_end[p]; ++t) {
        for (size_t s : begins_[t]) Load(s);
        Step(t);
        for (size_t s : stores_[t]) Store(s);
      }
      // Copies in for a phase that follows go on.
      for (size_t s = 0; s < kStreams; ++s) {
        const bool outlasts = Follows(trace_, p + 1) && (s == kIn || s == kDiskIn);
        if (!outlasts) total = std::max(total, ready_[s]);
      }
    }
    return total;
  }

  double copying() const { return copying_; }

 private:
  static constexpr size_t Index(Tier tier) { return static_cast<size_t>(tier); }

  double CopySeconds(size_t s) {
    const Stay& stay = placement_.stays[s];
    const double seconds =
        trace_.buffers[stay.buffer].bytes * (stay.tier == Tier::kDevice ? link_ : disk_);
    copying_ += seconds;
    return seconds;
  }

  void Load(size_t s) {
    const Stay& stay = placement_.stays[s];
    auto& made = made_[stay.buffer];
    double& stream = ready_[stay.tier == Tier::kDevice ? kIn : kDiskIn];
    stream = std::max({stream, made[Index(stay.tier) + 1], before_}) + CopySeconds(s);
    made[Index(stay.tier)] = stream;
  }

  void Store(size_t s) {
    const Stay& stay = placement_.stays[s];
    auto& made = made_[stay.buffer];
    double& stream = ready_[stay.tier == Tier::kDevice ? kOut : kDiskOut];
    stream = std::max(stream, made[Index(stay.tier)]) + CopySeconds(s);
    made[Index(stay.tier) + 1] = stream;
  }

  void Step(size_t t) {
    const TracedInstruction& instruction = trace_.instructions[t];
    const bool host = placement_.on_host[t];
    const size_t tier = host ? Index(Tier::kHost) : Index(Tier::kDevice);
    double& stream = ready_[host ? kHostStream : instruction.link ? kLink : kCompute];
    double start = stream;
    if (instruction.link && !host) start = std::max(start, ready_[kCompute]);
    for (const TracedUse& use : instruction.uses) {
      if (!use.overwrites) start = std::max(start, made_[use.buffer][tier]);
    }
    before_ = std::max(before_, start);
    stream = start + (host ? instruction.host_seconds : instruction.seconds);
    for (const TracedUse& use : instruction.uses) {
      if (use.writes) made_[use.buffer][tier] = stream;
    }
  }

  const StepTrace& trace_;
  const Placement& placement_;
  const double link_, disk_;
  std::array<double, kStreams> ready_{};
  std::vector<std::array<double, 3>> made_;  // per buffer and tier: when its value is there
  std::vector<std::vector<size_t>> begins_, stores_;  // per instruction: stays
  double before_ = 0;                                 // when the latest instruction began
  double copying_ = 0;
};

}  // namespace

double PlacedTime::hidden() const {
  return copying > 0 ? std::clamp(1 - (seconds - without_copies) / copying, 0.0, 1.0) : 1;
}

PlacedTime TimePlacement(const StepTrace& trace, const Placement& placement,
                         const PlacedTimeOptions& options) {
  auto per_byte = [](double rate) { return rate > 0 ? 1 / rate : 0; };
  PlacedTime time;
  Simulation with(trace, placement, per_byte(options.link_bytes_per_second),
                  per_byte(options.disk_bytes_per_second));
  time.seconds = with.Run();
  time.copying = with.copying();
  time.without_copies = Simulation(trace, placement, 0, 0).Run();
  return time;
}

}  // namespace colossus
