// What lies where, and what a run makes of it: one hand-made step per rule of the plan.
#include "tensor/exec/memory_plan.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kW[] =
    "state %w: f32[4,4] {role=parameter, global=[4,4], disk=[4,4], axes=[a, b], trainable} ";

StepSegment Part(const std::string& name, const std::string& body) {
  absl::StatusOr<Graph> graph = ParseGraph("graph " + name + " { " + body + " }");
  EXPECT_OK(graph.status()) << body;
  return {{name, std::make_shared<const Graph>(*std::move(graph))}, {}, {}};
}

struct Planned {
  Step step;
  std::vector<Executable> executables;
  absl::StatusOr<MemoryPlan> plan;
};

Planned Plan(std::vector<StepSegment> parts) {
  StepBuilder b({"phase"});
  for (StepSegment& part : parts) b.AddCall(b.AddSegment(std::move(part)), 0, 0);
  absl::StatusOr<Step> step = std::move(b).Build();
  EXPECT_OK(step.status());
  Planned planned{*std::move(step), {}, MemoryPlan{}};
  KernelCache cache(ReferenceKernels(), 1);
  for (const StepSegment& segment : planned.step.segments) {
    absl::StatusOr<Executable> executable = Compile(segment.segment, cache, DeviceRates());
    EXPECT_OK(executable.status());
    planned.executables.push_back(*std::move(executable));
  }
  planned.plan = PlanMemory(planned.step, planned.executables);
  return planned;
}

MemoryPlan PlanOf(std::vector<StepSegment> parts) {
  Planned planned = Plan(std::move(parts));
  EXPECT_OK(planned.plan.status());
  return *std::move(planned.plan);
}

// "kind name @result offset", in order. The state w is at 0, buffers start at 64.
std::vector<std::string> Lines(const MemoryPlan& plan) {
  std::vector<std::string> lines;
  for (const Instruction& i : plan.instructions) {
    static constexpr const char* kKinds[] = {"feed", "run", "copy", "fetch"};
    std::string line = absl::StrCat(kKinds[static_cast<int>(i.kind)], " ", i.name);
    if (!i.results.empty()) absl::StrAppend(&line, " @", i.results[0].offset);
    lines.push_back(line);
  }
  return lines;
}

struct Case {
  const char* what;
  std::vector<std::string> parts;  // of the step, after the state
  std::vector<std::string> lines;
};

