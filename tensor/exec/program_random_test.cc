// Random steps: a Program computes what the interpreter computes, bit by bit, whatever memory it
// reuses, on every device; and it needs exactly the memory it says.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/testing/random_step.h"
#include "tensor/testing/random_graph.h"

namespace colossus {

// Takes away what a stream waits for.
class ProgramTestPeer {
 public:
  static void DropWaits(Program& program, bool of_link) {
    for (Instruction& instruction : program.plan_.instructions) {
      if (instruction.link == of_link) instruction.wait = -1;
    }
  }
  static void DropLateWaits(Program& program) {
    for (Instruction& instruction : program.plan_.instructions) instruction.late_waits.clear();
  }
};

namespace {

using ::testing::HasSubstr;

constexpr int kGraphs = 500;

// Two updates on a new program.
absl::Status RunTwice(const RandomStep& random, Device& device, bool poison, uint64_t seed,
                      bool overlap = true) {
  ProgramOptions options;
  options.poison = poison;
  options.overlap = overlap;
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   Program::Compile(random.step, device, options));
  RETURN_IF_ERROR(program->Allocate());
  StepModel model(random, seed);
  RETURN_IF_ERROR(model.WriteStates(*program));
  RETURN_IF_ERROR(model.RunAndCompare(*program));
  return model.RunAndCompare(*program);
}

// Where operands may be made; none for what is no kernel.
std::vector<int64_t> PlacesOf(const Program& program, const Instruction& instruction) {
  if (instruction.kind != InstructionKind::kKernel) return {};
  const Call& call = program.step().calls[instruction.call];
  return program.executables()[call.segment].nodes[instruction.node].operand_places;
}

TEST(ProgramRandomTest, EqualsTheInterpreterWithDeadRangesPoisoned) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> device =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  int segments = 0, calls = 0, copies = 0, kept = 0, kernels = 0, placed = 0, packed = 0;
  for (uint64_t g = seed; g < seed + kGraphs; ++g) {
    RandomStep random = MakeRandomStep(g);
    ASSERT_OK(RunTwice(random, *device, /*poison=*/true, g)) << "graph " << g;
    segments += static_cast<int>(random.step.segments.size());
    calls += static_cast<int>(random.step.calls.size());
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                         Program::Compile(random.step, *device, {}));
    for (const Instruction& instruction : program->plan().instructions) {
      bool copy = instruction.kind == InstructionKind::kCopy;
      copies += copy;
      kept += copy && program->plan().FindState(instruction.name) == nullptr;
      kernels += instruction.kind == InstructionKind::kKernel;
      const std::vector<int64_t> places = PlacesOf(*program, instruction);
      for (size_t o = 0; o < places.size(); ++o) {
        ++packed;
        placed += instruction.operands[o].offset == instruction.results[0].offset + places[o];
      }
    }
  }
  // The graphs reach what they are meant to reach.
  EXPECT_GT(segments, 2 * kGraphs);
  EXPECT_GT(calls, 4 * kGraphs);
  EXPECT_GT(copies, kGraphs / 2);
  EXPECT_GT(kept, 0);
  EXPECT_GT(kernels, 20 * kGraphs);
  EXPECT_GT(placed, kGraphs / 2);
  EXPECT_GT(packed, placed + kGraphs / 2);
}

// The same for the graphs that passes are tested on, which have more ops.
TEST(ProgramRandomTest, EqualsTheInterpreterOnGraphsOfAllKinds) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> device =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  int graphs = 0;
  for (uint64_t g = seed; g < seed + kGraphs / 2; ++g) {
    Graph graph = RandomGraph(g);
    // What a feed or state is from the start cannot be an output of a segment.
    if (graph.value(graph.FindOutput("some")).producer == kNoNode) continue;
    RandomStep random = MakeStep(std::move(graph), g);
    ASSERT_OK(RunTwice(random, *device, /*poison=*/true, g)) << "graph " << g;
    ++graphs;
  }
  EXPECT_GT(graphs, kGraphs / 4);
}

TEST(ProgramRandomTest, EveryDeviceGivesTheSameBits) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 60; ++g) {
    RandomStep random = MakeRandomStep(g);
    CappedDeviceOptions options;
    options.memory_bytes = 1 << 20;
    options.kernels = KernelsWithWorkspaces();
    options.protect = g % 3 == 1;
    if (g % 3 != 0) options.late_seed = g;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(options));
    ASSERT_OK(RunTwice(random, *device, /*poison=*/g % 2 == 0, g)) << "graph " << g;
  }
}

