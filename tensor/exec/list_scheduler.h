// ListScheduler: decides in virtual time which task each resource does next.
//
// Purpose: the one scheduler behind every order. A task takes a resource for a duration; a rule
// says that it must end, and a delay pass, before another may start. A resource that is free takes,
// of its tasks that may start, the one that was added first, or the one that a policy chooses. The
// step of a rank is one resource and durations of 0; a pipeline in virtual time has a resource for
// each stage, and messages are delays.
// Thread-safety: const methods may run at once, each with a policy of its own.
// Ownership: plain values.
//
//   ListScheduler s;
//   int forward = s.AddTask(/*resource=*/0, /*duration=*/2), next = s.AddTask(1, 2);
//   s.MustRunBefore(forward, next, /*delay=*/0.5);
//   ListScheduler::Timetable t = s.Run();  // t.start[next] == 2.5
#ifndef COLOSSUS_TENSOR_EXEC_LIST_SCHEDULER_H_
#define COLOSSUS_TENSOR_EXEC_LIST_SCHEDULER_H_

#include <vector>

#include "absl/types/span.h"

namespace colossus {

class ListScheduler {
 public:
  struct Rule {
    int later = 0;     // a task
    double delay = 0;  // between the end of the task that has the rule and the start of `later`
  };

  // A task whose predecessors have all been started, so that it is known when it may start.
  struct Candidate {
    int task = 0;
    double ready = 0;
  };

  // What a free resource does next; asked whenever it may have changed.
  class Policy {
   public:
    static constexpr int kWait = -1;

    virtual ~Policy() = default;
    // One of `candidates` (of this resource, by task, not empty), or kWait to be asked again when
    // the next of its tasks may start. A candidate that is ready later than `now` keeps the
    // resource waiting for it.
    virtual int Choose(int resource, double now, absl::Span<const Candidate> candidates) = 0;
  };

  struct Timetable {
    std::vector<int> order;          // as chosen; fewer than all tasks: some wait in a circle
    std::vector<double> start, end;  // by task; of those in `order`
  };

  // Returns the task, counted from 0. REQUIRES: duration >= 0.
  int AddTask(int resource = 0, double duration = 0);
  // REQUIRES: delay >= 0.
  void MustRunBefore(int task, int later, double delay = 0);

  int size() const { return static_cast<int>(tasks_.size()); }
  // In the order in which they were given; the same task may be named more than once.
  const std::vector<Rule>& rules(int task) const { return tasks_[task].rules; }

  Timetable Run() const;
  Timetable Run(Policy& policy) const;

 private:
  struct Task {
    int resource = 0;
    double duration = 0;
    int predecessors = 0;  // rules that name this task as `later`
    std::vector<Rule> rules;
  };

  std::vector<Task> tasks_;
  int resources_ = 0;
  friend class ListSchedulerRun;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_LIST_SCHEDULER_H_
