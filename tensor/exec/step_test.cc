#include "tensor/exec/step.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A segment named `name` whose graph is `body`.
StepSegment Part(const std::string& name, const std::string& body) {
  absl::StatusOr<Graph> graph = ParseGraph("graph " + name + " { " + body + " }");
  EXPECT_OK(graph.status()) << body;
  return {{name, std::make_shared<const Graph>(*std::move(graph))}, {}, {}};
}

// y = tanh(x)
StepSegment Tanh(const std::string& name, const std::string& x, const std::string& y) {
  return Part(name, absl::StrCat("feed %", x, ": f32[3] %", y, ": f32[3] = tanh(%", x, ") output ",
                                 y, " = %", y));
}

constexpr char kState[] =
    "state %w: f32[3] {role=parameter, global=[3], disk=[3], axes=[embed], trainable} ";

// "name.micro_batch", in running order.
std::vector<std::string> Order(const Step& step) {
  std::vector<std::string> order;
  for (const Call& call : step.calls) {
    order.push_back(absl::StrCat(step.segments[call.segment].segment.name, ".", call.micro_batch));
  }
  return order;
}

TEST(StepTest, FeedsAreBoundByNameAndMicroBatch) {
  StepBuilder b({"phase"});
  int f = b.AddSegment(Tanh("f", "x", "y")), g = b.AddSegment(Tanh("g", "y", "z"));
  for (int m = 0; m < 2; ++m) b.AddCall(f, m, 0);
  for (int m = 0; m < 2; ++m) b.AddCall(g, m, 0);
  b.AddCall(g, -1, 0);  // nothing makes its y: the host does
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  EXPECT_THAT(Order(step), ElementsAre("f.0", "f.1", "g.0", "g.1", "g.-1"));
  EXPECT_EQ(step.calls[0].sources[0].call, -1);
  EXPECT_EQ(step.calls[2].sources[0].call, 0);
  EXPECT_EQ(step.calls[3].sources[0].call, 1);
  EXPECT_EQ(step.graph_of(step.calls[1]).value(step.calls[3].sources[0].value).name, "y");
  EXPECT_EQ(step.calls[4].sources[0].call, -1);
}

TEST(StepTest, CallsRunAfterWhatTheyReadWhateverTheOrderOfAdding) {
  StepBuilder b({"phase"});
  int f = b.AddSegment(Tanh("f", "x", "y")), g = b.AddSegment(Tanh("g", "y", "z"));
  b.AddCall(g, 1, 0);
  b.AddCall(g, 0, 0);
  b.AddCall(f, 0, 0);
  b.AddCall(f, 1, 0);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  EXPECT_THAT(Order(step), ElementsAre("f.0", "g.0", "f.1", "g.1"));
  EXPECT_EQ(step.calls[1].sources[0].call, 0);
  EXPECT_EQ(step.calls[3].sources[0].call, 2);
}

TEST(StepTest, CarriesComeFromThePreviousAndTheLastMicroBatch) {
  StepBuilder b({"accumulate", "update"});
  int start = b.AddSegment(Tanh("start", "x", "sum"));
  StepSegment add = Part("add", "feed %before: f32[3] feed %x: f32[3] "
                                "%sum: f32[3] = add(%before, %x) output sum = %sum");
  add.carries = {{"before", "sum", Carry::From::kPrevious}};
  StepSegment finish = Tanh("finish", "total", "mean");
  finish.carries = {{"total", "sum", Carry::From::kLast}};
  StepSegment same = Tanh("same", "here", "there");
  same.carries = {{"here", "sum", Carry::From::kSame}};
  int a = b.AddSegment(add), f = b.AddSegment(finish), s = b.AddSegment(same);
  b.AddCall(f, -1, 1);
  for (int m = 2; m >= 0; --m) b.AddCall(a, m, 0);
  b.AddCall(start, -1, 0);
  b.AddCall(s, 1, 0);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  EXPECT_THAT(Order(step),
              ElementsAre("start.-1", "add.0", "add.1", "add.2", "same.1", "finish.-1"));
  for (int c = 1; c < 4; ++c) EXPECT_EQ(step.calls[c].sources[0].call, c - 1);
  EXPECT_EQ(step.calls[4].sources[0].call, 2);
  EXPECT_EQ(step.calls[5].sources[0].call, 3);
  EXPECT_EQ(step.calls[5].phase, 1);
}

