#include "parallel/pipeline/search/climb.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace colossus {
namespace {

// How far actions are shaken, and how near to an end of a run they are moved past it.
constexpr int kReach = 6;

// Actions of a stage from `first` to `last`, each starting when the one before ends.
struct Run {
  int stage = 0, first = 0, last = 0;
};

class Climber {
 public:
  Climber(const PipelineActions& actions, const PipelineCosts& costs, double limit, double target,
          int64_t effort, OrderEvaluator& evaluator, StageOrders& orders)
      : actions_(actions),
        costs_(costs),
        limit_(limit * (1 + kActivationSlack)),
        target_(target),
        evaluator_(evaluator),
        end_of_effort_(evaluator.effort() + effort),
        orders_(orders) {}

  Score Go() {
    evaluator_.Evaluate(orders_);
    score_ = evaluator_.score();
    while (score_.longest > target_ + evaluator_.slack() && Improve()) {
    }
    return score_;
  }

  void Shake(int moves, std::mt19937& random) {
    for (int i = 0; i < moves; ++i) {
      int stage = static_cast<int>(random() % orders_.size());
      int size = static_cast<int>(orders_[stage].size());
      int from = static_cast<int>(random() % size);
      int to = from + static_cast<int>(random() % (2 * kReach + 1)) - kReach;
      if (to < 0 || to >= size || SameLane(stage, from, to)) continue;
      Move(stage, from, to, /*anyhow=*/true);
    }
  }

 private:
  bool spent() const { return evaluator_.effort() >= end_of_effort_; }

  bool Improve() {
    evaluator_.Evaluate(orders_);  // the last one may have been of a move that was taken back
    std::vector<Run> runs;
    for (size_t stage = 0; stage < orders_.size(); ++stage) {
      if (evaluator_.length(static_cast<int>(stage)) < score_.longest - evaluator_.slack())
        continue;
      AddRuns(static_cast<int>(stage), runs);
    }
    return ImproveAtEnds(runs) || ImproveByWeights(runs);
  }

  // The order of a run's actions does not matter, only what lies between its ends: so one must go
  // before the first or after the last.
  bool ImproveAtEnds(const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      for (int from = run.last - 1; from >= run.first; --from) {
        if (TryMove(run, from, run.last)) return true;
        if (run.last - from < kReach && TryMove(run, from, run.last + 1)) return true;
        if (spent()) return false;
      }
      for (int from = run.first + 1; from <= run.last; ++from) {
        if (TryMove(run, from, run.first)) return true;
        if (from - run.first < kReach && TryMove(run, from, run.first - 1)) return true;
        if (spent()) return false;
      }
    }
    return false;
  }

  // No other stage waits for a weight gradient: it may go anywhere.
  bool ImproveByWeights(const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      int size = static_cast<int>(orders_[run.stage].size());
      for (int from = run.first; from <= run.last; ++from) {
        if (actions_.KindAt(orders_[run.stage][from]) != ActionKind::kBackwardWeight) continue;
        for (int distance = 1; distance < size && !spent(); ++distance) {
          if (TryMove(run, from, from - distance)) return true;
          if (TryMove(run, from, from + distance)) return true;
        }
      }
    }
    return false;
  }

  bool TryMove(const Run& run, int from, int to) {
    if (to < 0 || to >= static_cast<int>(orders_[run.stage].size())) return false;
    return !SameLane(run.stage, from, to) && Move(run.stage, from, to);
  }

  // The runs on the way back from the end of `stage`.
  void AddRuns(int stage, std::vector<Run>& runs) const {
    int at = static_cast<int>(orders_[stage].size()) - 1;
    double slack = evaluator_.slack();
    while (true) {
      const std::vector<int>& order = orders_[stage];
      Run run{stage, at, at};
      while (run.first > 0 && !WaitsForOther(order[run.first]) &&
             evaluator_.end(order[run.first - 1]) > evaluator_.start(order[run.first]) - slack) {
        --run.first;
      }
      runs.push_back(run);
      if (!WaitsForOther(order[run.first])) return;
      int source = evaluator_.source(order[run.first]);
      stage = actions_.StageAt(source);
      at = static_cast<int>(std::find(orders_[stage].begin(), orders_[stage].end(), source) -
                            orders_[stage].begin());
    }
  }

  // Whether the action starts when data of another stage arrives.
  bool WaitsForOther(int action) const {
    int source = evaluator_.source(action);
    return source >= 0 && actions_.StageAt(source) != actions_.StageAt(action) &&
           evaluator_.arrival(action) > evaluator_.start(action) - evaluator_.slack();
  }

  bool SameLane(int stage, int a, int b) const {
    return actions_.LaneAt(orders_[stage][a]) == actions_.LaneAt(orders_[stage][b]);
  }

  // An action of the lane of the one at `from` runs at `to`; kept if that is better, or if it is
  // possible at all.
  bool Move(int stage, int from, int to, bool anyhow = false) {
    std::vector<int> moved = orders_[stage];
    int action = moved[from];
    moved.erase(moved.begin() + from);
    moved.insert(moved.begin() + to, action);
    if (!Renumber(moved)) return false;
    std::swap(orders_[stage], moved);
    double most = anyhow ? kNoCutoff : score_.longest;
    if (evaluator_.Evaluate(orders_, most) &&
        (anyhow || evaluator_.score().Improves(score_, evaluator_.slack()))) {
      score_ = evaluator_.score();
      return true;
    }
    std::swap(orders_[stage], moved);
    return false;
  }

  // Puts the micro-batches of each lane in order again. False if then an action comes before its
  // source on the same stage, or the limit is passed.
  bool Renumber(std::vector<int>& order) {
    const int m = actions_.shape().micro_batches;
    done_.assign(actions_.lanes_per_stage(), 0);
    double kept = 0;
    for (int& action : order) {
      int& done = done_[actions_.LaneAt(action) % actions_.lanes_per_stage()];
      action = actions_.LaneAt(action) * m + done;
      int source = evaluator_.source(action);
      if (source >= 0 && actions_.StageAt(source) == actions_.StageAt(action) &&
          done_[actions_.LaneAt(source) % actions_.lanes_per_stage()] <= done) {
        return false;
      }
      ++done;
      kept += KeptAtStart(actions_, costs_, action);
      if (kept > limit_) return false;
      kept -= FreedAtEnd(actions_, costs_, action);
    }
    return true;
  }

  const PipelineActions& actions_;
  const PipelineCosts& costs_;
  const double limit_, target_;
  OrderEvaluator& evaluator_;
  const int64_t end_of_effort_;
  StageOrders& orders_;
  Score score_;
  std::vector<int> done_;  // by lane of the stage
};

}  // namespace

Score Climb(const PipelineActions& actions, const PipelineCosts& costs, double limit, double target,
            int64_t effort, OrderEvaluator& evaluator, StageOrders& orders) {
  return Climber(actions, costs, limit, target, effort, evaluator, orders).Go();
}

void Shake(const PipelineActions& actions, const PipelineCosts& costs, double limit, int moves,
           std::mt19937& random, OrderEvaluator& evaluator, StageOrders& orders) {
  Climber(actions, costs, limit, /*target=*/0, /*effort=*/0, evaluator, orders)
      .Shake(moves, random);
}

}  // namespace colossus
