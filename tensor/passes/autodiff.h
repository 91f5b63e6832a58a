// Autodiff: reverse-mode differentiation of a whole graph.
//
// Purpose: appends to a forward graph the nodes that compute the gradients of a scalar with respect
// to every trainable parameter, by each op's Gradient(). It runs before any sharding, so gradients
// are sharded, cut and scheduled like everything else.
// Thread-safety: functions of their arguments.
//
//   ASSIGN_OR_RETURN(Differentiated d, Autodiff(forward, forward.FindOutput("loss"),
//                                               forward.FindValue("seed")));
//   for (const ParameterGradients& g : d.parameters) Sum(g.outputs);   // in that order
//
// What is fixed, because bits and schedules depend on it:
// - Forward nodes come first, unchanged; gradient nodes follow in reverse order of the nodes they
//   belong to, in block "<block>.grad" (tensor/graph/block.h).
// - Cotangents of a value with several readers are added as they come: last reader first, within a
//   reader by operand. One addition of two tensors each.
// - Every read of a parameter has a gradient of its own (a tied tensor has several); they are added
//   in the given order where the update needs them, on one rank as on many.
// - A gradient has the dtype of its value, but at least f32 where it is a parameter's.
// - The cotangent of value x is named "d.x", a parameter's by use "d.x", "d.x.1", ...; it has x's
//   sharding, if x has one.
// Nothing is computed for frozen parameters, for paths through integers, or past where no trainable
// parameter lies; nodes a rule made in vain are left to DeadCode.
#ifndef COLOSSUS_TENSOR_PASSES_AUTODIFF_H_
#define COLOSSUS_TENSOR_PASSES_AUTODIFF_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"

namespace colossus {

struct ParameterGradients {
  std::string state;  // its name
  // The output of each use's gradient, in order of the reading nodes. By name, since later passes
  // give values new ids.
  std::vector<std::string> outputs;
};

struct Differentiated {
  Graph graph;                                 // the forward values keep their names
  std::vector<ParameterGradients> parameters;  // in order of first read
};

// `loss`: a float scalar computed in `graph`. `seed`: its cotangent, a value of the same type (a
// feed, so that loss scale and divisor are chosen per step). A trainable parameter that does not
// reach the loss is not in `parameters`: its gradient is zero. Error: InvalidArgument if no
// parameter reaches the loss, or for a loss or seed of the wrong kind; an op without a gradient on
// the way, named with its value.
absl::StatusOr<Differentiated> Autodiff(const Graph& graph, ValueId loss, ValueId seed);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_AUTODIFF_H_