TEST(MemoryPlanTest, UpdatesAndViewsOfStates) {
  const Case cases[] = {
      {"updated in place",
       {"%v: f32[4,4] = tanh(%w) update %w = %v"},
       {"run v @0"}},
      {"written at home without reading it",
       {"feed %x: f32[4,4] %v: f32[4,4] = tanh(%x) update %w = %v"},
       {"feed x @64", "run v @0"}},
      {"the start value is read afterwards",
       {"%v: f32[4,4] = tanh(%w) %u: f32[4,4] = add(%w, %v) update %w = %v"},
       {"run v @64", "run u @128", "copy w @0"}},
      {"a product does not work in place",
       {"%v: f32[4,4] = matmul(%w, %w) {spec=\"m k, k n -> m n\"} update %w = %v"},
       {"run v @64", "copy w @0"}},
      {"the end value is a feed",
       {"feed %x: f32[4,4] %u: f32[4,4] = tanh(%w) update %w = %x"},
       {"feed x @64", "run u @128", "copy w @0"}},
      {"the end value is read by later calls, before any update",
       {"%v: f32[4,4] = tanh(%w) update %w = %v output v = %v",
        "feed %v: f32[4,4] %u: f32[4,4] = add(%w, %v)"},
       {"run v @0", "run u @64"}},
      {"the end value is read after the next update",
       {"%v: f32[4,4] = tanh(%w) update %w = %v output v = %v",
        "%v2: f32[4,4] = tanh(%w) update %w = %v2",
        "feed %v: f32[4,4] %u: f32[4,4] = tanh(%v)"},
       {"run v @64", "copy w @0", "run v2 @0", "run u @64"}},
      {"the end value is read by the call of the next update, after it is made",
       {"%v: f32[4,4] = tanh(%w) update %w = %v output v = %v",
        "feed %v: f32[4,4] %v2: f32[4,4] = tanh(%w) %u: f32[4,4] = tanh(%v) update %w = %v2"},
       {"run v @0", "run v2 @64", "run u @128", "copy w @0"}},
      {"a view is read after an update",
       {"%r: f32[16] = reshape(%w) {spec=\"a b -> (a b)\", dims=[16]} output r = %r",
        "%v: f32[4,4] = tanh(%w) update %w = %v",
        "feed %r: f32[16] %u: f32[16] = tanh(%r)"},
       {"copy r @64", "run v @0", "run u @64"}},
      {"a view is read before the update",
       {"%r: f32[16] = reshape(%w) {spec=\"a b -> (a b)\", dims=[16]} output r = %r",
        "feed %r: f32[16] %u: f32[16] = tanh(%r)",
        "%v: f32[4,4] = tanh(%w) update %w = %v"},
       {"run u @64", "run v @0"}},
      {"the start value itself leaves, and is updated meanwhile",
       {"%v: f32[4,4] = tanh(%w) update %w = %v output old = %w",
        "feed %old: f32[4,4] %u: f32[4,4] = add(%old, %w)"},
       {"copy w @64", "run v @0", "run u @64"}},
      {"the end value is a view of a result",
       {"%f: f32[16] = reshape(%w) {spec=\"a b -> (a b)\", dims=[16]} %t: f32[16] = tanh(%f) "
        "%v: f32[4,4] = reshape(%t) {spec=\"(a b) -> a b\", dims=[4,4]} update %w = %v"},
       {"run t @0"}},
  };
  for (const Case& example : cases) {
    SCOPED_TRACE(example.what);
    std::vector<StepSegment> parts;
    for (const std::string& part : example.parts) {
      parts.push_back(Part(absl::StrCat("p", parts.size()), kW + part));
    }
    EXPECT_EQ(Lines(PlanOf(parts)), example.lines);
  }
}

TEST(MemoryPlanTest, ResultsTakeOverOperands) {
  MemoryPlan plan = PlanOf({Part("p",
                                 "feed %x: f32[4,4] feed %row: f32[4] "
                                 "%a: f32[4,4] = tanh(%x) "            // over x
                                 "%b: f32[4,4] = add(%a, %row) "       // over a
                                 "%c: f32[4,4] = mul(%b, %b) "         // b is read again
                                 "%n: bf16[4,4] = convert(%c) {dtype=\"bf16\"} "  // another size
                                 "%d: f32[4,4] = add(%c, %b) ")});     // over c or b
  EXPECT_THAT(Lines(plan), ElementsAre("feed x @0", "feed row @64", "run a @0", "run b @0",
                                       "run c @64", "run n @128", "run d @64"));
  EXPECT_EQ(plan.device_bytes, 128 + 32);
  EXPECT_EQ(plan.state_bytes, 0);
}

// The values of p are 64 bytes; sizes that differ below the alignment are no matches.
TEST(MemoryPlanTest, TheLastByteIsExact) {
  MemoryPlan plan = PlanOf({Part("p", "feed %x: f32[3] %a: f32[3] = tanh(%x)")});
  EXPECT_EQ(plan.device_bytes, 12);
  EXPECT_EQ(plan.instructions[0].results[0].bytes, 12);
  EXPECT_EQ(plan.host_bytes, 64);
  ASSERT_EQ(plan.freed.size(), 2u);
  EXPECT_EQ(plan.freed[0].size(), 0u);
  ASSERT_EQ(plan.freed[1].size(), 1u);
  EXPECT_EQ(plan.freed[1][0].bytes, 12);
}

