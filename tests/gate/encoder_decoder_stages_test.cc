// The encoder-decoder as a pipeline on thread ranks: the encoder's result is read by every decoder
// block, the decoder's bias by both, the table by all three stages. Stages of one rank give the
// bits of the uncut graph, stages with meshes of their own the same numbers.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "collectives/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/pipeline/transfers.h"
#include "parallel/rank_graph.h"
#include "parallel/sharding/lockstep.h"
#include "parallel/sharding/partition.h"
#include "parallel/stages/split_stages.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/training_step.h"
#include "parallel/zero/block_calls.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/collective.h"
#include "tensor/passes/autodiff.h"
#include "tests/gate/gate_graph.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

constexpr int kMicroBatches = 6;

HostTensors Feeds(int micro_batch) {
  const int32_t m = micro_batch;
  HostTensors feeds;
  feeds["seed"] = ScalarF64(0.125);
  feeds["source"] = HostTensor::Of<int32_t>({2, 5}, {1, m, 2, 0, 0, 6, 3, 3, 1, m});
  feeds["source_length"] = HostTensor::Of<int32_t>({2}, {3, 5});
  feeds["ids"] = HostTensor::Of<int32_t>({2, 3}, {0, 4, m, 0, 2, 6});
  feeds["labels"] = HostTensor::Of<int32_t>({2, 3}, {4, m, 1, 2, 6, -100});
  return feeds;
}

struct Model {
  Differentiated differentiated;
  HostTensors parameters;
};

absl::StatusOr<Model> ReadModel() {
  ASSIGN_OR_RETURN(const Graph forward, ReadGateGraph("encoder_decoder"));
  ASSIGN_OR_RETURN(Differentiated differentiated,
                   Autodiff(forward, forward.FindOutput("loss"), forward.FindValue("seed")));
  return Model{std::move(differentiated), RandomParameters(forward, TestSeed())};
}

// Encoder; first decoder layer; second one and head.
StagePipeline PipelineOf(const char* schedule, int stage) {
  ScheduleInput input;
  input.shape = {3, 1, kMicroBatches};
  input.costs = UniformCosts(input.shape, StageCosts());
  absl::StatusOr<Timeline> timeline = Simulate(**FindSchedule(schedule), input);
  CHECK_OK(timeline.status());
  ModelCut cut =
      CutAtBorders({"encoder", "decoder.0", "decoder.1", "head"}, {"decoder.0", "decoder.1"});
  return StagePipeline::Of(std::move(cut), *std::move(timeline), stage);
}

// Heads are split over "tensor", where a stage has it.
std::vector<StageRules> RulesOf(const std::vector<int64_t>& tensor) {
  std::vector<StageRules> stages;
  int first = 0;
  for (int64_t size : tensor) {
    StageRules& stage = stages.emplace_back();
    absl::StatusOr<Mesh> mesh = Mesh::Make({{"tensor", size}});
    CHECK_OK(mesh.status());
    stage.mesh = *std::move(mesh);
    stage.first = first;
    stage.rules.parameters["heads"] = {"tensor"};
    first += stage.mesh.ranks();
  }
  return stages;
}

MeshPlace PlaceOf(const std::vector<StageRules>& stages, int rank) {
  MeshPlace place;
  place.own_mesh = true;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (rank < stages[s].first) break;
    place.mesh = stages[s].mesh;
    place.first = stages[s].first;
    place.stage_of_mesh = static_cast<int>(s);
  }
  place.rank = rank - place.first;
  return place;
}

// What a rank gives back: outputs of its stage, of each micro-batch, and what it has sent.
struct RankResult {
  MeshPlace place;
  Partitioned local;
  Fetched fetched;
  StagePipeline pipeline;
  int64_t messages = 0, elements = 0;  // to other stages
};

absl::Status RunRank(const Model& model, const char* schedule, const std::vector<int64_t>& tensor,
                     Communicator& world, RankResult& mine) {
  const std::vector<StageRules> stages = RulesOf(tensor);
  mine.place = PlaceOf(stages, world.rank());
  StagePipeline& pipeline = mine.pipeline;
  pipeline = PipelineOf(schedule, mine.place.stage());
  ASSIGN_OR_RETURN(mine.local,
                   SplitStages(model.differentiated.graph, model.differentiated.parameters, stages,
                               mine.place, /*panels=*/false, pipeline));
  MeshCommunicators communicators(mine.place.mesh, world, mine.place.first);
  CollectiveKernels kernels(communicators, ReferenceKernels());
  std::unique_ptr<Device> device = NewHostDevice({.kernels = kernels.list(), .overlap = true});
  StepBuilder step({"accumulate"});
  ASSIGN_OR_RETURN(const Variant variant, AddVariant(mine.local.graph, ZeroLayout(), &pipeline,
                                                     "model", {}, *device, step));
  ASSIGN_OR_RETURN(const MessageSegments messages,
                   AddMessageSegments(variant.messages, pipeline, "", false, step));
  AddBlockCalls(step,
                TrainingCalls(pipeline, variant.messages, messages,
                              [&](int) -> const StageVariant& { return variant; }),
                0, {}, nullptr, kMicroBatches - 1);
  ASSIGN_OR_RETURN(Step built, std::move(step).Build());
  ProgramOptions options;
  options.poison = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<Program> program,
                   Program::Compile(std::move(built), *device, options));
  RETURN_IF_ERROR(program->Allocate());
  for (const LocalState& state : mine.local.states) {
    RETURN_IF_ERROR(program->WriteState(
        state.info.name, CutOut(model.parameters.at(state.info.name), state.slice)));
  }
  std::vector<HostTensors> feeds;
  for (int m = 0; m < kMicroBatches; ++m) feeds.push_back(Feeds(m));
  ASSIGN_OR_RETURN(mine.fetched, program->RunPhase(0, [&](absl::string_view name, int m) {
    return &feeds[static_cast<size_t>(m)].at(std::string(name));
  }));
  const CollectiveCounts sent = communicators.counts()[kWorldAxis];
  mine.messages = sent.messages;
  mine.elements = sent.elements;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RankResult>> RunPipeline(const Model& model, const char* schedule,
                                                    const std::vector<int64_t>& tensor) {
  const StageRules last = RulesOf(tensor).back();
  std::vector<RankResult> ranks(static_cast<size_t>(last.first + last.mesh.ranks()));
  RETURN_IF_ERROR(RunRanks({.ranks = static_cast<int>(ranks.size())}, [&](Communicator& world) {
    return RunRank(model, schedule, tensor, world, ranks[static_cast<size_t>(world.rank())]);
  }));
  return ranks;
}

