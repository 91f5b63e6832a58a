// Partition: the local graph of one rank.
//
// Purpose: walks an annotated global graph, decides each node (propagate.h), brings operands into
// the layout that the node reads (conversions are ordinary nodes: collectives and slices), and adds
// the local node with its part's attributes, or what Op::Expand lowers it to. The graphs of all
// ranks have the same nodes in the same order, with other origins; so their collectives match.
// A conversion is made once per value and layout. One that makes more of a value than is there
// (a gather) is made again for the backward, so that only the parts are kept in between.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(Graph annotated, AnnotateShardings(d.graph, rules, mesh));
//   ASSIGN_OR_RETURN(Partitioned local,
//                    Partition(annotated, {&mesh, rank, GradientShardings(annotated,
//                    d.parameters)}));
//   local.graph;                        // runs on this rank
//   local.outputs.at("d.w").partial;    // axes over which the gradient is still to be summed
#ifndef COLOSSUS_PARALLEL_SHARDING_PARTITION_H_
#define COLOSSUS_PARALLEL_SHARDING_PARTITION_H_

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/state.h"

namespace colossus {

struct PartitionOptions {
  const Mesh* mesh = nullptr;
  int rank = 0;
  // Outputs that are gradients of parameters and how they shall lie; sums over ranks that are still
  // to be made are left to the caller.
  std::map<std::string, Sharding> gradients = {};
  // How other outputs lie; those that are not listed are whole and the same on all ranks.
  std::map<std::string, Sharding> outputs = {};
  // Products of matrices that are split over two axes go panel by panel (2-D layouts).
  bool panels = false;
};

// A state of this rank. `slice` is its part, in the coordinates of the state's (padded) global
// dims.
struct LocalState {
  StateInfo info;  // dims and axes of the whole tensor
  Type type;       // of the part
  Sharding sharding;
  Slice slice;
  // Stages of a pipeline that hold it, ascending, and this rank's; the first one owns it. Empty:
  // there is one stage.
  std::vector<int> stages = {};
  int stage = 0;

  bool owned() const { return stages.empty() || stages.front() == stage; }
  bool held() const {
    return stages.empty() || std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
};

struct Partitioned {
  Graph graph;
  std::vector<LocalState> states;           // in the graph's order
  std::map<std::string, Sharding> feeds;    // by name
  std::map<std::string, Sharding> outputs;  // by name
};

// `annotated`: as AnnotateShardings leaves it. Error: an op that refuses its split.
absl::StatusOr<Partitioned> Partition(const Graph& annotated, const PartitionOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_PARTITION_H_
