// An encoder-decoder written as text, differentiated, cut by hand into three stages: values cross
// borders forward and backward, also past a stage, a bias and a table are shared. The stages as one
// step equal the uncut graph bit for bit.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/segment.h"
#include "tensor/exec/step.h"
#include "tensor/graph/block.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/passes/autodiff.h"
#include "tests/gate/gate_graph.h"

namespace colossus {
namespace {

using ::testing::Contains;

constexpr int kStages = 3, kMicroBatches = 2;

HostTensors Feeds(int micro_batch) {
  HostTensors feeds;
  feeds["seed"] = ScalarF64(0.125);
  if (micro_batch == 0) {
    feeds["source"] = HostTensor::Of<int32_t>({2, 5}, {1, 5, 2, 0, 0, 6, 3, 3, 1, 4});
    feeds["source_length"] = HostTensor::Of<int32_t>({2}, {3, 5});
    feeds["ids"] = HostTensor::Of<int32_t>({2, 3}, {0, 4, 4, 0, 2, 6});
    feeds["labels"] = HostTensor::Of<int32_t>({2, 3}, {4, 4, 1, 2, 6, -100});
  } else {
    feeds["source"] = HostTensor::Of<int32_t>({2, 5}, {2, 2, 6, 5, 0, 1, 0, 0, 0, 0});
    feeds["source_length"] = HostTensor::Of<int32_t>({2}, {4, 1});
    feeds["ids"] = HostTensor::Of<int32_t>({2, 3}, {0, 1, 2, 0, 5, 0});
    feeds["labels"] = HostTensor::Of<int32_t>({2, 3}, {1, 2, 3, 5, -100, -100});
  }
  return feeds;
}

int StageOf(const Node& node) {
  static const std::map<std::string, int> stages = {
      {"encoder", 0}, {"decoder.0", 1}, {"decoder.1", 2}, {"head", 2}};
  return stages.at(std::string(SourceBlock(node.block)));
}

// Forward parts 0, 1, 2 and backward parts 3, 4, 5, last stage first.
int PartOf(const Node& node) {
  return RunsBackward(node) ? 2 * kStages - 1 - StageOf(node) : StageOf(node);
}

struct Model {
  Graph forward;
  Differentiated differentiated;
  HostTensors parameters;
};

absl::StatusOr<Model> ReadModel() {
  ASSIGN_OR_RETURN(Graph forward, ReadGateGraph("encoder_decoder"));
  ASSIGN_OR_RETURN(Differentiated differentiated,
                   Autodiff(forward, forward.FindOutput("loss"), forward.FindValue("seed")));
  RETURN_IF_ERROR(Verify(differentiated.graph));
  HostTensors parameters = RandomParameters(forward, TestSeed());
  return Model{std::move(forward), std::move(differentiated), std::move(parameters)};
}

HostTensors WithParameters(const Model& model, HostTensors feeds) {
  feeds.insert(model.parameters.begin(), model.parameters.end());
  return feeds;
}

TEST(EncoderDecoderGraphTest, GradientsEqualDifferences) {
  ASSERT_OK_AND_ASSIGN(Model model, ReadModel());
  EXPECT_EQ(model.differentiated.parameters.size(), model.forward.states().size());
  for (int m = 0; m < kMicroBatches; ++m) {
    ExpectGradientsOfLoss(model.forward, model.differentiated, WithParameters(model, Feeds(m)));
  }
  // Both embeddings and the head read the table; each use has a gradient of its own.
  for (const ParameterGradients& gradients : model.differentiated.parameters) {
    EXPECT_EQ(gradients.outputs.size(), gradients.state == "table" ? 3u : 1u) << gradients.state;
  }
}

std::vector<Segment> Cut(const Graph& graph) {
  std::vector<int> part_of;
  for (const Node& node : graph.nodes()) part_of.push_back(PartOf(node));
  absl::StatusOr<std::vector<Segment>> segments = CutIntoSegments(graph, part_of);
  CHECK_OK(segments.status());
  return *std::move(segments);
}

std::set<std::string> FeedNames(const Segment& segment) {
  std::set<std::string> names;
  for (ValueId v : segment.graph->feeds()) names.insert(segment.graph->value(v).name);
  return names;
}

TEST(EncoderDecoderGraphTest, ValuesCrossTheCuts) {
  ASSERT_OK_AND_ASSIGN(Model model, ReadModel());
  const std::vector<Segment> parts = Cut(model.differentiated.graph);
  ASSERT_EQ(parts.size(), size_t{2 * kStages});
  for (const Segment& part : parts) EXPECT_OK(Verify(*part.graph)) << part.name;
  // The encoder's result goes to both decoder stages, its cotangent comes back from the first; the
  // decoder's bias and its cotangent cross one border.
  EXPECT_THAT(FeedNames(parts[1]), Contains("memory"));
  EXPECT_THAT(FeedNames(parts[2]), Contains("memory"));
  EXPECT_THAT(FeedNames(parts[2]), Contains("dec.bias"));
  EXPECT_THAT(FeedNames(parts[2]), Contains("dec0.cross.y"));
  EXPECT_THAT(FeedNames(parts[4]), Contains("d.dec0.cross.y"));
  EXPECT_THAT(FeedNames(parts[5]), Contains("d.memory"));
  for (int part : {0, 1, 2}) EXPECT_NE(parts[part].graph->FindState("table"), nullptr) << part;
}

// Micro-batches overlap: the second one's forward runs before the first one's backward, and the
// last stage alternates.
absl::StatusOr<Step> PipelinedStep(const Differentiated& differentiated) {
  StepBuilder builder({"run"});
  std::vector<int> segments;
  for (Segment& part : Cut(differentiated.graph)) {
    StepSegment added;
    for (const Output& output : differentiated.graph.outputs()) {
      if (part.graph->FindOutput(output.name) != kNoValue) added.fetched.push_back(output.name);
    }
    added.segment = std::move(part);
    segments.push_back(builder.AddSegment(std::move(added)));
  }
  std::map<std::pair<int, int>, int> calls;  // (part, micro-batch)
  for (int m = 0; m < kMicroBatches; ++m) {
    for (int part = 0; part < 2 * kStages; ++part) {
      calls[{part, m}] = builder.AddCall(segments[part], m, 0);
    }
  }
  builder.MustRunBefore(calls[{1, 1}], calls[{4, 0}]);
  builder.MustRunBefore(calls[{3, 0}], calls[{2, 1}]);
  return std::move(builder).Build();
}

TEST(EncoderDecoderGraphTest, StagesEqualTheUncutGraph) {
  ASSERT_OK_AND_ASSIGN(Model model, ReadModel());
  ASSERT_OK_AND_ASSIGN(Step step, PipelinedStep(model.differentiated));
  std::unique_ptr<Device> device = NewHostDevice({.kernels = ReferenceKernels()});
  ProgramOptions options;
  options.poison = true;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                       Program::Compile(std::move(step), *device, options));
  ASSERT_OK(program->Allocate());
  for (const auto& parameter : model.parameters) {
    ASSERT_OK(program->WriteState(parameter.first, parameter.second));
  }
  const HostTensors feeds[kMicroBatches] = {Feeds(0), Feeds(1)};
  FeedFunction feed = [&](absl::string_view name, int micro_batch) {
    return &feeds[micro_batch].at(std::string(name));
  };
  ASSERT_OK_AND_ASSIGN(Fetched fetched, program->RunPhase(0, feed));
  for (int m = 0; m < kMicroBatches; ++m) {
    ASSERT_OK_AND_ASSIGN(HostTensors uncut, Interpret(model.differentiated.graph,
                                                      WithParameters(model, feeds[m])));
    for (const Output& output : model.differentiated.graph.outputs()) {
      EXPECT_EQ(fetched.at({output.name, m}), uncut.at(output.name)) << output.name << " of " << m;
    }
  }
}

}  // namespace
}  // namespace colossus
