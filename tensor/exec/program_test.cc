#include "tensor/exec/program.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/profile.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kSum[] = "state %sum: f32[2] {role=accumulator, global=[2], disk=[], axes=[]} ";

StepSegment Part(const std::string& name, const std::string& body) {
  absl::StatusOr<Graph> graph = ParseGraph("graph " + name + " { " + body + " }");
  EXPECT_OK(graph.status()) << body;
  return {{name, std::make_shared<const Graph>(*std::move(graph))}, {}, {}};
}

HostTensor Pair(float a, float b) { return HostTensor::Of<float>({2}, {a, b}); }

// sum += x for each micro-batch; the previous y is carried; then an update that halves the sum.
// Fetched: y of every micro-batch, and the sum before and after.
Step SumStep(int micro_batches) {
  StepBuilder b({"accumulate", "update"});
  StepSegment start =
      Part("start", absl::StrCat(kSum, "%y: f32[2] = mul(%sum, %sum) output y = %y"));
  StepSegment add = Part("add", absl::StrCat(kSum,
                                             "feed %x: f32[2] feed %before: f32[2] "
                                             "%s: f32[2] = add(%sum, %x) update %sum = %s "
                                             "%y: f32[2] = add(%before, %s) output y = %y"));
  add.carries = {{"before", "y", Carry::From::kPrevious}};
  add.fetched = {"y"};
  StepSegment halve =
      Part("halve", absl::StrCat(kSum,
                                 "feed %half: f32[] feed %y: f32[2] "
                                 "%h: f32[2] = mul(%sum, %half) update %sum = %h "
                                 "%last: f32[2] = add(%y, %h) output last = %last"));
  halve.carries = {{"y", "y", Carry::From::kLast}};
  halve.fetched = {"last"};
  b.AddCall(b.AddSegment(start), -1, 0);
  int a = b.AddSegment(add);
  for (int m = 0; m < micro_batches; ++m) b.AddCall(a, m, 0);
  b.AddCall(b.AddSegment(halve), -1, 1);
  absl::StatusOr<Step> step = std::move(b).Build();
  EXPECT_OK(step.status());
  return *std::move(step);
}

class Feeds {
 public:
  void Set(const std::string& name, int micro_batch, HostTensor value) {
    values_[{name, micro_batch}] = std::move(value);
  }
  FeedFunction function() const {
    return [this](absl::string_view name, int m) -> const HostTensor* {
      auto found = values_.find({std::string(name), m});
      return found == values_.end() ? nullptr : &found->second;
    };
  }

 private:
  std::map<std::pair<std::string, int>, HostTensor> values_;
};

Feeds SumFeeds() {
  Feeds feeds;
  feeds.Set("x", 0, Pair(1, 10));
  feeds.Set("x", 1, Pair(2, 20));
  feeds.Set("x", 2, Pair(4, 40));
  feeds.Set("half", -1, HostTensor::Of<float>({}, {0.5f}));
  return feeds;
}

std::unique_ptr<Device> Capped(bool protect) {
  CappedDeviceOptions options;
  options.memory_bytes = 1 << 16;
  options.kernels = ReferenceKernels();
  options.protect = protect;
  absl::StatusOr<std::unique_ptr<Device>> device = NewCappedDevice(options);
  EXPECT_OK(device.status());
  return *std::move(device);
}

std::unique_ptr<Device> Host() {
  return NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = ReferenceKernels()});
}

std::unique_ptr<Program> Ready(Step step, Device& device) {
  ProgramOptions options;
  options.poison = true;
  absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Compile(std::move(step), device, options);
  EXPECT_OK(program.status());
  EXPECT_OK((*program)->Allocate());
  return *std::move(program);
}

TEST(ProgramTest, CarriesStatesAndFetchesOfMicroBatches) {
  for (int kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(kind);
    std::unique_ptr<Device> device = kind == 0 ? Host() : Capped(/*protect=*/kind == 2);
    std::unique_ptr<Program> program = Ready(SumStep(3), *device);
    ASSERT_OK(program->WriteState("sum", Pair(1, 0)));
    Feeds feeds = SumFeeds();
    ASSERT_OK_AND_ASSIGN(Fetched out, program->RunPhase(0, feeds.function()));
    // start: y = 1, 0; then sums 2, 10; 4, 30; 8, 70.
    EXPECT_EQ(out.size(), 3u);
    EXPECT_EQ(out.at({"y", 0}), Pair(3, 10));
    EXPECT_EQ(out.at({"y", 1}), Pair(7, 40));
    EXPECT_EQ(out.at({"y", 2}), Pair(15, 110));
    EXPECT_THAT(program->ReadState("sum"), IsOkAndHolds(Pair(8, 70)));
    // The host may look and change its mind in between; y of the last micro-batch stays.
    ASSERT_OK(program->WriteState("sum", Pair(6, 8)));
    ASSERT_OK_AND_ASSIGN(out, program->RunPhase(1, feeds.function()));
    EXPECT_EQ(out.at({"last", -1}), Pair(18, 114));
    EXPECT_THAT(program->ReadState("sum"), IsOkAndHolds(Pair(3, 4)));
    ASSERT_OK(program->RunPhase(0, feeds.function()).status());
    EXPECT_THAT(program->ReadState("sum"), IsOkAndHolds(Pair(10, 74)));
    // States in: 2 × 8, feeds: 2 × 3 × 8 + 4; all that was read out: 7 y and last, 3 sums.
    if (kind == 0) continue;
    EXPECT_EQ(device->copied().in, 16 + 48 + 4);
    EXPECT_EQ(device->copied().out, 7 * 8 + 3 * 8);
  }
}