TEST(MemoryPlanTest, Text) {
  EXPECT_EQ(ToText(PlanOf({Part("p", std::string(kW) + "feed %x: f32[4,4] %v: f32[4,4] = "
                                "add(%w, %x) update %w = %v output v = %v")})),
            "device 128 bytes, 64 of state; host 64 bytes\n"
            "state w parameter f32[4,4] [0,64)\n"
            "phase 0\n"
            "0 feed x.0 -> [64,128)\n"
            "1 kernel v.0 [0,64) [64,128) -> [0,64)\n");
}

// Two results that may both take the place of one operand do not meet there.
TEST(MemoryPlanTest, TwoResultsDoNotShareAnOperand) {
  Planned planned = Plan({Part(
      "p", "feed %p: f32[8] feed %g: f32[8] feed %m: f32[8] feed %v: f32[8] feed %s: f32[] "
           "%a: f32[8], %b: f32[8], %c: f32[8] = adamw(%p, %g, %m, %v, %s, %s, %s, %s) "
           "{beta1=0.5, beta2=0.5, epsilon=0.5, weight_decay=[0.0]}")});
  ASSERT_OK(planned.plan.status());
  planned.executables[0].nodes[0].aliases = {{0, 0}, {1, 0}, {2, 0}};
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(planned.step, planned.executables));
  const std::vector<BufferRange>& results = plan.instructions.back().results;
  EXPECT_NE(results[0].offset, results[1].offset);
  EXPECT_NE(results[0].offset, results[2].offset);
  EXPECT_NE(results[1].offset, results[2].offset);
}

TEST(MemoryPlanTest, OptimizerUpdatesInPlace) {
  const std::string states =
      "state %p: f32[8] {role=master, global=[8], disk=[8], axes=[a], trainable} "
      "state %w: bf16[8] {role=parameter, global=[8], disk=[8], axes=[a], trainable} "
      "state %m: f32[8] {role=moment1, global=[8], disk=[], axes=[]} "
      "state %v: f32[8] {role=moment2, global=[8], disk=[], axes=[]} ";
  MemoryPlan plan = PlanOf({Part(
      "update", states + "feed %g: f32[8] feed %s: f32[] "
      "%a: f32[8], %b: f32[8], %c: f32[8], %d: bf16[8] = adamw(%p, %g, %m, %v, %s, %s, %s, %s) "
      "{beta1=0.5, beta2=0.5, epsilon=0.5, weight_decay=[0.0], compute=\"bf16\"} "
      "update %p = %a update %m = %b update %v = %c update %w = %d")});
  const Instruction& update = plan.instructions.back();
  ASSERT_EQ(update.kind, InstructionKind::kKernel);
  const char* names[] = {"p", "m", "v", "w"};
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(update.results[r].offset, plan.FindState(names[r])->range.offset) << names[r];
  }
  // By role, so that every kind is one range.
  EXPECT_EQ(plan.states[0].info.name, "w");
  EXPECT_EQ(plan.states[1].info.name, "p");
  EXPECT_EQ(plan.state_bytes, 4 * 64);
  EXPECT_EQ(plan.device_bytes, 4 * 64 + 64 + 4);
  EXPECT_EQ(plan.FindState("q"), nullptr);
}

