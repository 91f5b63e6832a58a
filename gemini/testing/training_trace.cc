#include "gemini/testing/training_trace.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

constexpr int64_t kScalarBytes = 64;

class Builder {
 public:
  explicit Builder(const TrainingTraceOptions& options) : options_(options) {}

  StepTrace Run() {
    MakeStates();
    for (int m = 0; m < options_.micro_batches; ++m) {
      Forward(m, /*keep=*/true);
      Backward(m);
    }
    EndPhase();
    Measure();
    Update();
    if (options_.validate) {
      Forward(-1, /*keep=*/false);
      EndPhase();
    }
    return std::move(trace_);
  }

 private:
  struct Parameter {
    int compute, master, moment1, moment2, gradient;
  };

  int Buffer(std::string what, int64_t bytes, std::optional<Role> role = std::nullopt) {
    trace_.buffers.push_back({std::move(what), bytes, role});
    made_.push_back(role.has_value());
    return static_cast<int>(trace_.buffers.size()) - 1;
  }

  void MakeStates() {
    const int64_t bytes = options_.parameter_bytes;
    for (int l = 0; l < options_.layers; ++l) {
      for (int p = 0; p < options_.parameters; ++p) {
        const std::string name = absl::StrCat("h.", l, ".w", p);
        Parameter parameter;
        parameter.compute = Buffer(name, bytes, Role::kParameter);
        parameter.master = Buffer(absl::StrCat(name, ".master"), 2 * bytes, Role::kMaster);
        parameter.moment1 = Buffer(absl::StrCat(name, ".m"), 2 * bytes, Role::kMoment1);
        parameter.moment2 = Buffer(absl::StrCat(name, ".v"), 2 * bytes, Role::kMoment2);
        parameter.gradient = Buffer(absl::StrCat("d.", name), bytes);
        parameters_.push_back(parameter);
      }
    }
  }

  int64_t now() const { return static_cast<int64_t>(trace_.instructions.size()); }
  void EndPhase() { trace_.phase_end.push_back(trace_.instructions.size()); }

  void Read(int buffer) { Use(buffer, true, false); }
  void Write(int buffer) { Use(buffer, false, true); }
  void Change(int buffer) { Use(buffer, true, true); }
  void Use(int buffer, bool reads, bool writes) {
    TracedUse use;
    use.buffer = buffer;
    use.reads = reads && made_[buffer];
    use.writes = writes;
    use.overwrites = writes && !use.reads;
    use.until = now() - 1;
    made_[buffer] = true;
    trace_.instructions.back().uses.push_back(use);
  }
  TracedInstruction& Add(double seconds) {
    TracedInstruction instruction;
    instruction.seconds = seconds;
    trace_.instructions.push_back(instruction);
    return trace_.instructions.back();
  }
  void AddOnHost(double seconds) {
    TracedInstruction& instruction = Add(seconds);
    instruction.may_run_on_host = true;
    instruction.host_seconds = seconds;
  }
  void Workspace() {
    if (options_.workspace_bytes > 0) Write(Buffer("workspace", options_.workspace_bytes));
  }

  void Forward(int micro_batch, bool keep) {
    saved_.clear();
    int x = Buffer(absl::StrCat("x.", micro_batch), options_.activation_bytes);
    AddOnHost(0);
    Write(x);
    for (size_t p = 0; p < parameters_.size(); ++p) {
      saved_.push_back(x);
      const int y = Buffer(absl::StrCat("h.", p, ".y.", micro_batch), options_.activation_bytes);
      Add(options_.seconds);
      Read(x);
      Read(parameters_[p].compute);
      Write(y);
      Workspace();
      x = y;
    }
    if (keep) return;
    AddOnHost(0);
    Read(x);
  }

  void Backward(int micro_batch) {
    int dx = Buffer(absl::StrCat("dloss.", micro_batch), options_.activation_bytes);
    Add(0);
    Write(dx);
    for (size_t p = parameters_.size(); p-- > 0;) {
      const int next =
          Buffer(absl::StrCat("h.", p, ".dx.", micro_batch), options_.activation_bytes);
      Add(2 * options_.seconds);
      Read(saved_[p]);
      Read(dx);
      Read(parameters_[p].compute);
      Write(next);
      Change(parameters_[p].gradient);
      Workspace();
      dx = next;
    }
  }