TEST(ProgramTest, StatesInRanges) {
  std::unique_ptr<Device> device = Host();
  std::unique_ptr<Program> program = Ready(SumStep(1), *device);
  const float seven = 7;
  float read = 0;
  ASSERT_OK(program->WriteState("sum", Pair(1, 2)));
  EXPECT_OK(program->WriteStateBytes("sum", 4, &seven, 4));
  EXPECT_OK(program->ReadStateBytes("sum", 4, &read, 4));
  EXPECT_EQ(read, 7);
  EXPECT_THAT(program->ReadState("sum"), IsOkAndHolds(Pair(1, 7)));
  EXPECT_THAT(program->ReadStateBytes("sum", 8, &read, 4),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("asked for [8, 12)")));
  EXPECT_THAT(program->ReadStateBytes("sum", -4, &read, 4),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(program->WriteState("sum", HostTensor::Of<float>({}, {1})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is f32[2], given f32[]")));
  EXPECT_THAT(program->ReadState("product"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ProgramTest, MissingAndMistypedFeedsAreRefusedBeforeAnythingRuns) {
  std::unique_ptr<Device> device = Host();
  std::unique_ptr<Program> program = Ready(SumStep(3), *device);
  ASSERT_OK(program->WriteState("sum", Pair(1, 0)));
  Feeds feeds = SumFeeds();
  feeds.Set("x", 2, HostTensor::Of<float>({3}, {0, 0, 0}));
  EXPECT_THAT(program->RunPhase(0, feeds.function()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("feed 'x' of type f32[2] for micro-batch 2 is f32[3]")));
  EXPECT_THAT(program->RunPhase(1, [](absl::string_view, int) { return nullptr; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'half' of type f32[]")));
  EXPECT_THAT(program->ReadState("sum"), IsOkAndHolds(Pair(1, 0)));
}

TEST(ProgramTest, NoKernelIsARefusalWhenCompiled) {
  class Declines final : public Kernel {
   public:
    absl::string_view name() const override { return "declines"; }
    absl::StatusOr<PlannedKernel> Plan(const KernelRequest&) const override {
      return absl::UnimplementedError("not today");
    }
  };
  static const Declines declines;
  static const Kernel* const list[] = {&declines};
  std::unique_ptr<Device> device = NewHostDevice({INT64_MAX, 1, list});
  EXPECT_THAT(Program::Compile(SumStep(1), *device, {}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("declines: not today")));
}

class StopAt final : public StepObserver {
 public:
  explicit StopAt(size_t last) : last_(last) {}
  absl::Status After(size_t t) override {
    return ++seen_, t == last_ ? absl::AbortedError("seen enough") : absl::OkStatus();
  }
  size_t seen() const { return seen_; }

 private:
  size_t last_, seen_ = 0;
};

TEST(ProgramTest, AnObserverSeesEveryInstructionAndMayStop) {
  std::unique_ptr<Device> device = Host();
  std::unique_ptr<Program> program = Ready(SumStep(3), *device);
  ASSERT_OK(program->WriteState("sum", Pair(1, 0)));
  Feeds feeds = SumFeeds();
  StopAt never(1000), soon(2);
  ASSERT_OK(program->RunPhase(0, feeds.function(), &never).status());
  EXPECT_EQ(never.seen(), program->plan().phase_end[0]);
  EXPECT_THAT(program->RunPhase(0, feeds.function(), &soon),
              StatusIs(absl::StatusCode::kAborted, "seen enough"));
  EXPECT_EQ(soon.seen(), 3u);
}

TEST(ProfileTest, SumsByOpAndBlockInVirtualTime) {
  NullDeviceOptions options;
  options.kernels = ReferenceKernels();
  options.copy_bytes_per_second = 8;
  std::unique_ptr<Device> device = NewNullDevice(options);
  std::unique_ptr<Program> program = Ready(SumStep(3), *device);
  Profile profile(*program);
  const double start = device->clock().Seconds();
  ASSERT_OK_AND_ASSIGN(Fetched out, program->RunPhase(0, nullptr, &profile));
  EXPECT_EQ(out.size(), 3u);
  EXPECT_DOUBLE_EQ(profile.seconds(), device->clock().Seconds() - start);
  EXPECT_EQ(profile.by_op().at("add").count, 6);
  EXPECT_EQ(profile.by_op().at("mul").count, 1);
  // Eight bytes each, one second.
  EXPECT_NEAR(profile.by_op().at("feed").seconds, 3, 1e-6);
  EXPECT_NEAR(profile.by_op().at("fetch").seconds, 3, 1e-6);
  EXPECT_EQ(profile.by_block().at("start").count, 1);
  EXPECT_EQ(profile.by_block().at("add").count, 12);
  // The costs of two floats added, once each.
  EXPECT_EQ(profile.by_op().at("add").flops, 12);
  EXPECT_EQ(profile.by_op().at("add").bytes, 6 * 3 * 8);
  EXPECT_EQ(profile.by_call().at("add f32[2] f32[2]").count, 6);
  EXPECT_EQ(profile.by_op().at("feed").bytes, 3 * 2 * 8);
  const auto rows = LongestFirst(profile.by_op());
  EXPECT_THAT(rows[0].first, AnyOf("feed", "fetch"));
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_LE(rows[i].second.seconds, rows[i - 1].second.seconds);
  }
}

}  // namespace
}  // namespace colossus