// Of two parameters of one node each gradient becomes the copy's memory, unless both read it.
TEST(MemoryPlanTest, SeveralParametersInPlace) {
  const std::string states =
      "state %p: f32[8] {role=master, global=[8], disk=[8], axes=[a], trainable} "
      "state %u: f32[8] {role=moment1, global=[8], disk=[], axes=[]} "
      "state %q: f32[40] {role=master, global=[40], disk=[40], axes=[a], trainable} "
      "state %v: f32[40] {role=moment1, global=[40], disk=[], axes=[]} "
      "state %r: f32[8] {role=master, global=[8], disk=[8], axes=[a], trainable} "
      "state %w: f32[8] {role=moment1, global=[8], disk=[], axes=[]} ";
  MemoryPlan plan = PlanOf({Part(
      "update", states + "feed %g: bf16[8] feed %h: bf16[40] feed %s: f32[] "
      "%p1: f32[8], %u1: f32[8], %a: bf16[8], %q1: f32[40], %v1: f32[40], %b: bf16[40], "
      "%r1: f32[8], %w1: f32[8], %c: bf16[8] = sgd(%p, %g, %u, %q, %h, %v, %r, %g, %w, %s, %s) "
      "{momentum=0.5, weight_decay=[0.0, 0.5, 0.0], compute=\"bf16\"} "
      "update %p = %p1 update %u = %u1 update %q = %q1 update %v = %v1 update %r = %r1 "
      "update %w = %w1 output a = %a output b = %b output c = %c")});
  const Instruction& update = plan.instructions.back();
  ASSERT_EQ(update.kind, InstructionKind::kKernel);
  const char* names[] = {"p", "u", "", "q", "v", "", "r", "w", ""};
  for (int r : {0, 1, 3, 4, 6, 7}) {
    EXPECT_EQ(update.results[r].offset, plan.FindState(names[r])->range.offset) << names[r];
  }
  EXPECT_EQ(update.results[5].offset, update.operands[4].offset);
  EXPECT_NE(update.results[2].offset, update.operands[1].offset);
  EXPECT_NE(update.results[8].offset, update.operands[1].offset);
}

// Protects: a part costs no instruction and no memory; one that no buffer could begin at is copied.
TEST(MemoryPlanTest, PartsAreViews) {
  MemoryPlan plan = PlanOf({Part(
      "p", "feed %x: f32[40] "
           "%a: f32[16], %b: f32[2,8] = unpack(%x) "
           "{dims=[16, 2, 8], offsets=[0, 16], ranks=[1, 2]} "
           "%c: f32[2,8] = tanh(%b) "  // not over b, which ends before x does
           "%d: f32[3] = unpack(%x) {dims=[3], offsets=[17], ranks=[1]} "
           "output a = %a"),
      Part("q", "feed %a: f32[16] %e: f32[16] = tanh(%a)")});
  EXPECT_THAT(Lines(plan), ElementsAre("feed x @0", "run c @192", "run d @192", "run e @192"));
  EXPECT_EQ(plan.instructions[1].operands[0].offset, 64);
  EXPECT_EQ(plan.instructions[1].operands[0].bytes, 64);
  EXPECT_EQ(plan.instructions[2].operands[0].bytes, 160);
  EXPECT_EQ(plan.instructions[3].operands[0].offset, 0);
  EXPECT_EQ(plan.instructions[3].operands[0].bytes, 64);
}

// Protects: a state is read through views of its parts, updated as a whole, and a part that is read
// after the update is kept.
TEST(MemoryPlanTest, PartsOfStates) {
  const std::string flat =
      "state %f: f32[32] {role=parameter, global=[32], disk=[32], axes=[a], trainable} ";
  const std::string parts =
      "%a: f32[16], %b: f32[16] = unpack(%f) {dims=[16, 16], offsets=[0, 16], ranks=[1, 1]} ";
  MemoryPlan plan = PlanOf({Part("p", flat + parts + "%c: f32[16] = add(%a, %b) output b = %b"),
                            Part("q", flat + "%g: f32[32] = scale(%f) {factor=0x1p-1} "
                                             "update %f = %g"),
                            Part("r", "feed %b: f32[16] %d: f32[16] = tanh(%b)")});
  EXPECT_THAT(Lines(plan), ElementsAre("copy b @128", "run c @192", "run g @0", "run d @128"));
  EXPECT_EQ(plan.instructions[0].operands[0].offset, 64);
  EXPECT_EQ(plan.instructions[0].operands[0].bytes, 64);
  EXPECT_EQ(plan.instructions[1].operands[1].offset, 64);
}

struct PackCase {
  const char* what;
  std::vector<std::string> parts;
  bool a, b;  // in place
};

