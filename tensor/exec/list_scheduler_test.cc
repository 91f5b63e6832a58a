#include "tensor/exec/list_scheduler.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

TEST(ListSchedulerTest, WithoutRulesTasksRunInTheOrderOfAdding) {
  ListScheduler s;
  for (int i = 0; i < 3; ++i) s.AddTask(0, 2);
  ListScheduler::Timetable t = s.Run();
  EXPECT_THAT(t.order, ElementsAre(0, 1, 2));
  EXPECT_THAT(t.start, ElementsAre(0, 2, 4));
  EXPECT_THAT(t.end, ElementsAre(2, 4, 6));
}

TEST(ListSchedulerTest, ResourcesRunAtOnceAndWaitForDelays) {
  ListScheduler s;
  int a = s.AddTask(0, 2), b = s.AddTask(1, 3), c = s.AddTask(0, 1), d = s.AddTask(1, 1);
  s.MustRunBefore(a, b, 0.5);
  s.MustRunBefore(b, c, 0.5);
  ListScheduler::Timetable t = s.Run();
  EXPECT_EQ(t.start[d], 0);  // b is not there yet
  EXPECT_EQ(t.start[b], 2.5);
  EXPECT_EQ(t.start[c], 6);
  EXPECT_EQ(t.end[c], 7);
}

TEST(ListSchedulerTest, ATaskThatEndsWhenAnotherResourceIsFreeIsSeen) {
  // Resource 0 is free at 2, as task 1 on resource 1 ends, whose successor was added first.
  ListScheduler s;
  int first = s.AddTask(0, 1), source = s.AddTask(1, 2), busy = s.AddTask(0, 2),
      other = s.AddTask(0, 1);
  s.MustRunBefore(source, first);
  ListScheduler::Timetable t = s.Run();
  EXPECT_EQ(t.start[busy], 0);
  EXPECT_EQ(t.start[first], 2);
  EXPECT_EQ(t.start[other], 3);
}

TEST(ListSchedulerTest, TasksInACircleAreLeftOut) {
  ListScheduler s;
  int a = s.AddTask(), b = s.AddTask(), c = s.AddTask(), d = s.AddTask();
  s.MustRunBefore(a, b);
  s.MustRunBefore(b, c);
  s.MustRunBefore(c, b);
  s.MustRunBefore(d, d);
  EXPECT_THAT(s.Run().order, ElementsAre(a));
}

// Takes the last task, and waits for it where it is not ready.
class LastAdded : public ListScheduler::Policy {
 public:
  int Choose(int, double, absl::Span<const ListScheduler::Candidate> candidates) override {
    return candidates.back().task;
  }
};

TEST(ListSchedulerTest, APolicyMayChooseAndWait) {
  ListScheduler s;
  int a = s.AddTask(0, 1), b = s.AddTask(1, 5), c = s.AddTask(0, 1);
  s.MustRunBefore(b, c, 1);
  // At 0 resource 0 is asked before resource 1 has started b, so c is unknown; then it is free
  // at 1.
  int d = s.AddTask(0, 1);
  LastAdded policy;
  ListScheduler::Timetable t = s.Run(policy);
  EXPECT_EQ(t.start[d], 0);
  EXPECT_EQ(t.start[c], 6);
  EXPECT_EQ(t.start[a], 7);
}

class Waiting : public ListScheduler::Policy {
 public:
  int Choose(int, double now, absl::Span<const ListScheduler::Candidate> candidates) override {
    asked.push_back(now);
    return now < 4 ? kWait : candidates.front().task;
  }
  std::vector<double> asked;
};

TEST(ListSchedulerTest, APolicyThatWaitsIsAskedAgainWhenATaskMayStart) {
  ListScheduler s;
  int a = s.AddTask(1, 3), b = s.AddTask(0, 1), c = s.AddTask(0, 1);
  s.MustRunBefore(a, c, 1);
  Waiting policy;
  ListScheduler::Timetable t = s.Run(policy);
  EXPECT_TRUE(t.order.empty());  // a never starts, so nothing happens later than 0
  EXPECT_THAT(policy.asked, ElementsAre(0, 0));
  static_cast<void>(b);
}

// The order that a rank's step has always had: of what is ready, the smallest index.
std::vector<int> PlainOrder(int tasks, const std::vector<std::pair<int, int>>& rules) {
  std::vector<std::vector<int>> after(tasks);
  std::vector<int> count(tasks, 0), order;
  for (const auto& [before, later] : rules) {
    after[before].push_back(later);
    ++count[later];
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int t = 0; t < tasks; ++t) {
    if (count[t] == 0) ready.push(t);
  }
  while (!ready.empty()) {
    int t = ready.top();
    ready.pop();
    order.push_back(t);
    for (int later : after[t]) {
      if (--count[later] == 0) ready.push(later);
    }
  }
  return order;
}

TEST(ListSchedulerTest, WithoutDurationsItIsTheOrderOfAStep) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    int tasks = 1 + static_cast<int>(random() % 30);
    int rules = static_cast<int>(random() % 60);
    ListScheduler s;
    for (int t = 0; t < tasks; ++t) s.AddTask();
    std::vector<std::pair<int, int>> list;
    for (int r = 0; r < rules; ++r) {
      int a = static_cast<int>(random() % tasks), b = static_cast<int>(random() % tasks);
      if (a == b || (round % 4 != 0 && a * 7 % tasks > b * 7 % tasks)) continue;  // some circles
      list.emplace_back(a, b);
      s.MustRunBefore(a, b);
    }
    EXPECT_EQ(s.Run().order, PlainOrder(tasks, list)) << "round " << round;
  }
}

TEST(ListSchedulerTest, TimesKeepEveryRule) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    int tasks = 2 + static_cast<int>(random() % 40);
    struct Edge {
      int before, later;
      double delay;
    };
    std::vector<Edge> edges;
    std::vector<int> resource;
    ListScheduler s;
    for (int t = 0; t < tasks; ++t) {
      resource.push_back(static_cast<int>(random() % 4));
      s.AddTask(resource.back(), static_cast<double>(random() % 3));
    }
    for (int e = 0; e < tasks; ++e) {
      int a = static_cast<int>(random() % tasks), b = static_cast<int>(random() % tasks);
      if (a == b) continue;
      edges.push_back({std::min(a, b), std::max(a, b), static_cast<double>(random() % 2)});
      s.MustRunBefore(edges.back().before, edges.back().later, edges.back().delay);
    }
    ListScheduler::Timetable t = s.Run();
    ASSERT_EQ(static_cast<int>(t.order.size()), tasks);
    for (const Edge& e : edges) EXPECT_GE(t.start[e.later], t.end[e.before] + e.delay);
    std::vector<double> free(4, 0);
    for (int task : t.order) {
      EXPECT_GE(t.start[task], free[resource[task]]);
      free[resource[task]] = t.end[task];
    }
  }
}

}  // namespace
}  // namespace colossus
