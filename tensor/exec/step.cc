#include "tensor/exec/step.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

// (output name, micro-batch) -> source.
using Outputs = absl::flat_hash_map<std::pair<std::string, int>, FeedSource>;

absl::StatusOr<Outputs> CollectOutputs(const Step& step) {
  Outputs outputs;
  for (size_t c = 0; c < step.calls.size(); ++c) {
    const Call& call = step.calls[c];
    for (const Output& output : step.graph_of(call).outputs()) {
      FeedSource source{static_cast<int>(c), output.value};
      if (!outputs.emplace(std::make_pair(output.name, call.micro_batch), source).second) {
        return absl::InvalidArgumentError(absl::StrCat(
            "step: '", output.name, "' of micro-batch ", call.micro_batch, " is made twice"));
      }
    }
  }
  return outputs;
}

const Carry* FindCarry(const StepSegment& segment, const std::string& feed) {
  for (const Carry& carry : segment.carries) {
    if (carry.feed == feed) return &carry;
  }
  return nullptr;
}

int MicroBatchOf(Carry::From from, int own, int last) {
  switch (from) {
    case Carry::From::kSame: return own;
    case Carry::From::kPrevious: return own - 1;
    case Carry::From::kLast: return last;
  }
  return own;
}

// Dependences between calls: edges[a] holds every b that must run after a.
class Dependences {
 public:
  explicit Dependences(size_t calls) : edges_(calls) {}
  void Add(int before, int after) {
    if (before != after && edges_[before].insert(after).second) ++count_[after];
  }
  // Smallest call index first among those that are ready. Shorter than all calls: a circle.
  std::vector<int> Order() {
    std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
    for (size_t c = 0; c < edges_.size(); ++c) {
      if (count_[static_cast<int>(c)] == 0) ready.push(static_cast<int>(c));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      int call = ready.top();
      ready.pop();
      order.push_back(call);
      for (int after : edges_[call]) {
        if (--count_[after] == 0) ready.push(after);
      }
    }
    return order;
  }

 private:
  std::vector<std::set<int>> edges_;
  std::map<int, int> count_;
};

void AddStateOrder(const Step& step, Dependences& dependences) {
  struct Uses {
    int writer = -1;
    std::vector<int> readers;  // since the writer
  };
  absl::flat_hash_map<std::string, Uses> uses;
  for (size_t c = 0; c < step.calls.size(); ++c) {
    int call = static_cast<int>(c);
    for (const State& state : step.graph_of(step.calls[c]).states()) {
      Uses& use = uses[state.info.name];
      if (use.writer >= 0) dependences.Add(use.writer, call);
      if (state.out == state.in) {
        use.readers.push_back(call);
        continue;
      }
      for (int reader : use.readers) dependences.Add(reader, call);
      use = {call, {}};
    }
  }
}

}  // namespace

int StepBuilder::AddSegment(StepSegment segment) {
  step_.segments.push_back(std::move(segment));
  return static_cast<int>(step_.segments.size()) - 1;
}

int StepBuilder::AddCall(int segment, int micro_batch, int phase) {
  CHECK(segment >= 0 && segment < static_cast<int>(step_.segments.size()));
  CHECK(phase >= 0 && phase < static_cast<int>(step_.phases.size()));
  Call call;
  call.segment = segment;
  call.micro_batch = micro_batch;
  call.phase = phase;
  step_.calls.push_back(std::move(call));
  return static_cast<int>(step_.calls.size()) - 1;
}

absl::Status StepBuilder::Bind() {
  ASSIGN_OR_RETURN(Outputs outputs, CollectOutputs(step_));
  int last = -1;
  for (const Call& call : step_.calls) last = std::max(last, call.micro_batch);
  for (Call& call : step_.calls) {
    const StepSegment& segment = step_.segments[call.segment];
    const Graph& graph = *segment.segment.graph;
    for (ValueId feed : graph.feeds()) {
      const std::string& name = graph.value(feed).name;
      const Carry* carry = FindCarry(segment, name);
      int micro_batch =
          carry == nullptr ? call.micro_batch : MicroBatchOf(carry->from, call.micro_batch, last);
      auto found = outputs.find({carry == nullptr ? name : carry->output, micro_batch});
      if (carry != nullptr && found == outputs.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("step: nothing makes '", carry->output, "' of micro-batch ", micro_batch,
                         " for '", name, "' of ", segment.segment.name));
      }
      call.sources.push_back(found == outputs.end() ? FeedSource{} : found->second);
    }
  }
  return absl::OkStatus();
}

absl::Status StepBuilder::Schedule() {
  Dependences dependences(step_.calls.size());
  AddStateOrder(step_, dependences);
  for (size_t c = 0; c < step_.calls.size(); ++c) {
    for (const FeedSource& source : step_.calls[c].sources) {
      if (source.call >= 0) dependences.Add(source.call, static_cast<int>(c));
    }
  }
  for (const auto& rule : rules_) dependences.Add(rule.first, rule.second);

  std::vector<int> order = dependences.Order();
  if (order.size() != step_.calls.size()) {
    return absl::InvalidArgumentError("step: the calls wait for each other in a circle");
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return step_.calls[a].phase < step_.calls[b].phase;
  });
  std::vector<int> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  std::vector<Call> calls;
  for (int old : order) {
    for (FeedSource& source : step_.calls[old].sources) {
      if (source.call < 0) continue;
      if (step_.calls[source.call].phase > step_.calls[old].phase) {
        return absl::InvalidArgumentError("step: a phase reads what a later phase makes");
      }
      source.call = position[source.call];
    }
    calls.push_back(step_.calls[old]);
  }
  step_.calls = std::move(calls);
  return absl::OkStatus();
}

absl::StatusOr<Step> StepBuilder::Build() && {
  RETURN_IF_ERROR(Bind());
  RETURN_IF_ERROR(Schedule());
  return std::move(step_);
}

}  // namespace colossus