// Of "pack(%a, %b)" as p, with a at element 16 and b behind it.
void ExpectPacked(const std::vector<PackCase>& cases) {
  for (const PackCase& example : cases) {
    SCOPED_TRACE(example.what);
    std::vector<StepSegment> parts;
    for (const std::string& part : example.parts) {
      parts.push_back(Part(absl::StrCat("p", parts.size()), part));
    }
    const MemoryPlan plan = PlanOf(parts);
    for (const Instruction& i : plan.instructions) {
      if (i.name != "p") continue;
      const int64_t second = i.operands[1].bytes == 32 ? 96 : 128;
      EXPECT_EQ(i.operands[0].offset == i.results[0].offset + 64, example.a);
      EXPECT_EQ(i.operands[1].offset == i.results[0].offset + second, example.b);
    }
  }
}

// Protects: what may be made in place in a packed buffer, and what must not.
TEST(MemoryPlanTest, PackedInPlace) {
  const std::string pack =
      "%p: f32[64] = pack(%a, %b) {elements=64, offsets=[16, 32]} %r: f32[64] = tanh(%p) ";
  ExpectPacked({
      {"both", {"feed %x: f32[16] %a: f32[16] = square(%x) %b: f32[16] = add(%x, %a) " + pack},
       true, true},
      {"made by an earlier call",
       {"feed %x: f32[16] %a: f32[16] = square(%x) output a = %a",
        "feed %a: f32[16] feed %y: f32[16] %b: f32[16] = tanh(%y) " + pack},
       true, true},
      {"read afterwards",
       {"feed %x: f32[16] %a: f32[16] = square(%x) %b: f32[16] = add(%x, %a) " + pack +
        "%q: f32[16] = tanh(%a)"},
       false, true},
      {"twice the same", {"feed %a: f32[16] %b: f32[4,4] = reshape(%a) {dims=[4, 4], "
                          "spec=\"(a b) -> a b\"} " + pack}, true, false},
      {"a part of something else",
       {"feed %x: f32[32] %b: f32[16], %a: f32[16] = unpack(%x) {dims=[16, 16], offsets=[0, 16], "
        "ranks=[1, 1]} " + pack},
       false, false},
      {"of a state", {std::string(kW) + "feed %b: f32[16] %a: f32[16] = reshape(%w) "
                      "{dims=[16], spec=\"a b -> (a b)\"} " + pack}, false, true},
      {"where no buffer may begin",
       {"feed %a: f32[8] feed %b: f32[8] %p: f32[64] = pack(%a, %b) {elements=64, "
        "offsets=[16, 24]}"},
       true, false},
      {"small and made much earlier",
       {"feed %b: f32[2] feed %a: f32[16] %p: f32[64] = pack(%a, %b) {elements=64, "
        "offsets=[16, 32]}"},
       true, false},
      {"small and made later",
       {"feed %a: f32[16] feed %b: f32[2] %p: f32[64] = pack(%a, %b) {elements=64, "
        "offsets=[16, 32]}"},
       true, true},
  });
}

// Protects: the same in a state that is packed: from when on its start value is of no use.
TEST(MemoryPlanTest, PackedAtHome) {
  const std::string state = "state %s: f32[64] {role=buffer, global=[64], disk=[64], axes=[a]} ";
  ExpectPacked({
      {"at a state's home",
       {state + "feed %a: f32[16] feed %b: f32[16] %p: f32[64] = pack(%a, %b) {elements=64, "
             "offsets=[16, 32]} update %s = %p"},
       true, true},
      {"at home, over a part of the state that it is made of",
       {state + "%v: f32[16] = unpack(%s) {dims=[16], offsets=[16], ranks=[1]} "
             "%a: f32[16] = tanh(%v) feed %b: f32[16] "
             "%p: f32[64] = pack(%a, %b) {elements=64, offsets=[16, 32]} update %s = %p"},
       true, true},
      {"of another part of the state, whose place the second one takes",
       {state + "%v: f32[16] = unpack(%s) {dims=[16], offsets=[32], ranks=[1]} "
             "feed %b: f32[16] %a: f32[16] = tanh(%v) "
             "%p: f32[64] = pack(%a, %b) {elements=64, offsets=[16, 32]} update %s = %p"},
       true, false},
      {"the state's start value is read before it is written home",
       {state + "feed %a: f32[16] feed %b: f32[16] %w: f32[64] = tanh(%s) "
             "%p: f32[64] = pack(%a, %b) {elements=64, offsets=[16, 32]} update %s = %p"},
       false, false},
  });
}