TEST(StepTest, RulesReorderTheRest) {
  // One forward, one backward: backward of m before forward of m + 1.
  StepBuilder b({"phase"});
  int f = b.AddSegment(Tanh("f", "x", "y")), g = b.AddSegment(Tanh("b", "y", "z"));
  std::vector<int> forward, backward;
  for (int m = 0; m < 3; ++m) forward.push_back(b.AddCall(f, m, 0));
  for (int m = 0; m < 3; ++m) backward.push_back(b.AddCall(g, m, 0));
  for (int m = 0; m < 2; ++m) b.MustRunBefore(backward[m], forward[m + 1]);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  EXPECT_THAT(Order(step), ElementsAre("f.0", "b.0", "f.1", "b.1", "f.2", "b.2"));
}

TEST(StepTest, UsesOfAStateKeepTheOrderOfAdding) {
  StepBuilder b({"phase"});
  int read = b.AddSegment(
      Part("read", absl::StrCat(kState, "%r: f32[3] = tanh(%w) output r = %r")));
  int write = b.AddSegment(
      Part("write", absl::StrCat(kState, "feed %late: f32[3] %v: f32[3] = add(%w, %late) ",
                                 "update %w = %v")));
  int slow = b.AddSegment(Tanh("slow", "x", "late"));
  b.AddCall(read, 0, 0);
  b.AddCall(write, 0, 0);
  b.AddCall(read, 1, 0);
  b.AddCall(slow, 0, 0);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  // The second read waits for the write, the write for its feed.
  EXPECT_THAT(Order(step), ElementsAre("read.0", "slow.0", "write.0", "read.1"));
}

struct Refusal {
  const char* what;
  void (*build)(StepBuilder&);
  std::vector<std::string> parts;  // of the message
};

const Refusal kRefusals[] = {
    {"a carry without a source",
     [](StepBuilder& b) {
       StepSegment f = Tanh("f", "x", "y");
       f.carries = {{"x", "q", Carry::From::kPrevious}};
       b.AddCall(b.AddSegment(f), 1, 0);
     },
     {"nothing makes 'q' of micro-batch 0 for 'x' of f"}},
    {"a carry to no feed",
     [](StepBuilder& b) {
       StepSegment f = Tanh("f", "x", "y");
       f.carries = {{"q", "y", Carry::From::kPrevious}};
       b.AddCall(b.AddSegment(f), 1, 0);
     },
     {"carried 'q' is no feed of f"}},
    {"another type",
     [](StepBuilder& b) {
       b.AddCall(b.AddSegment(Part("f", "feed %x: f32[4] %y: f32[4] = tanh(%x) output y = %y")), 0,
                 0);
       b.AddCall(b.AddSegment(Tanh("g", "y", "z")), 0, 0);
     },
     {"'y' of g is f32[3]", "f32[4]"}},
    {"made twice",
     [](StepBuilder& b) {
       int f = b.AddSegment(Tanh("f", "x", "y"));
       b.AddCall(f, 2, 0);
       b.AddCall(f, 2, 0);
     },
     {"'y' of micro-batch 2 is made twice"}},
    {"fetches nothing",
     [](StepBuilder& b) {
       StepSegment f = Tanh("f", "x", "y");
       f.fetched = {"x"};
       b.AddCall(b.AddSegment(f), 0, 0);
     },
     {"fetched 'x' is no output of f"}},
    {"a circle of rules",
     [](StepBuilder& b) {
       int f = b.AddSegment(Tanh("f", "x", "y")), g = b.AddSegment(Tanh("g", "y", "z"));
       int first = b.AddCall(f, 0, 0), second = b.AddCall(g, 0, 0);
       b.AddCall(f, 1, 0);
       b.MustRunBefore(second, first);
     },
     {"in a circle", "f of micro-batch 0, g of micro-batch 0"}},
    {"a call for itself",
     [](StepBuilder& b) {
       int f = b.AddSegment(Tanh("f", "x", "y"));
       int call = b.AddCall(f, -1, 0);
       b.MustRunBefore(call, call);
     },
     {"in a circle, among them f"}},
    {"a phase that reads a later one",
     [](StepBuilder& b) {
       b.AddCall(b.AddSegment(Tanh("f", "x", "y")), 0, 1);
       b.AddCall(b.AddSegment(Tanh("g", "y", "z")), 0, 0);
     },
     {"f of micro-batch 0 must run before g of micro-batch 0 but is in a later phase"}},
    {"a rule against the phases",
     [](StepBuilder& b) {
       int late = b.AddCall(b.AddSegment(Tanh("f", "x", "y")), 0, 1);
       int early = b.AddCall(b.AddSegment(Tanh("g", "q", "z")), 0, 0);
       b.MustRunBefore(late, early);
     },
     {"later phase"}},
};

TEST(StepTest, Refusals) {
  for (const Refusal& refusal : kRefusals) {
    StepBuilder b({"first", "second"});
    refusal.build(b);
    absl::Status status = std::move(b).Build().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << refusal.what;
    for (const std::string& part : refusal.parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << refusal.what;
    }
  }
}

}  // namespace
}  // namespace colossus
