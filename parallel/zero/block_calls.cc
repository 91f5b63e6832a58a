#include "parallel/zero/block_calls.h"

#include "base/check.h"

namespace colossus {
namespace {

constexpr int kOncePerStep = -1;
// Passes that run between the one that makes a gradient and the one before which its reduction must
// have finished.
constexpr size_t kReductionPasses = 1;

class CallAdder {
 public:
  CallAdder(StepBuilder& step, const std::vector<BlockCall>& calls, int phase,
            const BlockReductions& reductions, const BlockVariant* last, int last_micro_batch)
      : step_(step),
        calls_(calls),
        phase_(phase),
        reductions_(reductions),
        last_(last),
        last_micro_batch_(last_micro_batch) {}

  void Run() {
    size_t next = NextPass(0);  // whose chunks are gathered next
    if (next < calls_.size()) AddGather(next);
    for (size_t i = 0; i < calls_.size(); ++i) {
      const BlockCall& call = calls_[i];
      if (call.variant == nullptr) {
        step_.AddCall(call.link, call.micro_batch, phase_);
        continue;
      }
      next = NextPass(i + 1);
      if (next < calls_.size()) AddGather(next);
      AddPass(call);
      AddBehindLink();
      if (reductions_.overlap && IsLast(call)) {
        AddReductions(call.variant->passes[call.pass]);
      }
      ++passes_;
    }
    AddBehindLink();
    for (const ChunkReduction& reduction : reductions_.list) {
      if (reductions_.overlap && reduction.part >= 0) continue;
      step_.AddCall(reduction.segment, kOncePerStep, phase_);
    }
  }

 private:
  size_t NextPass(size_t i) const {
    while (i < calls_.size() && calls_[i].variant == nullptr) ++i;
    return i;
  }

  bool IsLast(const BlockCall& call) const {
    return call.variant == last_ && call.micro_batch == last_micro_batch_;
  }

  void AddGather(size_t i) {
    const BlockCall& call = calls_[i];
    if (call.gathered_for == BlockCall::kNone) return;
    const int segment = call.variant->gathers[call.pass];
    const bool own = call.gathered_for == BlockCall::kOwn;
    if (segment >= 0) step_.AddCall(segment, own ? call.micro_batch : call.gathered_for, phase_);
  }

  void AddPass(const BlockCall& call) {
    const BlockPass& pass = call.variant->passes[call.pass];
    int first = -1;
    for (int part = pass.first_part; part <= pass.last_part; ++part) {
      const int added = step_.AddCall(call.variant->segments[part], call.micro_batch, phase_);
      if (first < 0) first = added;
    }
    while (!running_.empty() && running_.front().second + kReductionPasses < passes_) {
      step_.MustFinishBefore(running_.front().first, first);
      running_.erase(running_.begin());
    }
  }

  void AddReductions(const BlockPass& pass) {
    for (const ChunkReduction& reduction : reductions_.list) {
      if (reduction.part < pass.first_part || reduction.part > pass.last_part) continue;
      if (reduction.behind_link) {
        behind_link_.push_back(reduction.segment);
        continue;
      }
      const int call = step_.AddCall(reduction.segment, kOncePerStep, phase_);
      if (reduction.link) running_.emplace_back(call, passes_);
    }
  }

  // What the pass before this one left.
  void AddBehindLink() {
    for (int segment : behind_link_) step_.AddCall(segment, kOncePerStep, phase_);
    behind_link_.clear();
  }

  StepBuilder& step_;
  const std::vector<BlockCall>& calls_;
  const int phase_;
  const BlockReductions& reductions_;
  const BlockVariant* const last_;
  const int last_micro_batch_;
  size_t passes_ = 0;                            // that have been added
  std::vector<std::pair<int, size_t>> running_;  // reductions: call, the pass it comes after
  std::vector<int> behind_link_;                 // segments that wait for the next pass
};

}  // namespace

std::vector<BlockPass> PassPerPart(int parts) {
  std::vector<BlockPass> passes;
  for (int part = 0; part < parts; ++part) passes.push_back({part, part, {}});
  return passes;
}

std::vector<BlockCall> VerticalCalls(
    const std::vector<std::pair<const BlockVariant*, int>>& order) {
  std::vector<BlockCall> calls;
  for (size_t p = 0; !order.empty() && p < order[0].first->passes.size(); ++p) {
    for (const auto& [variant, micro_batch] : order) {
      CHECK_EQ(variant->passes.size(), order[0].first->passes.size());
      const bool first = calls.empty() || calls.back().pass != p;
      calls.push_back({.variant = variant,
                       .micro_batch = micro_batch,
                       .pass = p,
                       .gathered_for = first ? order.back().second : BlockCall::kNone});
    }
  }
  return calls;
}

void AddBlockCalls(StepBuilder& step, const std::vector<BlockCall>& calls, int phase,
                   const BlockReductions& reductions, const BlockVariant* last,
                   int last_micro_batch) {
  CallAdder(step, calls, phase, reductions, last, last_micro_batch).Run();
}

void AddBlockCalls(StepBuilder& step, const std::vector<std::pair<const BlockVariant*, int>>& order,
                   int phase, const BlockReductions& reductions) {
  std::vector<BlockCall> calls;
  for (const auto& [variant, micro_batch] : order) {
    CHECK_EQ(variant->passes.size(), variant->gathers.size());
    for (size_t p = 0; p < variant->passes.size(); ++p) calls.push_back({variant, micro_batch, p});
  }
  if (calls.empty()) return;
  AddBlockCalls(step, calls, phase, reductions, order.back().first, order.back().second);
}

}  // namespace colossus