// Protects: waits, in both directions. Streams run as late as they may, in random order: with every
// wait in its place bits are those of one stream, and without those of either stream they are not.
TEST(ProgramRandomTest, StreamsWaitForEachOther) {
  const uint64_t seed = TestSeed();
  int links = 0, wrong_link = 0, wrong_compute = 0, wrong_late = 0, apart = 0;
  for (uint64_t g = seed; g < seed + 150; ++g) {
    RandomStep random = MakeRandomStep(g);
    CappedDeviceOptions options;
    options.memory_bytes = 1 << 20;
    options.kernels = KernelsWithWorkspaces();
    options.late_seed = g;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(options));
    ASSERT_OK(RunTwice(random, *device, /*poison=*/g % 2 == 0, g)) << "graph " << g;
    ASSERT_OK(RunTwice(random, *device, /*poison=*/g % 2 == 0, g, /*overlap=*/false))
        << "graph " << g;
    {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                           Program::Compile(random.step, *device, {}));
      ASSERT_OK(program->Allocate());
      StepModel model(random, g);
      ASSERT_OK(model.WriteStates(*program));
      ProgramTestPeer::DropLateWaits(*program);
      wrong_late += !model.RunAndCompare(*program).ok() || !model.RunAndCompare(*program).ok();
    }
    for (bool of_link : {false, true}) {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                           Program::Compile(random.step, *device, {}));
      int link_instructions = 0;
      for (const Instruction& i : program->plan().instructions) {
        link_instructions += i.link;
        apart += i.link && i.wait < 0;
      }
      links += link_instructions > 0;
      ASSERT_OK(program->Allocate());
      StepModel model(random, g);
      ASSERT_OK(model.WriteStates(*program));
      ProgramTestPeer::DropWaits(*program, of_link);
      const bool wrong = !model.RunAndCompare(*program).ok();
      (of_link ? wrong_link : wrong_compute) += wrong;
      EXPECT_TRUE(!wrong || link_instructions > 0) << "graph " << g;
    }
  }
  EXPECT_GT(wrong_late, 2);
  EXPECT_GT(links, 150);
  EXPECT_GT(wrong_link, 40);
  EXPECT_GT(wrong_compute, 40);
  EXPECT_GT(apart, 100);  // several in a row wait once
}

// One past the last byte that a run changes: the arena starts as `canary`.
std::vector<bool> Touched(const RandomStep& random, Device& device, char canary, uint64_t seed) {
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Compile(random.step, device, {});
  EXPECT_OK(program.status());
  EXPECT_OK((*program)->Allocate());
  char* arena = const_cast<char*>((*program)->address({0, 0}));
  const int64_t bytes = (*program)->plan().device_bytes;
  std::memset(arena, canary, static_cast<size_t>(bytes));
  StepModel model(random, seed);
  EXPECT_OK(model.WriteStates(**program));
  EXPECT_OK(model.RunAndCompare(**program));
  std::vector<bool> touched;
  for (int64_t i = 0; i < bytes; ++i) touched.push_back(arena[i] != canary);
  return touched;
}

TEST(ProgramRandomTest, TouchesItsPlannedPeakAndNothingElseWillDo) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> host =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  for (uint64_t g = seed; g < seed + 60; ++g) {
    RandomStep random = MakeRandomStep(g);
    std::vector<bool> a = Touched(random, *host, 0x11, g), b = Touched(random, *host, 0x22, g);
    ASSERT_FALSE(a.empty());
    // A byte may happen to be one canary, not both.
    EXPECT_TRUE(a.back() || b.back()) << "graph " << g << ", planned " << a.size();

    const int64_t need = static_cast<int64_t>(a.size());
    CappedDeviceOptions options;
    options.memory_bytes = need;
    options.kernels = KernelsWithWorkspaces();
    options.late_seed = g;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> exact, NewCappedDevice(options));
    ASSERT_OK(RunTwice(random, *exact, /*poison=*/true, g, /*overlap=*/false)) << "graph " << g;
    --options.memory_bytes;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> less, NewCappedDevice(options));
    ProgramOptions one_stream;
    one_stream.overlap = false;
    absl::Status refusal = Program::Compile(random.step, *less, one_stream).status();
    EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kResourceExhausted,
                                  HasSubstr(absl::StrCat("the device has ", need - 1,
                                                         " bytes, the plan needs ", need))));
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("Largest at the peak:\n  "));
  }
}

TEST(ProgramRandomTest, TheNullDeviceHasTheSamePlan) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> host =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  NullDeviceOptions options;
  options.kernels = KernelsWithWorkspaces();
  std::unique_ptr<Device> null = NewNullDevice(options);
  for (uint64_t g = seed; g < seed + 20; ++g) {
    RandomStep random = MakeRandomStep(g);
    ProgramOptions one_stream;  // as the host device has
    one_stream.overlap = false;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> a, Program::Compile(random.step, *host, {}));
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> b,
                         Program::Compile(random.step, *null, one_stream));
    EXPECT_EQ(a->plan().device_bytes, b->plan().device_bytes);
    ASSERT_OK(b->Allocate());
    const double start = null->clock().Seconds();
    for (size_t p = 0; p < random.step.phases.size(); ++p) {
      EXPECT_OK(b->RunPhase(static_cast<int>(p), nullptr).status());
    }
    EXPECT_GT(null->clock().Seconds(), start);
  }
}

}  // namespace
}  // namespace colossus
