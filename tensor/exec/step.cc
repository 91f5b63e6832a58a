#include "tensor/exec/step.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/list_scheduler.h"

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

void AddStateOrder(const Step& step, ListScheduler& scheduler) {
  struct Uses {
    int writer = -1;
    std::vector<int> readers;  // since the writer
  };
  absl::flat_hash_map<std::string, Uses> uses;
  for (size_t c = 0; c < step.calls.size(); ++c) {
    int call = static_cast<int>(c);
    for (const State& state : step.graph_of(step.calls[c]).states()) {
      Uses& use = uses[state.info.name];
      if (use.writer >= 0) scheduler.MustRunBefore(use.writer, call);
      if (state.out == state.in) {
        use.readers.push_back(call);
        continue;
      }
      for (int reader : use.readers) scheduler.MustRunBefore(reader, call);
      use = {call, {}};
    }
  }
}

// "h.3 of micro-batch 2"
std::string NameOf(const Step& step, int c) {
  const Call& call = step.calls[c];
  const std::string& segment = step.segments[call.segment].segment.name;
  return call.micro_batch < 0 ? segment
                              : absl::StrCat(segment, " of micro-batch ", call.micro_batch);
}

// The calls that are not in `order`, the first few of them.
absl::Status CircleError(const Step& step, const std::vector<int>& order) {
  std::set<int> left;
  for (size_t c = 0; c < step.calls.size(); ++c) left.insert(static_cast<int>(c));
  for (int c : order) left.erase(c);
  std::vector<std::string> names;
  for (int c : left) {
    if (names.size() < 4) names.push_back(NameOf(step, c));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "step: the calls wait for each other in a circle, among them ", absl::StrJoin(names, ", ")));
}

absl::Status CheckPhases(const Step& step, const ListScheduler& scheduler) {
  for (size_t c = 0; c < step.calls.size(); ++c) {
    int before = static_cast<int>(c), early = -1;  // the first call of an earlier phase
    for (const ListScheduler::Rule& rule : scheduler.rules(before)) {
      if (step.calls[before].phase <= step.calls[rule.later].phase) continue;
      if (early < 0 || rule.later < early) early = rule.later;
    }
    if (early < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("step: ", NameOf(step, before), " must run before ", NameOf(step, early),
                     " but is in a later phase"));
  }
  return absl::OkStatus();
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

absl::Status StepBuilder::CheckNames() const {
  for (const StepSegment& segment : step_.segments) {
    const Graph& graph = *segment.segment.graph;
    for (const std::string& name : segment.fetched) {
      if (graph.FindOutput(name) == kNoValue) {
        return absl::InvalidArgumentError(absl::StrCat("step: fetched '", name,
                                                       "' is no output of ", segment.segment.name));
      }
    }
    for (const Carry& carry : segment.carries) {
      ValueId feed = graph.FindValue(carry.feed);
      if (std::count(graph.feeds().begin(), graph.feeds().end(), feed) == 0) {
        return absl::InvalidArgumentError(absl::StrCat("step: carried '", carry.feed,
                                                       "' is no feed of ", segment.segment.name));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StepBuilder::Bind() {
  RETURN_IF_ERROR(CheckNames());
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
      if (found == outputs.end()) continue;
      const Type& made =
          step_.graph_of(step_.calls[found->second.call]).value(found->second.value).type;
      if (made != graph.value(feed).type) {
        return absl::InvalidArgumentError(absl::StrCat(
            "step: '", name, "' of ", segment.segment.name, " is ",
            ToString(graph.value(feed).type), ", its source '", found->first.first, "' ",
            ToString(made)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StepBuilder::Schedule() {
  ListScheduler scheduler;  // one resource, no durations: calls in the order of adding
  for (size_t c = 0; c < step_.calls.size(); ++c) scheduler.AddTask();
  AddStateOrder(step_, scheduler);
  for (size_t c = 0; c < step_.calls.size(); ++c) {
    for (const FeedSource& source : step_.calls[c].sources) {
      if (source.call >= 0) scheduler.MustRunBefore(source.call, static_cast<int>(c));
    }
  }
  for (const auto& rule : rules_) scheduler.MustRunBefore(rule.first, rule.second);
  RETURN_IF_ERROR(CheckPhases(step_, scheduler));
  std::vector<int> order = scheduler.Run().order;
  if (order.size() != step_.calls.size()) return CircleError(step_, order);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return step_.calls[a].phase < step_.calls[b].phase;
  });
  Reorder(order);
  return absl::OkStatus();
}

void StepBuilder::Reorder(const std::vector<int>& order) {
  std::vector<int> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  std::vector<Call> calls;
  for (int old : order) {
    for (FeedSource& source : step_.calls[old].sources) {
      if (source.call >= 0) source.call = position[source.call];
    }
    for (int& finished : step_.calls[old].finished) finished = position[finished];
    calls.push_back(std::move(step_.calls[old]));
  }
  step_.calls = std::move(calls);
}

absl::StatusOr<Step> StepBuilder::Build() && {
  RETURN_IF_ERROR(Bind());
  RETURN_IF_ERROR(Schedule());
  return std::move(step_);
}

}  // namespace colossus
