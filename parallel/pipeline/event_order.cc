#include "parallel/pipeline/event_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace colossus {
namespace {

class EventOrderer {
 public:
  EventOrderer(const Timeline& timeline, const std::vector<Message>& messages)
      : actions_(timeline.actions()),
        messages_(messages),
        orders_(timeline.orders()),
        start_(actions_.size(), 0),
        end_(actions_.size(), 0),
        position_(actions_.size(), 0),
        sources_(actions_.size()),
        sent_(actions_.size()),
        done_(actions_.size(), false) {
    for (size_t stage = 0; stage < orders_.size(); ++stage) {
      for (size_t i = 0; i < orders_[stage].size(); ++i) {
        const int action = orders_[stage][i];
        position_[action] = static_cast<int>(i);
        start_[action] = timeline.stages[stage][i].start;
        end_[action] = timeline.stages[stage][i].end;
      }
    }
    FindMessages();
  }

  std::vector<PipelineEvent> Run() {
    std::vector<int> by_time(actions_.size());
    for (int action = 0; action < actions_.size(); ++action) by_time[action] = action;
    std::stable_sort(by_time.begin(), by_time.end(), [&](int a, int b) {
      return std::make_pair(start_[a], end_[a]) < std::make_pair(start_[b], end_[b]);
    });
    for (int action : by_time) {
      if (done_[action]) continue;
      AddEarlyMessages(action);
      Add(action);
    }
    return std::move(events_);
  }

 private:
  int IndexOf(const Work& work, int micro_batch) const {
    return actions_.Index(
        {work.kind, micro_batch, actions_.ChunkOf(work.part), actions_.StageOf(work.part)});
  }

  void FindMessages() {
    for (size_t i = 0; i < messages_.size(); ++i) {
      for (int m = 0; m < actions_.shape().micro_batches; ++m) {
        const int maker = IndexOf(messages_[i].work, m);
        sent_[maker].push_back(static_cast<int>(i));
        int first = -1;
        for (const Work& work : messages_[i].readers) {
          const int reader = IndexOf(work, m);
          if (first < 0 || position_[reader] < position_[first]) first = reader;
        }
        if (first >= 0) sources_[first].push_back(maker);
      }
    }
  }

  // What the stage's next action reads comes before `action` if it is on its way by then.
  void AddEarlyMessages(int action) {
    const std::vector<int>& order = orders_[actions_.StageAt(action)];
    const size_t next = static_cast<size_t>(position_[action]) + 1;
    if (next == order.size()) return;
    for (int maker : sources_[order[next]]) {
      // It cannot depend on `action`, which ends later.
      if (start_[maker] < end_[action]) Add(maker);
    }
  }

  // The action, after all that it depends on.
  void Add(int action) {
    std::vector<int> open = {action};
    while (!open.empty()) {
      const int top = open.back();
      if (done_[top]) {
        open.pop_back();
        continue;
      }
      const size_t before = open.size();
      const std::vector<int>& order = orders_[actions_.StageAt(top)];
      if (position_[top] > 0 && !done_[order[position_[top] - 1]]) {
        open.push_back(order[position_[top] - 1]);
      }
      for (int maker : sources_[top]) {
        if (!done_[maker]) open.push_back(maker);
      }
      CHECK_LE(open.size(), 8 * done_.size()) << "actions wait for each other";
      if (open.size() > before) continue;
      open.pop_back();
      Emit(top);
    }
  }

  void Emit(int action) {
    done_[action] = true;
    const int micro_batch = actions_.MicroBatchAt(action);
    events_.push_back({.action = action, .micro_batch = micro_batch});
    for (int message : sent_[action]) {
      events_.push_back({.message = message, .micro_batch = micro_batch});
    }
  }

  const PipelineActions actions_;
  const std::vector<Message>& messages_;
  const StageOrders orders_;
  std::vector<double> start_, end_;        // by action
  std::vector<int> position_;              // by action: in its stage's order
  std::vector<std::vector<int>> sources_;  // by action: makers of the messages it reads first
  std::vector<std::vector<int>> sent_;     // by action: the messages it makes
  std::vector<bool> done_;
  std::vector<PipelineEvent> events_;
};

}  // namespace

std::vector<PipelineEvent> OrderEvents(const Timeline& timeline,
                                       const std::vector<Message>& messages) {
  return EventOrderer(timeline, messages).Run();
}

}  // namespace colossus