// Protects: a pack of a pack, and a sum that was carried on in place from where it began.
TEST(MemoryPlanTest, PackedInPlaceFromTheFirstOn) {
  MemoryPlan plan = PlanOf({Part(
      "p", "feed %x: f32[16] %a: f32[16] = square(%x) %a1: f32[16] = add(%a, %x) "
           "%p: f32[32] = pack(%a1) {elements=32, offsets=[16]} "
           "%q: f32[64] = pack(%p) {elements=64, offsets=[32]}")});
  ASSERT_THAT(Lines(plan), ElementsAre("feed x @0", "run a @256", "run a1 @256", "run p @192",
                                       "run q @64"));
}

// Instructions as "name", with "link" and "after n".
std::vector<std::string> Streams(const MemoryPlan& plan) {
  std::vector<std::string> lines;
  for (const Instruction& i : plan.instructions) {
    std::string line = i.name;
    if (i.link) line += " link";
    if (i.wait >= 0) absl::StrAppend(&line, " after ", i.wait);
    lines.push_back(line);
  }
  return lines;
}

// Protects: the link starts when all compute before it has finished, compute waits for what it
// reads, and nothing else takes the memory of what is on its way.
TEST(MemoryPlanTest, StreamsWait) {
  StepBuilder b({"phase", "next"});
  auto call = [&](const std::string& body, bool link, int phase) {
    StepSegment part = Part("p", body);
    part.link = link;
    return b.AddCall(b.AddSegment(std::move(part)), -1, phase);
  };
  call("feed %x: f32[16] %a: f32[16] = tanh(%x) output a = %a", false, 0);
  const int gather = call("feed %a: f32[16] %g: f32[32] = pack(%a) {elements=32, offsets=[0]} "
                          "%g2: f32[32] = square(%g) output g2 = %g2", true, 0);
  const int reduce = call("feed %a: f32[16] %r: f32[8] = unpack(%a) {dims=[8], offsets=[1], "
                          "ranks=[1]} output r = %r", true, 0);
  call("feed %y: f32[16] %c: f32[16] = tanh(%y) output c = %c", false, 0);
  call("feed %g2: f32[32] %d: f32[32] = tanh(%g2)", false, 0);
  b.MustFinishBefore(reduce, call("feed %z: f32[16] %e: f32[16] = tanh(%z)", false, 0));
  call("feed %r: f32[8] %f: f32[8] = square(%r)", false, 1);
  b.MustFinishBefore(gather, call("feed %w: f32[16] %h: f32[16] = tanh(%w)", false, 1));
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  std::vector<Executable> executables;
  KernelCache cache(ReferenceKernels(), 1);
  for (const StepSegment& segment : step.segments) {
    ASSERT_OK_AND_ASSIGN(Executable executable, Compile(segment.segment, cache, DeviceRates()));
    executables.push_back(std::move(executable));
  }
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(step, executables, /*overlap=*/true));
  EXPECT_THAT(Streams(plan),
              ElementsAre("x", "a", "g link after 1", "g2 link", "r link", "y", "c", "d after 3",
                          "z after 4", "e", "f", "w", "h"));
  // The link reads a until 8 has waited for 4: y is elsewhere.
  EXPECT_NE(plan.instructions[5].results[0].offset, plan.instructions[1].results[0].offset);
  ASSERT_OK_AND_ASSIGN(MemoryPlan one, PlanMemory(step, executables, /*overlap=*/false));
  EXPECT_THAT(Streams(one), ElementsAre("x", "a", "g", "g2", "r", "y", "c", "d", "z", "e", "f", "w",
                                        "h"));
  EXPECT_LE(one.device_bytes, plan.device_bytes);
}

