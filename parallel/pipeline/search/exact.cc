#include "parallel/pipeline/search/exact.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "parallel/pipeline/search/lower_bound.h"

namespace colossus {
namespace {

// Actions run, of each part: forwards, backward-inputs, backward-weights.
using Counts = std::vector<uint8_t>;

struct Beginning {
  std::vector<double> times;  // when stages are free; ends of actions whose messages are not read
  int history = -1;
};

class ExactSearch {
 public:
  ExactSearch(const PipelineActions& actions, const PipelineCosts& costs, double limit,
              Objective objective, double known, double slack, int beginnings)
      : actions_(actions),
        costs_(costs),
        limit_(limit),
        shortest_(known),
        slack_(slack),
        left_(beginnings) {
    double start = 0;
    for (int stage = 0; stage < stages(); ++stage) {
      offset_.push_back(objective == Objective::kSpan ? start : 0);
      start += costs.parts[stage].forward + costs.communication;
    }
    for (int part = 0; part < parts(); ++part) {
      early_weights_.push_back(EarlyWeights(costs.parts[part], micro_batches(), limit));
    }
  }

  ExactResult Solve() {
    Layer layer;
    Add({std::vector<double>(stages(), 0), -1}, layer[Counts(3 * parts(), 0)]);
    for (int ran = 0; ran < actions_.size(); ++ran) {
      Layer next;
      for (const auto& [counts, beginnings] : layer) {
        for (const Beginning& beginning : beginnings) Extend(counts, beginning, next);
        if (left_ < 0) return {};
      }
      layer = std::move(next);
    }
    ExactResult result;
    result.complete = true;
    int best = -1;
    for (const auto& [counts, beginnings] : layer) {
      for (const Beginning& end : beginnings) {
        double longest = 0;
        for (int s = 0; s < stages(); ++s) longest = std::max(longest, end.times[s] - offset_[s]);
        if (longest >= shortest_ - slack_) continue;
        shortest_ = longest;
        best = end.history;
      }
    }
    if (best >= 0) result.orders = OrdersOf(best);
    return result;
  }

 private:
  // std::map: the same order of beginnings, and so the same result, in every run.
  using Layer = std::map<Counts, std::vector<Beginning>>;
  struct Step {
    int before, action;
  };

  int stages() const { return actions_.shape().stages; }
  int parts() const { return actions_.shape().parts(); }
  int micro_batches() const { return actions_.shape().micro_batches; }
  static int Forwards(const Counts& c, int part) { return c[3 * part]; }
  static int Inputs(const Counts& c, int part) { return c[3 * part + 1]; }
  static int Weights(const Counts& c, int part) { return c[3 * part + 2]; }

  // Messages on the way from part to part + 1 (forwards) or part - 1 (backwards); those that stay
  // on a stage are there at once.
  int ForwardQueue(const Counts& c, int part) const {
    if (part + 1 >= parts() || actions_.StageOf(part) == actions_.StageOf(part + 1)) return 0;
    return Forwards(c, part) - Forwards(c, part + 1);
  }
  int BackwardQueue(const Counts& c, int part) const {
    if (part == 0 || actions_.StageOf(part) == actions_.StageOf(part - 1)) return 0;
    return Inputs(c, part) - Inputs(c, part - 1);
  }
  // Where the messages of `part` begin in Beginning::times.
  int ForwardPlace(const Counts& c, int part) const {
    int place = stages();
    for (int p = 0; p < part; ++p) place += ForwardQueue(c, p);
    return place;
  }
  int BackwardPlace(const Counts& c, int part) const {
    int place = ForwardPlace(c, parts());
    for (int p = 0; p < part; ++p) place += BackwardQueue(c, p);
    return place;
  }

  double Kept(const Counts& c, int stage) const {
    double kept = 0;
    for (int part = 0; part < parts(); ++part) {
      if (actions_.StageOf(part) != stage) continue;
      kept += (Forwards(c, part) - Inputs(c, part)) * costs_.parts[part].activation +
              (Inputs(c, part) - Weights(c, part)) * costs_.parts[part].weight_activation;
    }
    return kept;
  }

  void Extend(const Counts& counts, const Beginning& beginning, Layer& next) {
    for (int part = 0; part < parts(); ++part) {
      if (Forwards(counts, part) < micro_batches()) Forward(counts, beginning, part, next);
      if (Inputs(counts, part) < micro_batches()) Backward(counts, beginning, part, next);
      if (Weights(counts, part) < Inputs(counts, part)) {
        Finish(counts, beginning, part, 2, 0, costs_.parts[part].backward_weight, next);
      }
    }
  }

  void Forward(const Counts& counts, Beginning beginning, int part, Layer& next) {
    const PartCosts& cost = costs_.parts[part];
    if (Kept(counts, actions_.StageOf(part)) + cost.activation > limit_ * (1 + kActivationSlack)) {
      return;
    }
    double arrival = 0;
    if (part > 0) {
      if (Forwards(counts, part - 1) == Forwards(counts, part)) return;
      if (ForwardQueue(counts, part - 1) > 0) {
        auto place = beginning.times.begin() + ForwardPlace(counts, part - 1);
        arrival = *place + costs_.communication;
        beginning.times.erase(place);
      }
    }
    Finish(counts, beginning, part, 0, arrival, cost.forward, next);
  }