  void Measure() {
    const int total = Buffer("total", kScalarBytes);
    for (const Parameter& parameter : parameters_) {
      AddOnHost(options_.seconds / 100);
      Read(parameter.gradient);
      Change(total);
    }
    AddOnHost(0);
    Read(total);
    EndPhase();
  }

  void Update() {
    const int rate = Buffer("rate", kScalarBytes);
    AddOnHost(0);
    Write(rate);
    for (const Parameter& parameter : parameters_) {
      AddOnHost(options_.seconds / 10);
      Read(rate);
      Read(parameter.gradient);
      Change(parameter.master);
      Change(parameter.moment1);
      Change(parameter.moment2);
      Write(parameter.compute);
    }
    EndPhase();
  }

  const TrainingTraceOptions options_;
  StepTrace trace_;
  std::vector<bool> made_;  // per buffer: it has a value
  std::vector<Parameter> parameters_;
  std::vector<int> saved_;  // inputs of the forward instructions
};

}  // namespace

StepTrace TrainingTrace(const TrainingTraceOptions& options) { return Builder(options).Run(); }

StepTrace RandomTrace(std::mt19937_64& random) {
  auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  StepTrace trace;
  const int64_t buffers = 2 + below(20);
  for (int64_t b = 0; b < buffers; ++b) {
    TracedBuffer buffer;
    buffer.what = absl::StrCat("b", b);
    buffer.bytes = 64 * (1 + below(32));
    if (below(2) == 0) buffer.role = static_cast<Role>(below(7));
    trace.buffers.push_back(buffer);
  }
  std::vector<bool> made(buffers);
  for (int64_t b = 0; b < buffers; ++b) made[b] = trace.buffers[b].role.has_value();
  const int64_t phases = 1 + below(4);
  for (int64_t phase = 0; phase < phases; ++phase) {
    const int64_t begin = static_cast<int64_t>(trace.instructions.size());
    const int64_t end = begin + 1 + below(20);
    for (int64_t i = begin; i < end; ++i) {
      TracedInstruction instruction;
      instruction.seconds = below(4) * 1e-6;
      instruction.may_run_on_host = below(3) == 0;
      instruction.host_seconds = below(4) * 1e-6;
      instruction.link = !instruction.may_run_on_host && below(4) == 0;
      for (int64_t b = 0; b < buffers; ++b) {
        if (below(6) != 0) continue;
        TracedUse use;
        use.buffer = static_cast<int>(b);
        use.writes = !made[b] || below(2) == 0;
        use.reads = made[b] && (!use.writes || below(2) == 0);
        use.overwrites = use.writes && !use.reads && (!made[b] || below(2) == 0);
        use.until = instruction.link ? std::min(end - 1, i + below(4)) : i;
        made[b] = true;
        instruction.uses.push_back(use);
      }
      trace.instructions.push_back(instruction);
    }
    trace.phase_end.push_back(static_cast<size_t>(end));
  }
  return trace;
}

TierBytes PeakBytes(const StepTrace& trace, const Placement& placement) {
  TierBytes homes;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].role.has_value()) continue;
    (placement.home[b] == Tier::kDevice ? homes.device
     : placement.home[b] == Tier::kHost ? homes.host
                                        : homes.disk) += trace.buffers[b].bytes;
  }
  std::vector<int64_t> device(trace.instructions.size() + 1, 0), host(device);
  for (const Stay& stay : placement.stays) {
    std::vector<int64_t>& change = stay.tier == Tier::kDevice ? device : host;
    change[stay.first] += trace.buffers[stay.buffer].bytes;
    change[stay.last + 1] -= trace.buffers[stay.buffer].bytes;
  }
  TierBytes peak = homes;
  int64_t on_device = homes.device, on_host = homes.host;
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    peak.device = std::max(peak.device, on_device += device[i]);
    peak.host = std::max(peak.host, on_host += host[i]);
  }
  return peak;
}

}  // namespace colossus