// Protects: without a wait what the link touches is kept to the end of the phase.
TEST(MemoryPlanTest, WhatNobodyWaitsForIsKept) {
  StepBuilder b({"phase"});
  StepSegment make = Part("p", "feed %x: f32[16] %a: f32[16] = tanh(%x) output a = %a");
  StepSegment link = Part("q", "feed %a: f32[16] %g: f32[8] = unpack(%a) {dims=[8], offsets=[1], "
                               "ranks=[1]} output g = %g");
  StepSegment rest = Part("r", "feed %y: f32[16] %c: f32[16] = tanh(%y)");
  link.link = true;
  for (StepSegment* part : {&make, &link, &rest}) b.AddCall(b.AddSegment(*part), -1, 0);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  std::vector<Executable> executables;
  KernelCache cache(ReferenceKernels(), 1);
  for (const StepSegment& segment : step.segments) {
    ASSERT_OK_AND_ASSIGN(Executable executable, Compile(segment.segment, cache, DeviceRates()));
    executables.push_back(std::move(executable));
  }
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(step, executables, /*overlap=*/true));
  EXPECT_EQ(ToText(plan), "device 192 bytes, 0 of state; host 128 bytes\n"
                          "phase 0\n"
                          "0 feed x -> [0,64) after late 2\n"
                          "1 kernel a [0,64) -> [0,64)\n"
                          "2 kernel g [0,64) -> [64,96) on link after 1\n"
                          "3 feed y -> [128,192)\n"
                          "4 kernel c [128,192) -> [128,192)\n");
}

// Protects: an operand that is made in an earlier phase is not made at home, since the phase that
// writes the state may not run.
TEST(MemoryPlanTest, HomesChangeInTheirPhaseOnly) {
  StepBuilder b({"measure", "update"});
  b.AddCall(b.AddSegment(Part("p", "feed %x: f32[16] %a: f32[16] = square(%x) output a = %a")), -1,
            0);
  b.AddCall(b.AddSegment(Part("q", "state %s: f32[64] {role=buffer, global=[64], disk=[64], "
                                   "axes=[a]} feed %a: f32[16] %p: f32[64] = pack(%a) "
                                   "{elements=64, offsets=[16]} update %s = %p")),
            -1, 1);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  std::vector<Executable> executables;
  KernelCache cache(ReferenceKernels(), 1);
  for (const StepSegment& segment : step.segments) {
    ASSERT_OK_AND_ASSIGN(Executable executable, Compile(segment.segment, cache, DeviceRates()));
    executables.push_back(std::move(executable));
  }
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(step, executables));
  EXPECT_EQ(plan.instructions.back().results[0].offset, 0);
  EXPECT_GE(plan.instructions.back().operands[0].offset, 256);
}

