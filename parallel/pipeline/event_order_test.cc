#include "parallel/pipeline/event_order.h"

#include <random>
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/fixed_schedules.h"
#include "parallel/pipeline/schedule_list.h"

namespace colossus {
namespace {

// What a model of `parts` parts sends: activations on, their gradients back, and something from the
// first part to the backward of every other stage.
std::vector<Message> MessagesOf(const PipelineActions& actions) {
  const ActionKind backward =
      actions.split_backward() ? ActionKind::kBackwardInput : ActionKind::kBackward;
  const int parts = actions.shape().parts();
  std::vector<Message> messages;
  const auto add = [&](Work from, Work to) {
    Message message;
    message.work = from;
    message.from = actions.StageOf(from.part);
    message.to = actions.StageOf(to.part);
    message.readers = {to};
    if (message.from != message.to) messages.push_back(message);
  };
  for (int part = 1; part < parts; ++part) {
    add({ActionKind::kForward, part - 1}, {ActionKind::kForward, part});
    add({backward, part}, {backward, part - 1});
    add({ActionKind::kForward, 0}, {backward, part});
  }
  return messages;
}

// Protects: what a rank does in this order never waits for what another does later: every action
// once, in its stage's order, behind the messages it reads, which stand behind what makes them.
void ExpectRunnable(const Timeline& timeline) {
  const PipelineActions actions = timeline.actions();
  const std::vector<Message> messages = MessagesOf(actions);
  const std::vector<PipelineEvent> events = OrderEvents(timeline, messages);
  std::vector<int> at(static_cast<size_t>(actions.size()), -1);
  StageOrders orders(static_cast<size_t>(actions.shape().stages));
  int sent = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].action < 0) continue;
    ASSERT_EQ(at[events[i].action], -1);
    at[events[i].action] = static_cast<int>(i);
    orders[actions.StageAt(events[i].action)].push_back(events[i].action);
  }
  EXPECT_EQ(orders, timeline.orders());
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].message < 0) continue;
    ++sent;
    const Message& message = messages[events[i].message];
    const auto index = [&](const Work& work) {
      return actions.Index({work.kind, events[i].micro_batch, actions.ChunkOf(work.part),
                            actions.StageOf(work.part)});
    };
    EXPECT_LT(at[index(message.work)], static_cast<int>(i));
    EXPECT_GT(at[index(message.readers[0])], static_cast<int>(i));
  }
  EXPECT_EQ(sent, static_cast<int>(messages.size()) * actions.shape().micro_batches);
}

TEST(EventOrderTest, EverySchedule) {
  std::mt19937_64 random(TestSeed());
  int ran = 0;
  for (const Schedule& schedule : FixedSchedules()) {
    for (int round = 0; round < 40; ++round) {
      ScheduleInput input;
      input.shape = {2 + static_cast<int>(random() % 4), schedule.default_chunks,
                     1 + static_cast<int>(random() % 9)};
      StageCosts costs;
      costs.forward = 1 + static_cast<double>(random() % 5);
      costs.backward_input = 1 + static_cast<double>(random() % 5);
      costs.backward_weight = static_cast<double>(random() % 5);
      input.costs = UniformCosts(input.shape, costs);
      for (PartCosts& part : input.costs.parts) part.forward *= 1 + static_cast<int>(random() % 3);
      absl::StatusOr<Timeline> timeline = Simulate(schedule, input);
      if (!timeline.ok()) continue;  // sizes it does not define
      ++ran;
      SCOPED_TRACE(std::string(schedule.name) + ", " + ToString(input.shape));
      ExpectRunnable(*timeline);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(ran, 200);
}

// Protects: a message that is on its way while its reader's stage is busy comes before that work,
// not after it.
TEST(EventOrderTest, MessagesTravelWhileStagesCompute) {
  ScheduleInput input;
  input.shape = {2, 1, 4};
  input.costs = UniformCosts(input.shape, StageCosts());
  ASSERT_OK_AND_ASSIGN(const Schedule* schedule, FindSchedule("1f1b"));
  ASSERT_OK_AND_ASSIGN(const Timeline timeline, Simulate(*schedule, input));
  const PipelineActions actions = timeline.actions();
  const std::vector<Message> messages = MessagesOf(actions);
  // The last stage runs F0 B0 F1 B1 ...: the input of F1 is made while B0 runs.
  int busy = -1, message = -1;
  const std::vector<PipelineEvent> events = OrderEvents(timeline, messages);
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].action == actions.Index({ActionKind::kBackward, 0, 0, 1})) {
      busy = static_cast<int>(i);
    }
    if (events[i].message >= 0 && events[i].micro_batch == 1 && message < 0) {
      message = static_cast<int>(i);
    }
  }
  EXPECT_LT(message, busy);
}

}  // namespace
}  // namespace colossus
