#include "tensor/exec/timeline.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// Says that a tanh takes as many seconds as it has elements.
class Slow final : public Kernel {
 public:
  absl::string_view name() const override { return "slow"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    absl::StatusOr<PlannedKernel> planned = ReferenceKernel().Plan(request);
    if (planned.ok()) planned->seconds = static_cast<double>(request.results[0].elements());
    return planned;
  }
};

KernelList SlowKernels() {
  static const Slow* const slow = new Slow();
  static const Kernel* const list[] = {slow};
  return list;
}

StepSegment Part(const std::string& body, bool link) {
  absl::StatusOr<Graph> graph = ParseGraph("graph p { " + body + " }");
  EXPECT_OK(graph.status()) << body;
  StepSegment part{{"p", std::make_shared<const Graph>(*std::move(graph))}, {}, {}};
  part.link = link;
  return part;
}

// compute a (3 s), then b (2 s) beside the link's gather of a (4 s); c (1 s) needs the gather.
std::unique_ptr<Program> Make(Device& device, bool overlap) {
  StepBuilder b({"phase"});
  b.AddCall(b.AddSegment(Part("feed %x: f32[3] %a: f32[3] = tanh(%x) output a = %a", false)), 0, 0);
  b.AddCall(b.AddSegment(Part("feed %a: f32[3] feed %y: f32[4] %g: f32[4] = tanh(%y) "
                              "output g = %g", true)), 0, 0);
  b.AddCall(b.AddSegment(Part("feed %z: f32[2] %b: f32[2] = tanh(%z) output b = %b", false)), 0, 0);
  b.AddCall(b.AddSegment(Part("feed %g: f32[4] feed %w: f32[1] %c: f32[1] = tanh(%w) "
                              "%d: f32[4] = add(%g, %c)", false)), 0, 0);
  absl::StatusOr<Step> step = std::move(b).Build();
  EXPECT_OK(step.status());
  ProgramOptions options;
  options.overlap = overlap;
  absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Compile(*std::move(step), device, options);
  EXPECT_OK(program.status());
  return *std::move(program);
}

TEST(TimelineTest, OverlapAndWaits) {
  NullDeviceOptions options;
  options.kernels = SlowKernels();
  options.copy_bytes_per_second = 1e30;
  for (bool overlap : {true, false}) {
    std::unique_ptr<Device> device = NewNullDevice(options);
    std::unique_ptr<Program> program = Make(*device, overlap);
    const PhaseTime time = PredictPhase(*program, 0);
    EXPECT_EQ(time.compute, 3 + 2 + 1 + 4);
    EXPECT_EQ(time.link, 4);
    // With overlap c runs before d waits: 3, then 3 beside 4, then 4.
    EXPECT_EQ(time.seconds, overlap ? 3 + 4 + 4 : 3 + 4 + 2 + 1 + 4);
    EXPECT_EQ(time.exposed(), overlap ? 1 : 4);
    // The device's clock agrees.
    ASSERT_OK(program->Allocate());
    ASSERT_OK(program->RunPhase(0, nullptr).status());
    EXPECT_LE(std::abs(device->clock().Seconds() - time.seconds), 1e-9);
  }
}

// Protects: communication at the end of a phase counts where the next one waits for it. The link
// writes u (8 s) after 2 s of compute; the next round's first second of compute runs beside it.
TEST(TimelineTest, AcrossPhases) {
  NullDeviceOptions options;
  options.kernels = SlowKernels();
  options.copy_bytes_per_second = 1e30;
  std::unique_ptr<Device> device = NewNullDevice(options);
  StepBuilder b({"forward", "update"});
  const std::string u = "state %u: f32[8] {role=buffer, global=[8], disk=[8], axes=[a]} ";
  b.AddCall(b.AddSegment(Part("feed %x: f32[1] %a: f32[1] = tanh(%x)", false)), -1, 0);
  b.AddCall(b.AddSegment(Part(u + "feed %y: f32[1] %b: f32[1] = tanh(%y) %c: f32[8] = add(%u, %b)",
                              false)), -1, 0);
  b.AddCall(b.AddSegment(Part("feed %z: f32[2] %d: f32[2] = tanh(%z)", false)), -1, 1);
  b.AddCall(b.AddSegment(Part(u + "%e: f32[8] = tanh(%u) update %u = %e", true)), -1, 1);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                       Program::Compile(std::move(step), *device, {}));
  const std::vector<int> phases = {0, 1};
  const PhaseTime time = PredictPhases(*program, phases, 3) - PredictPhases(*program, phases, 2);
  EXPECT_EQ(time.compute, 1 + 1 + 8 + 2);
  EXPECT_EQ(time.link, 8);
  EXPECT_EQ(time.seconds, 8 + 8 + 2);
  ASSERT_OK(program->Allocate());
  double start = 0;
  for (int round = 0; round < 3; ++round) {
    start = device->clock().Seconds();
    for (int phase : phases) ASSERT_OK(program->RunPhase(phase, nullptr).status());
  }
  EXPECT_LE(std::abs(device->clock().Seconds() - start - time.seconds), 1e-9);
}

TEST(TimelineTest, Text) {
  EXPECT_EQ(ToText(PhaseTime{0.412, 0.4, 0.15}),
            "0.412 s: 0.4 s compute, 0.15 s communication, 0.012 s of it exposed (2.9 %)");
}

}  // namespace
}  // namespace colossus
