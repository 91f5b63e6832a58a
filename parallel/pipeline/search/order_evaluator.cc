#include "parallel/pipeline/search/order_evaluator.h"

#include <algorithm>
#include <vector>

namespace colossus {

namespace {

bool Less(double a, double b, double then_a, double then_b, double slack) {
  if (a < b - slack) return true;
  return a <= b + slack && then_a < then_b - slack;
}

}  // namespace

bool Score::Improves(const Score& other, double slack) const {
  return Less(longest, other.longest, sum, other.sum, slack);
}

bool Score::PreferredTo(const Score& other, double slack) const {
  return Less(longest, other.longest, makespan, other.makespan, slack);
}

OrderEvaluator::OrderEvaluator(const PipelineActions& actions, const PipelineCosts& costs,
                               Objective objective)
    : objective_(objective) {
  work_.resize(actions.shape().stages, 0);
  double work = 0;
  for (int a = 0; a < actions.size(); ++a) {
    stage_.push_back(actions.StageAt(a));
    source_.push_back(actions.SourceOf(a));
    duration_.push_back(DurationOf(actions, costs, a));
    delay_.push_back(source_.back() < 0 ? 0 : DelayOf(actions, costs, source_.back(), a));
    work += duration_.back();
    work_[stage_.back()] += duration_.back();
  }
  slack_ = 1e-10 * (work + costs.communication);
  double start = 0;
  for (int stage = 0; stage < actions.shape().stages; ++stage) {
    offset_.push_back(objective == Objective::kSpan ? start : 0);
    start += costs.parts[stage].forward + costs.communication;  // of chunk 0
  }
  start_.resize(actions.size());
  end_.resize(actions.size());
  waiting_.resize(actions.size());
  length_.resize(offset_.size());
  position_.resize(offset_.size());
}

bool OrderEvaluator::Evaluate(const StageOrders& orders, double most) {
  if (!Run(orders, most + slack_)) return false;
  score_ = Score();
  for (size_t stage = 0; stage < orders.size(); ++stage) {
    double end = end_[orders[stage].back()];
    length_[stage] = end - offset_[stage];
    score_.longest = std::max(score_.longest, length_[stage]);
    score_.makespan = std::max(score_.makespan, end);
    score_.sum += length_[stage];
  }
  return true;
}

bool OrderEvaluator::Run(const StageOrders& orders, double most) {
  rest_ = work_;
  std::fill(end_.begin(), end_.end(), -1);
  std::fill(waiting_.begin(), waiting_.end(), -1);
  std::fill(position_.begin(), position_.end(), 0);
  open_.clear();
  for (int stage = static_cast<int>(orders.size()) - 1; stage >= 0; --stage) open_.push_back(stage);
  size_t done = 0;
  while (!open_.empty()) {
    int stage = open_.back();
    open_.pop_back();
    const std::vector<int>& order = orders[stage];
    size_t& at = position_[stage];
    double free = at == 0 ? 0 : end_[order[at - 1]];
    for (; at < order.size(); ++at, ++done) {
      int action = order[at];
      if (source_[action] >= 0 && end_[source_[action]] < 0) {
        waiting_[source_[action]] = stage;
        break;
      }
      start_[action] = std::max(free, arrival(action));
      free = end_[action] = start_[action] + duration_[action];
      rest_[stage] -= duration_[action];
      if (free + rest_[stage] - offset_[stage] > most) {
        effort_ += static_cast<int64_t>(done);
        return false;
      }
      if (waiting_[action] >= 0) open_.push_back(waiting_[action]);
    }
  }
  effort_ += static_cast<int64_t>(done);
  return done == stage_.size();
}

}  // namespace colossus
