#include "tensor/exec/stream_waits.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace colossus {
namespace {

class WaitFinder {
 public:
  WaitFinder(const Step& step, StepStorage& all)
      : step_(step), all_(all), touched_(all.storages.size(), -1), written_(touched_),
        last_of_call_(step.calls.size(), -1) {}

  void Run() {
    size_t t = 0;
    for (size_t end : all_.phase_end) {
      // Everything before has finished.
      compute_ = waited_ = linked_ = static_cast<int>(t) - 1;
      for (; t < end; ++t) {
        if (all_.drafts[t].instruction.link) {
          AddLink(static_cast<int>(t));
        } else {
          AddCompute(static_cast<int>(t));
        }
      }
    }
    KeepAlive();
  }

 private:
  template <typename Fn>
  void ForEachStorage(const Draft& draft, Fn fn) {
    for (int s : draft.operands) fn(all_.Root(s), false);
    for (int s : draft.results) fn(all_.Root(s), true);
    if (draft.workspace >= 0) fn(all_.Root(draft.workspace), true);
  }

  void AddLink(int t) {
    Draft& draft = all_.drafts[t];
    if (compute_ > linked_) draft.instruction.wait = linked_ = compute_;
    ForEachStorage(draft, [&](int root, bool writes) {
      touched_[root] = t;
      if (writes) written_[root] = t;
    });
    last_of_call_[draft.instruction.call] = t;
  }

  void AddCompute(int t) {
    Draft& draft = all_.drafts[t];
    int need = -1;
    ForEachStorage(draft, [&](int root, bool writes) {
      need = std::max(need, writes ? touched_[root] : written_[root]);
    });
    for (int call : step_.calls[draft.instruction.call].finished) {
      need = std::max(need, last_of_call_[call]);
    }
    if (need > waited_) draft.instruction.wait = waited_ = need;
    compute_ = t;
  }

  void KeepAlive() {
    const std::vector<int64_t> until = InUseUntil(all_);
    for (size_t t = 0; t < all_.drafts.size(); ++t) {
      if (!all_.drafts[t].instruction.link) continue;
      ForEachStorage(all_.drafts[t], [&](int root, bool) {
        if (!all_.IsBuffer(all_.storages[root])) return;
        all_.storages[root].last = std::max(all_.storages[root].last, until[t]);
      });
    }
  }

  const Step& step_;
  StepStorage& all_;
  std::vector<int> touched_, written_;  // per root: the latest link instruction that did so
  std::vector<int> last_of_call_;       // per call of a link segment
  // The latest compute instruction; the latest link instruction that compute waited for; the latest
  // compute instruction that the link waited for.
  int compute_ = -1, waited_ = -1, linked_ = -1;
};

}  // namespace

void AddWaits(const Step& step, StepStorage& storage) { WaitFinder(step, storage).Run(); }

std::vector<int64_t> InUseUntil(const StepStorage& storage) {
  std::vector<int64_t> until;
  size_t t = 0;
  for (size_t end : storage.phase_end) {
    // Link instruction, who waits for it; both ascend.
    std::vector<std::pair<int64_t, int64_t>> waits;
    for (size_t d = t; d < end; ++d) {
      const Instruction& instruction = storage.drafts[d].instruction;
      if (instruction.link || instruction.wait < 0) continue;
      waits.emplace_back(instruction.wait, static_cast<int64_t>(d));
    }
    for (; t < end; ++t) {
      const int64_t now = static_cast<int64_t>(t);
      until.push_back(now);
      if (!storage.drafts[t].instruction.link) continue;
      auto waited = std::lower_bound(waits.begin(), waits.end(), std::make_pair(now, int64_t{0}));
      until.back() = (waited == waits.end() ? static_cast<int64_t>(end) : waited->second) - 1;
    }
  }
  return until;
}

}  // namespace colossus
