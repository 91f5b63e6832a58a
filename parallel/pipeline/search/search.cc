#include "parallel/pipeline/search/search.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/pipeline/compact.h"
#include "parallel/pipeline/fixed_schedules.h"
#include "parallel/pipeline/search/bases.h"
#include "parallel/pipeline/search/climb.h"
#include "parallel/pipeline/search/exact.h"
#include "parallel/pipeline/search/lower_bound.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

constexpr int kClimbs = 12;             // from the best candidates
constexpr int kSmall = 16;              // parts x micro-batches to solve exactly,
constexpr int kBeginnings = 400'000;    // if it takes no more than this
constexpr size_t kTrials = 3;           // options tried on all bases before
constexpr int64_t kBases = 4;           // the best are gone on with, or as many as can be
constexpr int64_t kCompactEffort = 30;  // of an action, in evaluations of one
constexpr int64_t kCompacts = 150;      // at least, however large the pipeline

using Weights = CompactOptions::Weights;
using Wait = CompactOptions::Wait;

struct Candidate {
  StageOrders orders;
  Score score;
};

// The search among orders of one placement.
class PlacementSearch {
 public:
  PlacementSearch(const ScheduleInput& input, PartPlacement placement)
      : input_(input),
        actions_(input.shape, placement, /*split_backward=*/true),
        scheduler_(SchedulerOf(actions_, input.costs)),
        evaluator_(actions_, input.costs, input.objective),
        bound_(LengthBound(actions_, input.costs, input.memory_limit, input.objective)) {}

  PartPlacement placement() const { return actions_.placement(); }
  double slack() const { return evaluator_.slack(); }
  bool AtBound() const { return found() && best().score.longest <= bound_ + slack(); }
  bool found() const { return !candidates_.empty(); }
  const Candidate& best() const { return candidates_.front(); }
  bool solved() const { return solved_ || AtBound(); }

  void TryFixed() {
    for (const Schedule& schedule : FixedSchedules()) {
      absl::StatusOr<Timeline> timeline = Simulate(schedule, input_);
      if (!timeline.ok() || timeline->placement != placement()) continue;
      Offer(Split(*timeline));
    }
  }

  // Bases made dense in several ways. A little less memory than there is sometimes leads to
  // shorter orders.
  void TryCompact(int64_t effort) {
    double largest = 0;
    for (const PartCosts& part : input_.costs.parts) largest = std::max(largest, part.activation);
    effort = std::max(effort / 2, kCompacts * kCompactEffort * actions_.size());
    TryCompact(input_.memory_limit, effort);
    if (input_.memory_limit != kNoMemoryLimit) {
      TryCompact(input_.memory_limit - largest, effort);
    }
  }

  void TryExact() {
    if (solved() || input_.shape.parts() * input_.shape.micro_batches > kSmall) return;
    ExactResult exact = SolveExactly(actions_, input_.costs, input_.memory_limit, input_.objective,
                                     best().score.longest, slack(), kBeginnings);
    solved_ = exact.complete;
    if (!exact.orders.empty()) Offer(std::move(exact.orders));
  }

  // From each candidate, then again and again from the best, shaken.
  void TryClimb(int64_t effort) {
    const int64_t end = evaluator_.effort() + effort;
    std::mt19937 random(1);  // the same result in every run
    const std::vector<Candidate> starts = candidates_;
    for (size_t i = 0; !solved() && evaluator_.effort() < end; ++i) {
      StageOrders orders = i < starts.size() ? starts[i].orders : best().orders;
      if (i >= starts.size()) {
        int moves = 2 + static_cast<int>(random() % 7);
        Shake(actions_, input_.costs, input_.memory_limit, moves, random, evaluator_, orders);
      }
      Climb(actions_, input_.costs, input_.memory_limit, bound_, end - evaluator_.effort(),
            evaluator_, orders);
      Offer(std::move(orders));
    }
  }

 private:
  struct Base {
    StageOrders orders;
    double length = kNoCutoff;  // of the shortest made of it
  };

