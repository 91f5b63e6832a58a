#include "tensor/exec/timeline.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

// nullptr: no kernel.
const CompiledNode* NodeOf(const Program& program, const Instruction& instruction) {
  if (instruction.kind != InstructionKind::kKernel) return nullptr;
  const Call& call = program.step().calls[instruction.call];
  return &program.executables()[call.segment].nodes[instruction.node];
}

bool Communicates(const Program& program, const Instruction& instruction) {
  if (instruction.link) return true;
  if (instruction.kind != InstructionKind::kKernel) return false;
  const Call& call = program.step().calls[instruction.call];
  return program.step().segments[call.segment].link ||
         IsCollective(*program.step().graph_of(call).node(instruction.node).op);
}

double MoveSeconds(const Program& program, const Instruction& instruction) {
  const TransferRates& declared = program.options().transfer_rates;
  const StepTimes& measured = program.measured();
  auto seconds = [&](double rate_measured, double rate) {
    return static_cast<double>(instruction.results[0].bytes) /
           (rate_measured > 0 ? rate_measured : rate);
  };
  switch (instruction.kind) {
    case InstructionKind::kReadDisk:
      return seconds(measured.disk_read, declared.disk_read_bytes_per_second);
    case InstructionKind::kWriteDisk:
      return seconds(measured.disk_write, declared.disk_write_bytes_per_second);
    default:
      return seconds(measured.link, declared.link_bytes_per_second);
  }
}

// Where the instruction runs: as measured, else as predicted.
double RunSeconds(const Program& program, const Instruction& instruction) {
  const StepTimes& measured = program.measured();
  const std::vector<double>& there = instruction.on_host ? measured.host : measured.device;
  const size_t traced = static_cast<size_t>(instruction.traced);
  if (instruction.traced >= 0 && traced < there.size() && there[traced] > 0) return there[traced];
  const CompiledNode* node = NodeOf(program, instruction);
  if (node == nullptr) return 0;
  return instruction.on_host ? node->host_seconds : node->seconds;
}

bool IsMove(const Instruction& instruction) { return instruction.kind >= InstructionKind::kLoad; }

// What takes no time.
enum class Free { kNothing, kTransfers, kTransfersAndHost };

// Runs the streams of a program in time.
class Clockwork {
 public:
  Clockwork(const Program& program, Free free)
      : program_(program),
        plan_(program.plan()),
        what_is_free_(free),
        finished_(plan_.instructions.size(), 0) {}

  void Run(int phase) {
    const size_t begin = phase == 0 ? 0 : plan_.phase_end[phase - 1];
    // The host has waited for compute; of placed plans, for all streams but those that outlast.
    double start = at(StepStream::kCompute);
    for (size_t s = 0; plan_.placed && s < free_.size(); ++s) {
      const bool outlasts = plan_.follows[phase] && OutlastsPhase(static_cast<StepStream>(s));
      if (!outlasts) start = std::max(start, free_[s]);
    }
    for (double& stream : free_) stream = std::max(stream, start);
    for (size_t t = begin; t < plan_.phase_end[phase]; ++t) Run(t);
    double& compute = at(StepStream::kCompute);
    if (!plan_.outlasts[phase]) compute = std::max(compute, at(StepStream::kLink));
  }

  PhaseTime time() {
    time_.seconds = *std::max_element(free_.begin(), free_.end());
    return time_;
  }

 private:
  double& at(StepStream stream) { return free_[static_cast<size_t>(stream)]; }

  void Run(size_t t) {
    const Instruction& instruction = plan_.instructions[t];
    double& stream = at(StreamOf(instruction));
    auto wait = [&](int for_whom) {
      stream = std::max(stream, finished_[static_cast<size_t>(for_whom)]);
    };
    if (instruction.wait >= 0) wait(instruction.wait);
    for (int late : instruction.late_waits) wait(late);
    for (int other : instruction.waits) wait(other);
    stream += Count(instruction);
    finished_[t] = stream;
  }

  // What the instruction takes, which is added to its sum.
  double Count(const Instruction& instruction) {
    double seconds = 0;
    if (IsMove(instruction)) {
      if (what_is_free_ == Free::kNothing) seconds = MoveSeconds(program_, instruction);
      time_.transfer += seconds;
      return seconds;
    }
    if (!instruction.on_host || what_is_free_ != Free::kTransfersAndHost) {
      seconds = RunSeconds(program_, instruction);
    }
    double& sum = instruction.on_host                   ? time_.host
                  : Communicates(program_, instruction) ? time_.link
                                                        : time_.compute;
    sum += seconds;
    return seconds;
  }

  const Program& program_;
  const MemoryPlan& plan_;
  const Free what_is_free_;
  std::vector<double> finished_;             // by instruction
  std::array<double, kStepStreams> free_{};  // by stream: when it is
  PhaseTime time_;
};

PhaseTime RunPhases(const Program& program, absl::Span<const int> phases, int repeat, Free free) {
  Clockwork clockwork(program, free);
  for (int run = 0; run < repeat; ++run) {
    for (int phase : phases) clockwork.Run(phase);
  }
  return clockwork.time();
}

}  // namespace

PhaseTime PhaseTime::operator-(const PhaseTime& other) const {
  return {seconds - other.seconds,
          compute - other.compute,
          link - other.link,
          host - other.host,
          transfer - other.transfer,
          exposed_transfer - other.exposed_transfer,
          exposed_tiers - other.exposed_tiers};
}

PhaseTime PredictPhase(const Program& program, int phase) {
  const PhaseTime time = PredictPhases(program, {phase});
  return time;
}

PhaseTime PredictPhases(const Program& program, absl::Span<const int> phases, int repeat) {
  PhaseTime time = RunPhases(program, phases, repeat, Free::kNothing);
  if (program.plan().placed) {
    auto without = [&](Free free) {
      return time.seconds - RunPhases(program, phases, repeat, free).seconds;
    };
    time.exposed_transfer = without(Free::kTransfers);
    time.exposed_tiers = without(Free::kTransfersAndHost);
  }
  return time;
}

std::string ToText(const PhaseTime& time) {
  std::string text = absl::StrFormat(
      "%.3g s: %.3g s compute, %.3g s communication, %.3g s of it exposed (%.1f %%)", time.seconds,
      time.compute, time.link, time.exposed(),
      time.seconds > 0 ? 100 * time.exposed() / time.seconds : 0);
  if (time.transfer + time.host > 0) {
    absl::StrAppendFormat(&text,
                          "; %.3g s on the host, %.3g s of copies between tiers, %.1f %% hidden",
                          time.host, time.transfer, 100 * time.hidden_transfer_fraction());
  }
  return text;
}

}  // namespace colossus
