#include "parallel/pipeline/compact.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace colossus {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What a stage could do now.
struct Offer {
  int backward = -1, forward = -1, weight = -1;          // first of each in base order that can run
  int first = -1;                                        // of those that do not wait for others
  double next_backward = kNever, next_forward = kNever;  // when the next can, as far as is known
};

class CompactPolicy : public ListScheduler::Policy {
 public:
  CompactPolicy(const PipelineActions& actions, const PipelineCosts& costs, const StageOrders& base,
                double limit, const CompactOptions& options)
      : limit_(limit * (1 + kActivationSlack)), options_(options), left_(actions.size()) {
    double longest = 0;
    for (int a = 0; a < actions.size(); ++a) {
      bool first_chunk = actions.ChunkOf(actions.PartAt(a)) == 0;
      actions_.push_back({actions.KindAt(a), first_chunk, DurationOf(actions, costs, a),
                          KeptAtStart(actions, costs, a), FreedAtEnd(actions, costs, a)});
      longest = std::max(longest, actions_.back().duration);
    }
    slack_ = longest * 1e-9;
    for (const std::vector<int>& order : base) {
      Stage& stage = stages_.emplace_back();
      stage.first_forwards = actions.shape().micro_batches;
      int above = -1;
      for (int action : order) {
        (above < 0 ? stage.top : left_[above].below) = action;
        left_[action].above = std::exchange(above, action);
      }
    }
  }

  int Choose(int stage, double now,
             absl::Span<const ListScheduler::Candidate> candidates) override {
    Stage& state = stages_[stage];
    if (now < state.waits_until - slack_) return kWait;
    Offer offer = Look(state, now, candidates);
    int action = offer.first >= 0 ? offer.first : offer.weight;
    if (action < 0) return kWait;
    action = Instead(state, now, offer, action);
    if (action != kWait) Take(state, action, now);
    return action;
  }

 private:
  struct ActionInfo {
    ActionKind kind;
    bool first_chunk;
    double duration, kept, freed;
  };
  struct Left {  // neighbours in what is left of the base order; -1: none
    int above = -1, below = -1;
    double ready = -1;  // of a candidate
  };
  struct Stage {
    int top = -1;  // of what is left of the base order
    double kept = 0;
    double idle = 0;
    double end = -1;         // of the last action; < 0: none yet
    double waits_until = 0;  // instead of running something shorter
    int first_forwards = 0;  // of chunk 0 left
  };

  // Walks down what is left of the stage's base order until it has met all candidates.
  Offer Look(const Stage& stage, double now,
             absl::Span<const ListScheduler::Candidate> candidates) {
    for (const ListScheduler::Candidate& c : candidates) left_[c.task].ready = c.ready;
    Offer offer;
    double kept = stage.kept, most = kept;  // if all above were run
    size_t met = 0;
    for (int action = stage.top; met < candidates.size(); action = left_[action].below) {
      const ActionInfo& info = actions_[action];
      if (left_[action].ready >= 0) {
        // Overtaking adds to what is kept at each of the actions overtaken.
        bool fits = info.kept == 0 || most + info.kept <= limit_;
        if (fits) Add(action, now, stage, offer);
        left_[action].ready = -1;
        ++met;
      }
      most = std::max(most, kept + info.kept);
      kept += info.kept - info.freed;
    }
    return offer;
  }

  bool WeightsWait(const Stage& stage) const {
    return options_.weights == CompactOptions::Weights::kLast ||
           (options_.weights == CompactOptions::Weights::kAfterForwards &&
            stage.first_forwards == 0);
  }

  void Add(int action, double now, const Stage& stage, Offer& offer) const {
    ActionKind kind = actions_[action].kind;
    bool backward = kind == ActionKind::kBackwardInput, forward = kind == ActionKind::kForward;
    double ready = left_[action].ready;
    if (ready <= now + slack_) {
      int& place = backward ? offer.backward : forward ? offer.forward : offer.weight;
      if (place < 0) place = action;
      if (offer.first < 0 && (backward || forward || !WeightsWait(stage))) offer.first = action;
    } else if (backward || forward) {
      double& next = backward ? offer.next_backward : offer.next_forward;
      next = std::min(next, ready);
    }
  }

  // `action`, another that is as well, or kWait for one that `action` would hold up.
  int Instead(Stage& stage, double now, const Offer& offer, int action) const {
    ActionKind kind = actions_[action].kind;
    if (kind == ActionKind::kBackwardInput) return action;
    bool weight = kind == ActionKind::kBackwardWeight;
    CompactOptions::Wait wait = weight ? options_.before_weights : options_.before_forwards;
    double next = weight ? std::min(offer.next_backward, offer.next_forward) : offer.next_backward;
    if (wait == CompactOptions::Wait::kNever || next >= now + actions_[action].duration - slack_) {
      return action;
    }
    if (stage.end >= 0 && (wait == CompactOptions::Wait::kAlways ||
                           stage.idle + next - now <= options_.idle_allowance + slack_)) {
      stage.waits_until = next;
      return kWait;
    }
    bool fits =
        !weight && offer.weight >= 0 && next >= now + actions_[offer.weight].duration - slack_;
    return fits ? offer.weight : action;
  }

  void Take(Stage& stage, int action, double now) {
    const Left& left = left_[action];
    (left.above < 0 ? stage.top : left_[left.above].below) = left.below;
    if (left.below >= 0) left_[left.below].above = left.above;
    const ActionInfo& info = actions_[action];
    stage.kept += info.kept - info.freed;
    if (stage.end >= 0) stage.idle += std::max(0.0, now - stage.end);
    stage.end = now + info.duration;
    if (info.kind == ActionKind::kForward && info.first_chunk) --stage.first_forwards;
  }

  double limit_, slack_ = 0;
  CompactOptions options_;
  std::vector<ActionInfo> actions_;
  std::vector<Left> left_;
  std::vector<Stage> stages_;
};

}  // namespace

StageOrders Compact(const ListScheduler& scheduler, const PipelineActions& actions,
                    const PipelineCosts& costs, const StageOrders& base, double limit,
                    const CompactOptions& options) {
  CHECK(actions.split_backward());
  CompactPolicy policy(actions, costs, base, limit, options);
  StageOrders orders(base.size());
  for (int action : scheduler.Run(policy).order) {
    orders[actions.StageAt(action)].push_back(action);
  }
  return orders;
}

}  // namespace colossus