  void TryCompact(double limit, int64_t effort) {
    std::vector<Base> bases;
    for (StageOrders& base : BaseOrders(actions_, input_.costs, limit)) {
      if (Fits(base, limit) && evaluator_.Evaluate(base)) bases.push_back({std::move(base)});
    }
    const std::vector<CompactOptions> all = Options();
    const int64_t each = kCompactEffort * actions_.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == kTrials) {
        std::stable_sort(bases.begin(), bases.end(),
                         [](const Base& a, const Base& b) { return a.length < b.length; });
        int64_t affordable = effort / (each * static_cast<int64_t>(all.size() - i));
        if (std::max(affordable, kBases) < static_cast<int64_t>(bases.size())) {
          bases.resize(std::max(affordable, kBases));
        }
      }
      for (Base& base : bases) {
        if (AtBound() || effort < 0) return;
        effort -= each;
        StageOrders dense = Compact(scheduler_, actions_, input_.costs, base.orders, limit, all[i]);
        if (!evaluator_.Evaluate(dense)) continue;
        base.length = std::min(base.length, evaluator_.score().longest);
        Offer(std::move(dense));
      }
    }
  }

  // A whole backward is its two halves, the second right after the first: nobody gets later.
  StageOrders Split(const Timeline& timeline) const {
    StageOrders orders(timeline.stages.size());
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      for (const TimedAction& timed : timeline.stages[stage]) {
        Action action = timed.action;
        bool whole = action.kind == ActionKind::kBackward;
        if (whole) action.kind = ActionKind::kBackwardInput;
        orders[stage].push_back(actions_.Index(action));
        if (!whole) continue;
        action.kind = ActionKind::kBackwardWeight;
        orders[stage].push_back(actions_.Index(action));
      }
    }
    return orders;
  }

  bool Fits(const StageOrders& orders, double limit) const {
    for (const std::vector<int>& order : orders) {
      double peak = PeakActivation(actions_, input_.costs, order);
      if (peak > limit * (1 + kActivationSlack)) return false;
    }
    return true;
  }

  // Keeps the best few, the very best first.
  void Offer(StageOrders orders) {
    if (!Fits(orders, input_.memory_limit) || !evaluator_.Evaluate(orders)) return;
    Candidate candidate{std::move(orders), evaluator_.score()};
    auto place = std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
      return candidate.score.PreferredTo(c.score, slack());
    });
    for (const Candidate& other : candidates_) {
      if (other.orders == candidate.orders) return;
    }
    candidates_.insert(place, std::move(candidate));
    if (candidates_.size() > kClimbs) candidates_.pop_back();
  }

  // Those that are good most often first.
  std::vector<CompactOptions> Options() const {
    constexpr std::pair<Wait, Wait> kWithin[] = {{Wait::kWithinAllowance, Wait::kWithinAllowance},
                                                 {Wait::kWithinAllowance, Wait::kNever},
                                                 {Wait::kNever, Wait::kWithinAllowance},
                                                 {Wait::kWithinAllowance, Wait::kAlways},
                                                 {Wait::kAlways, Wait::kWithinAllowance}};
    constexpr std::pair<Wait, Wait> kOther[] = {{Wait::kNever, Wait::kNever},
                                                {Wait::kAlways, Wait::kAlways},
                                                {Wait::kNever, Wait::kAlways},
                                                {Wait::kAlways, Wait::kNever}};
    const PartCosts& part = input_.costs.parts[0];
    const double forward = part.forward, weight = part.backward_weight;
    std::vector<CompactOptions> all;
    for (double more : {0.0, forward, forward / 4, weight / 2, forward / 2, weight, 2 * weight}) {
      for (const auto& [before_weights, before_forwards] : kWithin) {
        all.push_back({Weights::kLast, before_weights, before_forwards, BoundIdle() + more});
      }
      if (more != 0) continue;
      for (const auto& [before_weights, before_forwards] : kOther) {
        all.push_back({Weights::kLast, before_weights, before_forwards});
      }
    }
    if (input_.shape.chunks == 1) return all;
    std::vector<CompactOptions> with_order;  // several chunks: weight gradients may have a place
    for (CompactOptions options : all) {
      for (Weights weights : {Weights::kLast, Weights::kAfterForwards, Weights::kInOrder}) {
        options.weights = weights;
        with_order.push_back(options);
      }
    }
    return with_order;
  }

  // What the busiest stage waits at the bound.
  double BoundIdle() const {
    std::vector<double> work(input_.shape.stages, 0);
    for (int action = 0; action < actions_.size(); ++action) {
      work[actions_.StageAt(action)] += DurationOf(actions_, input_.costs, action);
    }
    return std::max(0.0, bound_ - *std::max_element(work.begin(), work.end()));
  }

  const ScheduleInput& input_;
  const PipelineActions actions_;
  const ListScheduler scheduler_;
  OrderEvaluator evaluator_;
  const double bound_;
  std::vector<Candidate> candidates_;
  bool solved_ = false;
};

absl::Status CheckLimit(const ScheduleInput& input, const PipelineActions& actions) {
  double least = 0;
  for (int stage = 0; stage < input.shape.stages; ++stage) {
    double kept = 0;
    for (int chunk = 0; chunk < input.shape.chunks; ++chunk) {
      kept += input.costs.parts[actions.PartOf(stage, chunk)].activation;
    }
    least = std::max(least, kept);
  }
  if (input.memory_limit * (1 + kActivationSlack) >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("memory_limit ", input.memory_limit, " is under the ", least,
                   " that one micro-batch keeps on a stage: raise it to ", least, " or more"));
}

}  // namespace

absl::StatusOr<SearchResult> SearchOrder(const ScheduleInput& input) {
  std::vector<std::unique_ptr<PlacementSearch>> searches;
  for (PartPlacement placement : {PartPlacement::kLoop, PartPlacement::kV}) {
    RETURN_IF_ERROR(CheckLimit(input, {input.shape, placement, true}));
    searches.push_back(std::make_unique<PlacementSearch>(input, placement));
    if (input.shape.chunks == 1) break;  // the same
  }
  const int64_t effort = input.effort / 2 / static_cast<int64_t>(searches.size());
  PlacementSearch* best = nullptr;
  for (auto& search : searches) {
    search->TryFixed();
    search->TryCompact(effort);
    search->TryExact();
    search->TryClimb(effort);
    CHECK(search->found()) << "one micro-batch after the other always runs";
    if (best == nullptr || search->best().score.PreferredTo(best->best().score, search->slack())) {
      best = search.get();
    }
  }
  SearchResult result{best->placement(), best->best().orders, best->best().score, true};
  for (auto& search : searches) result.optimal = result.optimal && search->solved();
  return result;
}

}  // namespace colossus