// Protects: communication that nobody waits for goes on after its phase, and whoever comes next
// waits for it where it meets its memory, at its own place and no earlier.
TEST(MemoryPlanTest, LinksOutlastTheirPhase) {
  StepBuilder b({"forward", "update"});
  auto call = [&](const std::string& body, bool link, int phase) {
    StepSegment part = Part("p", body);
    part.link = link;
    b.AddCall(b.AddSegment(std::move(part)), -1, phase);
  };
  const std::string u = "state %u: f32[16] {role=buffer, global=[16], disk=[16], axes=[a]} ";
  const std::string v = "state %v: f32[16] {role=buffer, global=[16], disk=[16], axes=[a]} ";
  call("feed %x: f32[16] %a: f32[16] = tanh(%x)", false, 0);
  call(u + "%b: f32[16] = tanh(%u)", false, 0);
  call(v + "%c: f32[16] = tanh(%v)", false, 0);
  call(u + "%d: f32[16] = square(%u) update %u = %d", true, 1);
  call(v + "%e: f32[16] = square(%v) update %v = %e", true, 1);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(b).Build());
  std::vector<Executable> executables;
  KernelCache cache(ReferenceKernels(), 1);
  for (const StepSegment& segment : step.segments) {
    ASSERT_OK_AND_ASSIGN(Executable executable, Compile(segment.segment, cache, DeviceRates()));
    executables.push_back(std::move(executable));
  }
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(step, executables, /*overlap=*/true));
  EXPECT_THAT(plan.outlasts, ElementsAre(false, true));
  std::vector<std::string> lines;
  for (const Instruction& i : plan.instructions) {
    lines.push_back(i.name);
    for (int late : i.late_waits) absl::StrAppend(&lines.back(), " after late ", late);
  }
  EXPECT_THAT(lines, ElementsAre("x", "a", "b after late 4", "c after late 5", "d", "e"));
}

TEST(MemoryPlanTest, RefusalsNameTheStateOrFeed) {
  struct Refusal {
    std::vector<std::string> parts;
    const char* message;
  };
  const std::string m = "state %m: f32[4,4] {role=moment1, global=[4,4], disk=[], axes=[]} ";
  const Refusal refusals[] = {
      {{std::string(kW) + "%a: f32[4,4] = tanh(%w)",
        "state %w: f32[4] {role=parameter, global=[4,4], disk=[4,4], axes=[a, b], trainable} "
        "%b: f32[4] = tanh(%w)"},
       "state 'w' is parameter f32[4,4] in one segment and parameter f32[4] in another"},
      {{std::string(kW) + "%a: f32[4,4] = tanh(%w)",
        "state %w: f32[4,4] {role=buffer, global=[4,4], disk=[4,4], axes=[a, b], trainable} "
        "%b: f32[4,4] = tanh(%w)"},
       "buffer f32[4,4] in another"},
      {{"feed %x: f32[4] %a: f32[4] = tanh(%x)", "feed %x: f32[5] %b: f32[5] = tanh(%x)"},
       "feed 'x' is f32[4] in one segment and f32[5] in another"},
      {{kW + m + "%a: f32[4,4] = tanh(%w) update %w = %a "
        "%f: f32[16] = reshape(%w) {spec=\"a b -> (a b)\", dims=[16]} "
        "%b: f32[4,4] = reshape(%f) {spec=\"(a b) -> a b\", dims=[4,4]} update %m = %b"},
       "state 'm' ends as the value that state 'w' had before its own update"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<StepSegment> parts;
    for (const std::string& part : refusal.parts) {
      parts.push_back(Part(absl::StrCat("p", parts.size()), part));
    }
    EXPECT_THAT(Plan(parts).plan,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(refusal.message)));
  }
}

TEST(MemoryPlanTest, RefusesWhatDoesNotFitWithItsLargestContributors) {
  MemoryPlan plan = PlanOf({Part(
      "p", "state %w: f32[64,64] {role=parameter, global=[64,64], disk=[], axes=[], trainable} "
           "feed %x: f32[4,64] %y: f32[4,64] = matmul(%x, %w) {spec=\"m k, k n -> m n\"} "
           "%z: f32[4,64] = add(%x, %y)")});
  EXPECT_EQ(plan.device_bytes, 64 * 64 * 4 + 2 * 4 * 64 * 4);
  EXPECT_OK(CheckFits(plan, plan.device_bytes));
  absl::Status refusal = CheckFits(plan, plan.device_bytes - 1);
  EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("the device has 18431 bytes, the plan needs 18432 "
                                          "(16384 of state)")));
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("\n  16384 bytes  w\n  1024 bytes  x\n  1024 bytes  y\n"));
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("would fit with"));
}

}  // namespace
}  // namespace colossus
