// StageGraph: what one stage of a pipeline computes of a graph, as a graph of its own.
//
// Purpose: stages of different meshes split their nodes differently, so that each stage's share is
// cut out of the whole graph before it is partitioned. Values that other stages make become feeds,
// values that others read become outputs, under their own names; nodes without operands
// (constants) are made where they are read.
// Thread-safety: plain functions. Ownership: plain values.
//
//   StageShare share{.stage = 1, .stage_of_node = ..., .messages = FindMessages(graph, ...)};
//   ASSIGN_OR_RETURN(Graph own, StageGraph(graph, share));
#ifndef COLOSSUS_PARALLEL_PIPELINE_STAGE_GRAPH_H_
#define COLOSSUS_PARALLEL_PIPELINE_STAGE_GRAPH_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/pipeline/messages.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"

namespace colossus {

struct StageShare {
  int stage = 0;
  std::vector<int> stage_of_node;
  std::set<std::string> states, outputs;  // that the stage has
  std::vector<Message> messages;          // of all stages
  // Of values that cross, as the stage's mesh splits them, in place of their annotations.
  std::map<std::string, Sharding> shardings = {};
};

// Names, blocks and annotations stay. A constant has the block of its first reader on the stage.
absl::StatusOr<Graph> StageGraph(const Graph& graph, const StageShare& share);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_STAGE_GRAPH_H_
