// StagePipeline: a plan's stages as a rank sees them, and the calls of its step that come of it.
//
// Purpose: what lies between parallel/pipeline, which knows graphs and schedules, and the step of a
// rank. Every rank cuts the same graph in the same way and finds the same order of all actions and
// messages; then it leaves out what other stages do.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(StagePipeline pipeline,
//                    StagePipeline::Make(plan, config, local, stage, optimizer, facts));
//   pipeline.OnStage(pipeline.cut.PartOf(node.block));
#ifndef COLOSSUS_PARALLEL_STAGES_STAGE_PIPELINE_H_
#define COLOSSUS_PARALLEL_STAGES_STAGE_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/event_order.h"
#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/plan.h"
#include "parallel/sharding/partition.h"
#include "parallel/zero/block_calls.h"
#include "shardformer/config.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/optim/update.h"

namespace colossus {

// What is known of a pipeline that its plan and graph do not say; the same on all ranks.
struct PipelineFacts {
  // Seconds of parts and messages (parallel/time_pipeline.h), by which `searched` goes; their
  // activations are not read. None: what ops are predicted to take.
  std::optional<PipelineCosts> measured;
  // Of each stage the micro-batches, at least 1, whose activations `searched` may keep at once.
  // Empty: as many as it likes. None: compilation finds out (parallel/fit_schedule.h).
  std::optional<std::vector<double>> room;
  // Of each rank's device; balanced borders keep to it if they can. None: that of the device that
  // is compiled for.
  std::optional<int64_t> device_bytes;
  // What was found for these facts before, to be taken as it is.
  std::shared_ptr<const Timeline> timeline;
};

struct StagePipeline {
  ModelCut cut;
  StageOfPart stage_of;
  int stages = 1, stage = 0;  // this rank's
  bool split_backward = false;
  Timeline timeline;    // of training
  PipelineCosts costs;  // that it goes by

  // Stages of different meshes (split_stages.h): the meshes, this rank's number in the job, what
  // crosses, and names of the values that this stage sends. nullptr: all have the same mesh.
  std::shared_ptr<const StageMeshes> meshes;
  int rank = 0;
  std::vector<Message> messages, outputs_to_all;
  std::set<std::string> sent;

  // Of a differentiated graph, by the plan's schedule. `optimizer`: whose states are held beside
  // parameters. Error: as Simulate.
  static absl::StatusOr<StagePipeline> Make(const Plan& plan, const ModelConfig& config,
                                            const Graph& graph, int stage,
                                            const Optimizer& optimizer,
                                            const PipelineFacts& facts);
  // Of a cut and a timeline of its parts.
  static StagePipeline Of(ModelCut cut, Timeline timeline, int stage);
  // Of a forward graph that runs by itself: a part for each stage, in order.
  static StagePipeline MakeForward(const Plan& plan, const ModelConfig& config, const Graph& graph,
                                   int stage);

  bool OnStage(int part) const { return stage_of[static_cast<size_t>(part)] == stage; }
};

// Which stages read each state, ascending, and which one makes each output.
struct StageUses {
  std::map<std::string, std::vector<int>> of_state;
  std::map<std::string, int> of_output;
};
StageUses FindStageUses(const Graph& graph, const StagePipeline& pipeline);

// Messages that give the outputs of a graph to the stages that do not make them.
std::vector<Message> OutputsToAll(const Graph& graph, const StageUses& uses, int stages);

// Says of each state which stages hold it.
void SetStages(const StageUses& uses, const StagePipeline& pipeline,
               std::vector<LocalState>& states);

// A variant of the model cut into pieces of work, its segments of this stage added to a step.
struct StageVariant {
  BlockVariant calls;
  std::vector<Work> works;        // per part
  std::vector<Message> messages;  // between stages
};

// This rank's end of a message, which sends or receives; none: it has no end of it. `name`: as
// SendSegment.
absl::StatusOr<std::optional<StepSegment>> EndOf(const Message& message,
                                                 const StagePipeline& pipeline,
                                                 absl::string_view name);

// By message: the segment of this rank's end, added to `step`; -1: none. `fetched`: what is
// received goes to the host too.
using MessageSegments = std::vector<int>;
absl::StatusOr<MessageSegments> AddMessageSegments(const std::vector<Message>& messages,
                                                   const StagePipeline& pipeline,
                                                   absl::string_view name, bool fetched,
                                                   StepBuilder& step);

// What the calls of a step are in the pipeline.
struct PipelineCalls {
  // When a call of a segment for a micro-batch runs, among those of all stages.
  std::map<std::pair<int, int>, int64_t> order;
  // By segment: the work that it is of, or the message whose end it is.
  std::map<int, Work> works;
  std::map<int, int> messages;
  int message_count = 0;  // of all stages

  // `segments`: of messages. `calls`: as TrainingCalls gives them, by `variant`.
  static PipelineCalls Of(const std::vector<BlockCall>& calls, const MessageSegments& segments,
                          const std::function<const StageVariant&(int)>& variant);
};

// The calls of this stage in the order of its timeline. `variant`: the one of a micro-batch; all
// have the same `messages`.
std::vector<BlockCall> TrainingCalls(const StagePipeline& pipeline,
                                     const std::vector<Message>& messages,
                                     const MessageSegments& segments,
                                     const std::function<const StageVariant&(int)>& variant);

// Of a forward alone: part by part, then what `to_all` sends.
std::vector<BlockCall> ForwardCalls(const StageVariant& variant, const StagePipeline& pipeline,
                                    const MessageSegments& segments, const MessageSegments& to_all,
                                    int micro_batch);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STAGES_STAGE_PIPELINE_H_
