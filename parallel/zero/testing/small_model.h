// SmallModel: a differentiated graph of one rank with gradients that a test chooses.
//
// Purpose: what parallel/zero is tested on, without a model: blocks that read parameters forward
// and backward, and gradients that are fed: feed "g.<gradient>" of each use becomes its output
// "d.<parameter>", "d.<parameter>.1", ... Everything lies as the test says.
// Thread-safety: plain values and functions.
//
//   SmallModel model{Mesh, {{.name = "w", .block = "h.0", .global = {2, 4}}}};
//   LocalTraining training = MakeLocal(model, rank);
#ifndef COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_MODEL_H_
#define COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_MODEL_H_

#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/mesh.h"
#include "parallel/sharding/partition.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

struct SmallParameter {
  std::string name;
  std::string block;  // reads it forward, and backward as "<block>.grad"
  Dims global;
  std::vector<AxisNames> split = {};  // per dim; empty: whole on every rank
  // Axes over which the gradient of each use is a sum; none: frozen.
  std::vector<AxisNames> partial = {{"data"}};
  bool decayed = false;
  bool wide = false;  // as its gradient, where the model computes in 16 bits
  std::vector<std::string> also_read_by = {};  // blocks
};

struct SmallModel {
  Mesh mesh;
  std::vector<SmallParameter> parameters;
  DType compute = DType::kF32;
};

struct SmallLocal {
  Partitioned local;
  std::vector<ParameterGradients> gradients;
};

// Read between forward and backward, in a block that reads no parameter: f32[].
inline constexpr char kLossFeed[] = "loss";

// Blocks run in the order in which parameters name them, then backward.
SmallLocal MakeLocal(const SmallModel& model, int rank);

// The feed that becomes a gradient: of this rank's part, in f32 (f64 for f64).
std::string GradientFeed(const std::string& output);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_MODEL_H_
