#include "tensor/exec/list_scheduler.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"

namespace colossus {
namespace {

// The first task that may start.
class FirstAdded : public ListScheduler::Policy {
 public:
  int Choose(int, double now, absl::Span<const ListScheduler::Candidate> candidates) override {
    for (const ListScheduler::Candidate& candidate : candidates) {
      if (candidate.ready <= now) return candidate.task;
    }
    return kWait;
  }
};

}  // namespace

class ListSchedulerRun {
 public:
  ListSchedulerRun(const ListScheduler& scheduler, ListScheduler::Policy& policy)
      : tasks_(scheduler.tasks_),
        policy_(policy),
        candidates_(scheduler.resources_),
        free_(scheduler.resources_, 0),
        waits_for_(tasks_.size()),
        ready_(tasks_.size(), 0) {
    timetable_.start.resize(tasks_.size());
    timetable_.end.resize(tasks_.size());
  }

  ListScheduler::Timetable Run() {
    for (size_t t = 0; t < tasks_.size(); ++t) {
      waits_for_[t] = tasks_[t].predecessors;
      if (waits_for_[t] == 0) AddCandidate(static_cast<int>(t), 0);
    }
    while (!wakes_.empty()) {
      auto [now, resource] = wakes_.top();
      wakes_.pop();
      // Busy: there is another wake at its end.
      if (free_[resource] > now || candidates_[resource].empty()) continue;
      int task = policy_.Choose(resource, now, candidates_[resource]);
      if (task != ListScheduler::Policy::kWait) Start(task, now);
    }
    return std::move(timetable_);
  }

 private:
  using Wake = std::pair<double, int>;  // time, resource

  void AddCandidate(int task, double now) {
    int resource = tasks_[task].resource;
    std::vector<ListScheduler::Candidate>& list = candidates_[resource];
    list.insert(Position(list, task), {task, ready_[task]});
    wakes_.push({std::max(now, ready_[task]), resource});
  }

  static std::vector<ListScheduler::Candidate>::iterator Position(
      std::vector<ListScheduler::Candidate>& list, int task) {
    return std::lower_bound(list.begin(), list.end(), task,
                            [](const ListScheduler::Candidate& a, int b) { return a.task < b; });
  }

  void Start(int task, double now) {
    int resource = tasks_[task].resource;
    std::vector<ListScheduler::Candidate>& list = candidates_[resource];
    auto position = Position(list, task);
    CHECK(position != list.end() && position->task == task) << "not a candidate: " << task;
    list.erase(position);
    double start = std::max(now, ready_[task]);
    double end = start + tasks_[task].duration;
    timetable_.order.push_back(task);
    timetable_.start[task] = start;
    timetable_.end[task] = free_[resource] = end;
    wakes_.push({end, resource});
    for (const ListScheduler::Rule& rule : tasks_[task].rules) {
      ready_[rule.later] = std::max(ready_[rule.later], end + rule.delay);
      if (--waits_for_[rule.later] == 0) AddCandidate(rule.later, now);
    }
  }

  const std::vector<ListScheduler::Task>& tasks_;
  ListScheduler::Policy& policy_;
  std::vector<std::vector<ListScheduler::Candidate>> candidates_;  // by resource
  std::vector<double> free_;                                       // by resource: since when
  std::vector<int> waits_for_;                                     // rules not yet fulfilled
  std::vector<double> ready_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<Wake>> wakes_;
  ListScheduler::Timetable timetable_;
};

int ListScheduler::AddTask(int resource, double duration) {
  CHECK(resource >= 0 && duration >= 0);
  resources_ = std::max(resources_, resource + 1);
  Task task;
  task.resource = resource;
  task.duration = duration;
  tasks_.push_back(std::move(task));
  return size() - 1;
}

void ListScheduler::MustRunBefore(int task, int later, double delay) {
  CHECK(task >= 0 && task < size() && later >= 0 && later < size() && delay >= 0);
  tasks_[task].rules.push_back({later, delay});
  ++tasks_[later].predecessors;
}

ListScheduler::Timetable ListScheduler::Run() const {
  FirstAdded policy;
  return Run(policy);
}

ListScheduler::Timetable ListScheduler::Run(Policy& policy) const {
  return ListSchedulerRun(*this, policy).Run();
}

}  // namespace colossus
