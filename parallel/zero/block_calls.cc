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
  CallAdder(StepBuilder& step, const std::vector<std::pair<const BlockVariant*, int>>& order,
            int phase, const BlockReductions& reductions)
      : step_(step), phase_(phase), reductions_(reductions) {
    for (const auto& [variant, micro_batch] : order) {
      CHECK_EQ(variant->passes.size(), variant->gathers.size());
      for (size_t p = 0; p < variant->passes.size(); ++p) {
        passes_.push_back({variant, micro_batch, p});
      }
    }
    last_ = order.empty() ? nullptr : order.back().first;
  }

  void Run() {
    if (passes_.empty()) return;
    AddGather(0);
    for (size_t i = 0; i < passes_.size(); ++i) {
      if (i + 1 < passes_.size()) AddGather(i + 1);
      AddPass(i);
      if (reductions_.overlap && IsLast(i))
        AddReductions(passes_[i].variant->passes[passes_[i].pass], i);
    }
    if (reductions_.overlap) return;
    for (const ChunkReduction& reduction : reductions_.list) {
      step_.AddCall(reduction.segment, kOncePerStep, phase_);
    }
  }

 private:
  struct Pass {
    const BlockVariant* variant;
    int micro_batch;
    size_t pass;
  };

  // Whether it is one of the last micro-batch.
  bool IsLast(size_t i) const {
    return passes_[i].variant == last_ && passes_[i].micro_batch == passes_.back().micro_batch;
  }

  void AddGather(size_t i) {
    const Pass& pass = passes_[i];
    const int segment = pass.variant->gathers[pass.pass];
    if (segment >= 0) step_.AddCall(segment, pass.micro_batch, phase_);
  }

  void AddPass(size_t i) {
    const BlockPass& pass = passes_[i].variant->passes[passes_[i].pass];
    int first = -1;
    for (int part = pass.first_part; part <= pass.last_part; ++part) {
      const int call =
          step_.AddCall(passes_[i].variant->segments[part], passes_[i].micro_batch, phase_);
      if (first < 0) first = call;
    }
    while (!running_.empty() && running_.front().second + kReductionPasses < i) {
      step_.MustFinishBefore(running_.front().first, first);
      running_.erase(running_.begin());
    }
  }

  void AddReductions(const BlockPass& pass, size_t i) {
    for (const ChunkReduction& reduction : reductions_.list) {
      if (reduction.part < pass.first_part || reduction.part > pass.last_part) continue;
      running_.emplace_back(step_.AddCall(reduction.segment, kOncePerStep, phase_), i);
    }
  }

  StepBuilder& step_;
  const int phase_;
  const BlockReductions& reductions_;
  std::vector<Pass> passes_;
  const BlockVariant* last_ = nullptr;
  std::vector<std::pair<int, size_t>> running_;  // reductions: call, the pass it comes after
};

}  // namespace

std::vector<BlockPass> PassPerPart(int parts) {
  std::vector<BlockPass> passes;
  for (int part = 0; part < parts; ++part) passes.push_back({part, part, {}});
  return passes;
}

void AddBlockCalls(StepBuilder& step, const std::vector<std::pair<const BlockVariant*, int>>& order,
                   int phase, const BlockReductions& reductions) {
  CallAdder(step, order, phase, reductions).Run();
}

}  // namespace colossus