  void Backward(const Counts& counts, Beginning beginning, int part, Layer& next) {
    double arrival = 0;
    if (part == parts() - 1) {
      if (Inputs(counts, part) == Forwards(counts, part)) return;
    } else {
      if (Inputs(counts, part + 1) == Inputs(counts, part)) return;
      if (BackwardQueue(counts, part + 1) > 0) {
        auto place = beginning.times.begin() + BackwardPlace(counts, part + 1);
        arrival = *place + costs_.communication;
        beginning.times.erase(place);
      }
    }
    Finish(counts, beginning, part, 1, arrival, costs_.parts[part].backward_input, next);
  }

  // Runs the next action of a lane, whose message has been taken out of `beginning`.
  void Finish(const Counts& counts, Beginning beginning, int part, int kind, double arrival,
              double duration, Layer& next) {
    constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kBackwardInput,
                                     ActionKind::kBackwardWeight};
    int stage = actions_.StageOf(part), micro_batch = counts[3 * part + kind];
    double end = std::max(beginning.times[stage], arrival) + duration;
    beginning.times[stage] = end;
    Counts after = counts;
    ++after[3 * part + kind];
    if (kind == 0 && ForwardQueue(after, part) > 0) {
      int place = ForwardPlace(after, part) + ForwardQueue(after, part) - 1;
      beginning.times.insert(beginning.times.begin() + place, end);
    } else if (kind == 1 && BackwardQueue(after, part) > 0) {
      int place = BackwardPlace(after, part) + BackwardQueue(after, part) - 1;
      beginning.times.insert(beginning.times.begin() + place, end);
    }
    if (TooLong(after, beginning)) return;
    --left_;
    int action = actions_.Index({kKinds[kind], micro_batch, actions_.ChunkOf(part), stage});
    int before = std::exchange(beginning.history, static_cast<int>(steps_.size()));
    if (Add(std::move(beginning), next[after])) steps_.push_back({before, action});
  }

  // Whether no end of this beginning is shorter than the shortest known.
  bool TooLong(const Counts& c, const Beginning& beginning) const {
    const double most = shortest_ - slack_;
    const int m = micro_batches();
    std::vector<double> end(beginning.times.begin(), beginning.times.begin() + stages());
    for (int part = 0; part < parts(); ++part) {
      const PartCosts& cost = costs_.parts[part];
      double& stage = end[actions_.StageOf(part)];
      stage += (m - Forwards(c, part)) * cost.forward;
      stage += (m - Inputs(c, part)) * cost.backward_input;
    }
    if (actions_.shape().chunks == 1 && WayBackTooLong(c, end, most)) return true;
    for (int part = 0; part < parts(); ++part) {
      end[actions_.StageOf(part)] += (m - Weights(c, part)) * costs_.parts[part].backward_weight;
    }
    for (int s = 0; s < stages(); ++s) {
      if (end[s] - offset_[s] >= most) return true;
    }
    return false;
  }

  // `end`: of the forwards and backward-inputs of each part, without any wait.
  bool WayBackTooLong(const Counts& c, const std::vector<double>& end, double most) const {
    for (int part = 1; part < parts(); ++part) {
      if (Inputs(c, part) == micro_batches()) continue;
      double way = end[part] + std::max(0, early_weights_[part] - Weights(c, part)) *
                                   costs_.parts[part].backward_weight;
      for (int above = part - 1; above >= 0; --above) {
        way += costs_.communication + costs_.parts[above].backward_input;
        if (way + costs_.parts[above].backward_weight - offset_[above] >= most) return true;
      }
    }
    return false;
  }

  // False if one of `all` is nowhere later.
  bool Add(Beginning beginning, std::vector<Beginning>& all) const {
    auto nowhere_later = [this](const Beginning& a, const Beginning& b) {
      for (size_t i = 0; i < a.times.size(); ++i) {
        if (a.times[i] > b.times[i] + slack_) return false;
      }
      return true;
    };
    for (const Beginning& other : all) {
      if (nowhere_later(other, beginning)) return false;
    }
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Beginning& b) { return nowhere_later(beginning, b); }),
              all.end());
    all.push_back(std::move(beginning));
    return true;
  }

  StageOrders OrdersOf(int history) const {
    StageOrders orders(stages());
    for (; history >= 0; history = steps_[history].before) {
      int action = steps_[history].action;
      orders[actions_.StageAt(action)].push_back(action);
    }
    for (std::vector<int>& order : orders) std::reverse(order.begin(), order.end());
    return orders;
  }

  const PipelineActions& actions_;
  const PipelineCosts& costs_;
  const double limit_;
  double shortest_;
  const double slack_;
  int left_;
  std::vector<double> offset_;
  std::vector<int> early_weights_;
  std::vector<Step> steps_;
};

}  // namespace

ExactResult SolveExactly(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                         Objective objective, double known, double slack, int beginnings) {
  CHECK(actions.split_backward());
  if (actions.shape().micro_batches > 255) return {};  // counts are bytes; far too large anyway
  return ExactSearch(actions, costs, limit, objective, known, slack, beginnings).Solve();
}

}  // namespace colossus
