#include "gemini/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Way {
  double backward;
  int64_t saved;
};

// Sizes in slots.
struct Stage {
  double forward;
  int64_t output, gradient, forward_work, backward_work;
  std::vector<Way> ways;
};

// C(s, t, m): the least time of forward and backward of stages s..t in m slots, x_{s-1} given and
// kept by somebody else, the gradient of x_t counted from the start.
//   saving of s in way w: F_s + C(s+1, t, m - saved_s,w) + B_s,w
//   checkpoint of x_k-1:  F_s + ... + F_k-1 + C(k, t, m - x_k-1) + C(s, k-1, m)
class Table {
 public:
  Table(std::vector<Stage> chain, int slots)
      : chain_(std::move(chain)),
        stages_(static_cast<int>(chain_.size())),
        slots_(slots),
        cells_(static_cast<size_t>(stages_) * stages_ * (slots + 1)) {
    for (int length = 1; length <= stages_; ++length) {
      for (int s = 0; s + length <= stages_; ++s) Fill(s, s + length - 1);
    }
  }

  double seconds() const { return At(0, stages_ - 1, slots_).seconds; }

  void Steps(std::vector<RecomputeStep>& steps) const { Append(0, stages_ - 1, slots_, steps); }

 private:
  struct Cell {
    double seconds = kNever;
    int choice = -1;  // of a save: -1 - way; else k, the stage whose input is kept
  };

  Cell& At(int s, int t, int64_t m) {
    return cells_[(static_cast<size_t>(s) * stages_ + t) * (slots_ + 1) + m];
  }
  const Cell& At(int s, int t, int64_t m) const { return const_cast<Table*>(this)->At(s, t, m); }

  void Fill(int s, int t) {
    for (size_t w = 0; w < chain_[s].ways.size(); ++w) FillSaving(s, t, static_cast<int>(w));
    FillCheckpoints(s, t);
  }

  void Take(int s, int t, int64_t m, double seconds, int choice) {
    Cell& cell = At(s, t, m);
    if (seconds < cell.seconds) cell = {seconds, choice};
  }

  void FillSaving(int s, int t, int w) {
    const Stage& stage = chain_[s];
    const Way& way = stage.ways[w];
    // For the instructions of its forward and of its backward.
    const int64_t saving = std::max(chain_[t].gradient + way.saved + stage.forward_work,
                                    stage.gradient + way.saved + stage.backward_work);
    for (int64_t m = saving; m <= slots_; ++m) {
      const double rest = s == t ? 0 : At(s + 1, t, m - way.saved).seconds;
      Take(s, t, m, stage.forward + rest + way.backward, -1 - w);
    }
  }

  void FillCheckpoints(int s, int t) {
    double forward = 0;
    int64_t passing = 0;
    for (int k = s + 1; k <= t; ++k) {  // k - 1 is the last stage passed
      const Stage& passed = chain_[k - 1];
      forward += passed.forward;
      passing = std::max(passing, chain_[t].gradient + (k - 1 > s ? chain_[k - 2].output : 0) +
                                      passed.output + passed.forward_work);
      for (int64_t m = std::max(passing, passed.output); m <= slots_; ++m) {
        Take(s, t, m, forward + At(k, t, m - passed.output).seconds + At(s, k - 1, m).seconds, k);
      }
    }
  }

  void Append(int s, int t, int64_t m, std::vector<RecomputeStep>& steps) const {
    const Cell& cell = At(s, t, m);
    if (cell.choice < 0) {
      const int way = -1 - cell.choice;
      steps.push_back({RecomputeAction::kForwardSave, s, way});
      if (s < t) Append(s + 1, t, m - chain_[s].ways[way].saved, steps);
      steps.push_back({RecomputeAction::kBackward, s});
      return;
    }
    steps.push_back({RecomputeAction::kCheckpoint, s});
    for (int i = s + 1; i < cell.choice; ++i) steps.push_back({RecomputeAction::kForward, i});
    Append(cell.choice, t, m - chain_[cell.choice - 1].output, steps);
    Append(s, cell.choice - 1, m, steps);
  }

  const std::vector<Stage> chain_;
  const int stages_;
  const int64_t slots_;
  std::vector<Cell> cells_;
};

std::vector<Stage> InSlots(absl::Span<const RecomputeStage> chain, double bytes_per_slot) {
  auto slots = [&](int64_t bytes) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_slot - 1e-9));
  };
  std::vector<Stage> result;
  for (const RecomputeStage& stage : chain) {
    Stage& added = result.emplace_back();
    added = {stage.forward_seconds, slots(stage.output_bytes), slots(stage.gradient_bytes),
             slots(stage.forward_bytes), slots(stage.backward_bytes), {}};
    added.ways.push_back({stage.backward_seconds, slots(stage.saved_bytes)});
    for (const SaveWay& way : stage.other_ways) {
      added.ways.push_back({way.backward_seconds, slots(way.saved_bytes)});
    }
  }
  return result;
}

