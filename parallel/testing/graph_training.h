// GraphTraining: any forward graph with block tags, trained on all ranks of a mesh, as threads.
//
// Purpose: what lies below models can be tested with graphs that no family has. The graph is
// differentiated, split along "data" and cut into stages as the mesh says.
// Thread-safety: functions of their arguments. Ownership: plain values.
//
//   GraphJob job{.forward = Forward, .blocks = {"embed", "head"}, .mesh = {{"stage", 2}}};
//   job.borders = {"head"};
//   job.feeds = [](int micro_batch, int64_t part, int64_t parts) { ... };
//   ASSERT_OK_AND_ASSIGN(const std::vector<HostTensors> states, TrainGraph(job));
#ifndef COLOSSUS_PARALLEL_TESTING_GRAPH_TRAINING_H_
#define COLOSSUS_PARALLEL_TESTING_GRAPH_TRAINING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/optim/update.h"

namespace colossus {

struct GraphJob {
  // With an output "loss_sum", a feed "loss_seed", f32 states, and rows named "batch" where "data"
  // splits them.
  std::function<absl::StatusOr<Graph>()> forward;
  std::vector<std::string> blocks, borders;  // of several stages: `borders` begin their parts
  std::vector<MeshAxis> mesh;                // "stage" first, if it is there; "data"
  std::string schedule = "1f1b";
  int chunks = 1, micro_batches = 1;
  int zero = 0;
  Optimizer optimizer;
  double learning_rate = 1, gradient_scale = 1;
  int updates = 1;
  // Feeds but the seed, as place `part` of `parts` along "data" has them; the same in each update.
  std::function<HostTensors(int micro_batch, int64_t part, int64_t parts)> feeds;
  std::function<HostTensor(const StateInfo&)> values;  // none: zeros
};

// By rank: the states that it holds after the last update, f32. What others hold of them is zero.
absl::StatusOr<std::vector<HostTensors>> TrainGraph(const GraphJob& job);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_TESTING_GRAPH_TRAINING_H_
