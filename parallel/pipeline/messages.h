// Messages: the values that cross from stage to stage.
//
// Purpose: what one piece of work makes and another stage reads goes there in one message, directly
// and once, however many parts it passes on the way and however often it is read there. The
// segments that send and receive it are calls of the step like others; a receiver finds the values
// under their own names.
// Thread-safety: plain functions. Ownership: plain values.
//
//   std::vector<Message> messages = FindMessages(segments, pieces.works, StagesOf(actions));
//   StepSegment send = SendSegment(messages[0], stages, "first.0");   // on stage `from`
//   StepSegment receive = ReceiveSegment(messages[0], stages, "first.0");   // on stage `to`
// Stages of different meshes have graphs of their own (stage_graph.h): there messages are found in
// the whole graph, and values are cut and put together on the way (transfers.h).
#ifndef COLOSSUS_PARALLEL_PIPELINE_MESSAGES_H_
#define COLOSSUS_PARALLEL_PIPELINE_MESSAGES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/mesh.h"
#include "parallel/pipeline/action.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/transfers.h"
#include "tensor/exec/segment.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

struct SentValue {
  std::string name;
  Type type;
};

struct Message {
  Work work = {};             // makes the values
  int from = 0, to = 0;       // stages
  std::vector<Work> readers;  // on stage `to`; none: at the end
  std::vector<SentValue> values;
};

// By part of the model: the stage that holds it.
using StageOfPart = std::vector<int>;
StageOfPart StagesOf(const PipelineActions& actions);

// By work in its order of `works`, then by receiver. `works`: of each segment, as CutGraph gives
// them.
std::vector<Message> FindMessages(const std::vector<Segment>& segments,
                                  const std::vector<Work>& works, const StageOfPart& stage_of);

// The same of a whole graph, by the work of each node; types are global. Constants do not cross.
std::vector<Message> FindMessages(const Graph& graph, const std::vector<Work>& works,
                                  const StageOfPart& stage_of);

// Link segments along the mesh axis "stage" of size `stages`. `name` tells the message from others
// of the step, the same on both ends.
absl::StatusOr<StepSegment> SendSegment(const Message& message, int stages, absl::string_view name);
absl::StatusOr<StepSegment> ReceiveSegment(const Message& message, int stages,
                                           absl::string_view name);

// Stages of different meshes: where they are, and how values that cross lie on them.
struct StageMeshes {
  struct Stage {
    Mesh mesh;
    int first = 0;                          // rank of the job
    std::map<std::string, Sharding> values;  // those that are not listed are whole on every rank
  };
  std::vector<Stage> stages;

  int ranks() const;
  StageLayout Of(int stage, const SentValue& value) const;
};

// This rank's ends of a message whose types are global; none: it neither sends nor receives any.
absl::StatusOr<std::optional<StepSegment>> SendSegment(const Message& message,
                                                       const StageMeshes& meshes, int rank,
                                                       absl::string_view name);
absl::StatusOr<std::optional<StepSegment>> ReceiveSegment(const Message& message,
                                                          const StageMeshes& meshes, int rank,
                                                          absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_MESSAGES_H_