int64_t SavedBytes(const RecomputeStage& stage, int way) {
  return way == 0 ? stage.saved_bytes : stage.other_ways[way - 1].saved_bytes;
}

int64_t LeastSavedBytes(const RecomputeStage& stage) {
  int64_t least = stage.saved_bytes;
  for (const SaveWay& way : stage.other_ways) least = std::min(least, way.saved_bytes);
  return least;
}

// Ways and stages that run again, of the steps.
void Summarize(RecomputePlan& plan) {
  std::vector<int> again;
  bool first = true;  // the chain runs forward for the first time
  for (const RecomputeStep& step : plan.steps) {
    if (step.action == RecomputeAction::kForwardSave) plan.way[step.stage] = step.way;
    if (step.action != RecomputeAction::kBackward) {
      if (!first) again.push_back(step.stage);
      continue;
    }
    first = false;
    std::sort(again.begin(), again.end());
    plan.again[step.stage] = std::move(again);
    again.clear();
  }
}

}  // namespace

// With the least memory every backward starts from x_0 again.
int64_t LeastRecomputeBudget(absl::Span<const RecomputeStage> chain) {
  int64_t most = 0;
  for (size_t t = 0; t < chain.size(); ++t) {
    for (size_t k = 0; k < t; ++k) {
      most = std::max(most, chain[t].gradient_bytes + (k > 0 ? chain[k - 1].output_bytes : 0) +
                                chain[k].output_bytes + chain[k].forward_bytes);
    }
    const int64_t input = t > 0 ? chain[t - 1].output_bytes : 0;
    const RecomputeStage& stage = chain[t];
    most = std::max(most, input + stage.gradient_bytes + LeastSavedBytes(stage) +
                              std::max(stage.forward_bytes, stage.backward_bytes));
  }
  return most;
}

absl::StatusOr<RecomputePlan> PlanRecompute(absl::Span<const RecomputeStage> chain,
                                            const RecomputeOptions& options) {
  RecomputePlan plan;
  plan.way.assign(chain.size(), 0);
  plan.again.resize(chain.size());
  if (chain.empty()) return plan;
  const int64_t least = LeastRecomputeBudget(chain);
  if (options.budget_bytes < least) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a chain of ", chain.size(), " stages needs ", least,
                     " bytes to run forward and backward, the budget is ", options.budget_bytes));
  }
  const int64_t slots =
      std::max<int64_t>(1, std::min<int64_t>(options.slots, options.budget_bytes));
  const double per_slot =
      std::max(1.0, static_cast<double>(options.budget_bytes) / static_cast<double>(slots));
  const Table table(InSlots(chain, per_slot), static_cast<int>(slots));
  if (table.seconds() == kNever) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a chain of ", chain.size(), " stages fits ", options.budget_bytes,
                     " bytes only without rounding to ", slots, " parts; give it more of them or ",
                     least + static_cast<int64_t>(per_slot * 4) + 1, " bytes"));
  }
  plan.seconds = table.seconds();
  table.Steps(plan.steps);
  Summarize(plan);
  return plan;
}

int64_t PeakBytes(absl::Span<const RecomputeStage> chain, absl::Span<const RecomputeStep> steps) {
  std::vector<bool> input(chain.size(), false), saved(chain.size(), false);
  std::vector<int> way(chain.size(), 0);
  int64_t kept = 0, peak = 0;
  int back = static_cast<int>(chain.size()) - 1;  // the next backward
  int passing = -1;                               // x of this stage is there, kept by nobody
  auto output = [&](int i) { return i < 0 ? 0 : chain[i].output_bytes; };
  for (const RecomputeStep& step : steps) {
    const int i = step.stage;
    const RecomputeStage& stage = chain[i];
    const bool given = i == 0 || saved[i - 1] || input[i];
    CHECK(given || passing == i - 1) << "stage " << i << " has no input";
    if (step.action == RecomputeAction::kBackward) {
      CHECK(saved[i] && i == back && given);
      peak = std::max(peak, kept + stage.gradient_bytes + stage.backward_bytes);
      kept -= SavedBytes(stage, way[i]) + (input[i] ? output(i - 1) : 0);
      saved[i] = input[i] = false;
      --back;
      continue;
    }
    // A checkpoint of x_i-1 is first taken when it is there by passing.
    if (!given && step.action != RecomputeAction::kForward) {
      input[i] = true;
      kept += output(i - 1);
      passing = -1;
    }
    const int64_t held =
        kept + chain[back].gradient_bytes + stage.forward_bytes +
        (passing == i - 1 && !input[i] && i > 0 && !saved[i - 1] ? output(i - 1) : 0);
    if (step.action == RecomputeAction::kForwardSave) {
      way[i] = step.way;
      peak = std::max(peak, held + SavedBytes(stage, way[i]));
      saved[i] = true;
      kept += SavedBytes(stage, way[i]);
      passing = -1;
    } else {
      peak = std::max(peak, held + stage.output_bytes);
      passing = i;
    }
  }
  CHECK(back == -1) << "the chain's backward is not complete";
  return peak;
}

}  // namespace colossus
