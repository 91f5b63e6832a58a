// OrderEvaluator: how long given orders take, fast.
//
// Purpose: a search looks at many orders of the same actions. The times are those of the list
// scheduler for the same orders (a test compares), found in one pass without its queues.
// Thread-safety: one thread. Ownership: keeps no reference to actions and costs.
//
//   OrderEvaluator evaluator(actions, costs, Objective::kSpan);
//   if (evaluator.Evaluate(orders)) Use(evaluator.score());
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_ORDER_EVALUATOR_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_ORDER_EVALUATOR_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

constexpr double kNoCutoff = std::numeric_limits<double>::infinity();

struct Score {
  double longest = 0;  // stage, by the objective
  double makespan = 0;
  double sum = 0;  // of all stages

  // Differences of less than `slack` are none. Climbing: longest, then sum, which leads there.
  bool Improves(const Score& other, double slack) const;
  // Choosing: longest, then makespan.
  bool PreferredTo(const Score& other, double slack) const;
};

class OrderEvaluator {
 public:
  OrderEvaluator(const PipelineActions& actions, const PipelineCosts& costs, Objective objective);

  // False if stages wait for each other, or the longest stage is longer than `most` (then not all
  // is looked at). REQUIRES: every action once.
  bool Evaluate(const StageOrders& orders, double most = kNoCutoff);

  // Of the last orders that were evaluated:
  const Score& score() const { return score_; }
  double start(int action) const { return start_[action]; }
  double end(int action) const { return end_[action]; }
  // What the objective counts for the stage.
  double length(int stage) const { return length_[stage]; }

  int source(int action) const { return source_[action]; }
  // When the data of `action` is there.
  double arrival(int action) const {
    return source_[action] < 0 ? 0 : end_[source_[action]] + delay_[action];
  }
  // Times that differ by less are equal.
  double slack() const { return slack_; }
  // The start of each stage's first action, the same under every order; 0 for the makespan.
  double offset(int stage) const { return offset_[stage]; }
  // Actions evaluated so far.
  int64_t effort() const { return effort_; }

 private:
  bool Run(const StageOrders& orders, double most);

  Objective objective_;
  std::vector<int> stage_, source_;
  std::vector<double> duration_, delay_, offset_;
  std::vector<double> work_;  // of each stage
  double slack_ = 0;
  int64_t effort_ = 0;

  std::vector<double> start_, end_, length_;
  std::vector<double> rest_;         // of the work of each stage
  std::vector<int> waiting_, open_;  // stage that waits for an action; stages to go on with
  std::vector<size_t> position_;
  Score score_;
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_ORDER_EVALUATOR_H_