// The whole of an output from the ranks of the stage that has it.
HostTensor WholeOf(const std::vector<RankResult>& ranks, const Output& output, const Dims& dims,
                   int micro_batch) {
  std::vector<HostTensor> parts;
  const RankResult* maker = nullptr;
  for (const RankResult& rank : ranks) {
    const auto found = rank.fetched.find({output.name, micro_batch});
    if (found == rank.fetched.end()) continue;
    maker = &rank;
    parts.push_back(found->second);
  }
  CHECK(maker != nullptr) << output.name;
  return Join(parts, maker->local.outputs.at(output.name), dims, maker->place.mesh);
}

void ExpectTheUncut(const Model& model, const std::vector<RankResult>& ranks, bool bits) {
  const Graph& graph = model.differentiated.graph;
  for (int m = 0; m < kMicroBatches; ++m) {
    HostTensors inputs = Feeds(m);
    inputs.insert(model.parameters.begin(), model.parameters.end());
    ASSERT_OK_AND_ASSIGN(const HostTensors uncut, Interpret(graph, inputs));
    for (const Output& output : graph.outputs()) {
      const HostTensor& expected = uncut.at(output.name);
      const HostTensor actual = WholeOf(ranks, output, expected.type().dims, m);
      if (bits) {
        EXPECT_EQ(actual, expected) << output.name << " of " << m;
      } else {
        // Sums over the heads of two ranks, in f64.
        EXPECT_TRUE(TensorNear(actual.ToDoubles(), expected.ToDoubles(),
                               {.absolute = 1e-14, .relative_l2 = 1e-12}))
            << output.name << " of " << m;
      }
    }
  }
}

// Each receiver gets each element once, and nothing else is sent.
void ExpectWhatIsPlanned(const std::vector<RankResult>& ranks) {
  int64_t messages = 0, elements = 0, sent_messages = 0, sent_elements = 0;
  const StagePipeline& pipeline = ranks[0].pipeline;
  for (const Message& message : pipeline.messages) {
    for (const SentValue& value : message.values) {
      ASSERT_OK_AND_ASSIGN(const Transfers transfers,
                           PlanTransfers(value.type.dims, pipeline.meshes->Of(message.from, value),
                                         pipeline.meshes->Of(message.to, value)));
      for (const Transfer& transfer : transfers.list) {
        messages += kMicroBatches;
        elements += kMicroBatches * ElementCount(transfer.extent);
      }
    }
  }
  for (const RankResult& rank : ranks) {
    sent_messages += rank.messages;
    sent_elements += rank.elements;
  }
  EXPECT_EQ(sent_messages, messages);
  EXPECT_EQ(sent_elements, elements);
}

TEST(EncoderDecoderStagesTest, BitsOfTheUncutGraph) {
  ASSERT_OK_AND_ASSIGN(const Model model, ReadModel());
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    ASSERT_OK_AND_ASSIGN(const std::vector<RankResult> ranks,
                         RunPipeline(model, schedule, {1, 1, 1}));
    ExpectTheUncut(model, ranks, /*bits=*/true);
  }
}

TEST(EncoderDecoderStagesTest, StagesOfDifferentMeshes) {
  ASSERT_OK_AND_ASSIGN(const Model model, ReadModel());
  for (const std::vector<int64_t>& tensor :
       std::vector<std::vector<int64_t>>{{1, 1, 2}, {2, 1, 1}, {1, 2, 1}, {2, 1, 2}}) {
    for (const char* schedule : {"1f1b", "zb-h2"}) {
      SCOPED_TRACE(absl::StrCat(schedule, " ", tensor[0], tensor[1], tensor[2]));
      ASSERT_OK_AND_ASSIGN(const std::vector<RankResult> ranks,
                           RunPipeline(model, schedule, tensor));
      ExpectTheUncut(model, ranks, /*bits=*/false);
      ExpectWhatIsPlanned(ranks);
    }
  }
}

// Skip values go straight to whoever reads them, once.
TEST(EncoderDecoderStagesTest, Messages) {
  ASSERT_OK_AND_ASSIGN(const Model model, ReadModel());
  const StagePipeline pipeline = PipelineOf("1f1b", 0);
  const Graph& graph = model.differentiated.graph;
  std::vector<std::string> sent;
  for (const Message& message :
       FindMessages(graph, WorkOfNodes(graph, pipeline.cut, false), pipeline.stage_of)) {
    for (const SentValue& value : message.values) {
      if (value.name.find("memory") == std::string::npos &&
          value.name.find("bias") == std::string::npos) {
        continue;
      }
      sent.push_back(absl::StrCat(message.from, ">", message.to, " ", value.name));
    }
  }
  EXPECT_THAT(sent, ElementsAre("0>1 memory", "0>2 memory", "1>2 dec.bias", "1>0 d.memory"));
}

}  // namespace
}  // namespace colossus
