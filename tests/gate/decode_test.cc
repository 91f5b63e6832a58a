// One decoding step with key and value caches, written as text: step by step it equals the forward
// over whole texts, interpreted and as a Program that keeps the caches.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/segment.h"
#include "tensor/exec/step.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tests/gate/gate_graph.h"

namespace colossus {
namespace {

constexpr int32_t kRows = 2, kLength = 6, kVocabulary = 7, kHead = 4;
// Row 1 already has two tokens in its cache when decoding starts.
constexpr int32_t kBefore[kRows] = {0, 2};
constexpr int32_t kSteps = 4;

HostTensor Ids() {
  return HostTensor::Of<int32_t>({kRows, kLength}, {3, 1, 6, 6, 0, 2, 5, 5, 4, 1, 0, 3});
}

// Keys or values of the tokens each row starts with; NaN behind them, which nobody may read.
HostTensor Cache(const HostTensor& all) {
  HostTensor cache(all.type());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t i = 0; i < kHead; ++i) {
        const int64_t at = (row * kLength + t) * kHead + i;
        cache.Set(at, t < kBefore[row] ? all.Get(at) : NAN);
      }
    }
  }
  return cache;
}

HostTensors StepFeeds(int32_t step) {
  std::vector<int32_t> ids, lengths;
  for (int32_t row = 0; row < kRows; ++row) {
    lengths.push_back(kBefore[row] + step);
    ids.push_back(static_cast<int32_t>(Ids().Get(row * kLength + lengths.back())));
  }
  return {{"ids", HostTensor::Of<int32_t>({kRows, 1}, ids)},
          {"positions", HostTensor::Of<int32_t>({kRows, 1}, lengths)},
          {"length", HostTensor::Of<int32_t>({kRows}, lengths)}};
}

// logits[2 1 v] of a step beside those of the same places in the whole texts.
void ExpectSameLogits(const HostTensor& logits, const HostTensor& whole, int32_t step) {
  std::vector<double> expected;
  for (int32_t row = 0; row < kRows; ++row) {
    for (int32_t i = 0; i < kVocabulary; ++i) {
      expected.push_back(whole.Get((row * kLength + kBefore[row] + step) * kVocabulary + i));
    }
  }
  // The same sums; reference attention adds keys in the same order.
  EXPECT_TRUE(TensorNear(logits.ToDoubles(), expected, {.relative_to_max = 1e-14})) << step;
}

struct Texts {
  Graph decode;
  HostTensors whole;   // outputs over whole texts
  HostTensors states;  // parameters, and caches before the first step
};

absl::StatusOr<Texts> ReadTexts() {
  Texts texts;
  ASSIGN_OR_RETURN(texts.decode, ReadGateGraph("decode"));
  ASSIGN_OR_RETURN(Graph whole, ReadGateGraph("decode_whole"));
  HostTensors inputs = texts.states = RandomParameters(whole, TestSeed());
  inputs["ids"] = Ids();
  ASSIGN_OR_RETURN(texts.whole, Interpret(whole, inputs));
  texts.states["k.cache"] = Cache(texts.whole.at("keys"));
  texts.states["v.cache"] = Cache(texts.whole.at("values"));
  return texts;
}

TEST(DecodeGraphTest, StepsEqualTheWhole) {
  ASSERT_OK_AND_ASSIGN(Texts texts, ReadTexts());
  HostTensors inputs = texts.states;
  for (int32_t step = 0; step < kSteps; ++step) {
    for (auto& feed : StepFeeds(step)) inputs[feed.first] = feed.second;
    ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(texts.decode, inputs));
    ExpectSameLogits(out.at("logits"), texts.whole.at("logits"), step);
    for (const char* cache : {"k.cache", "v.cache"}) inputs[cache] = out.at(cache);
  }
}

TEST(DecodeGraphTest, ProgramKeepsTheCaches) {
  ASSERT_OK_AND_ASSIGN(Texts texts, ReadTexts());
  std::unique_ptr<Device> device = NewHostDevice({.kernels = ReferenceKernels()});
  StepBuilder builder({"decode"});
  StepSegment segment;
  segment.segment = {"decode", std::make_shared<const Graph>(std::move(texts.decode))};
  segment.fetched = {"logits"};
  builder.AddCall(builder.AddSegment(std::move(segment)), 0, 0);
  ASSERT_OK_AND_ASSIGN(Step step, std::move(builder).Build());
  ProgramOptions options;
  options.poison = true;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                       Program::Compile(std::move(step), *device, options));
  ASSERT_OK(program->Allocate());
  for (const auto& state : texts.states) ASSERT_OK(program->WriteState(state.first, state.second));
  // Appending writes one row of each cache where it is: nothing is copied.
  for (const Instruction& instruction : program->plan().instructions) {
    EXPECT_NE(instruction.kind, InstructionKind::kCopy) << instruction.name;
  }
  for (int32_t s = 0; s < kSteps; ++s) {
    const HostTensors feeds = StepFeeds(s);
    FeedFunction feed = [&](absl::string_view name, int) { return &feeds.at(std::string(name)); };
    ASSERT_OK_AND_ASSIGN(Fetched fetched, program->RunPhase(0, feed));
    ExpectSameLogits(fetched.at({"logits", 0}), texts.whole.at("logits"), s);
  }
}

}  // namespace
}  // namespace colossus
