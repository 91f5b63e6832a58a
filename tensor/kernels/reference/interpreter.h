// Interpret: runs a graph node by node, every value in memory of its own.
//
// Purpose: the executor without a plan: no reuse, no order but the graph's, no arena. Tests judge
// passes, kernels and Programs by it.
// Thread-safety: reentrant. Ownership: returns copies.
//
//   ASSIGN_OR_RETURN(HostTensors out, Interpret(graph, {{"x", x}, {"w", w}}));
//   out.at("y");
#ifndef COLOSSUS_TENSOR_KERNELS_REFERENCE_INTERPRETER_H_
#define COLOSSUS_TENSOR_KERNELS_REFERENCE_INTERPRETER_H_

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {

// `inputs`: every feed and every state, by name. Returns outputs by output name and the end value
// of each state by state name. Error: a missing or mistyped input, or no kernel for a node.
absl::StatusOr<HostTensors> Interpret(const Graph& graph, const HostTensors& inputs,
                                      KernelList kernels = ReferenceKernels());

// The same, but returns every value by value name.
absl::StatusOr<HostTensors> InterpretAll(const Graph& graph, const HostTensors& inputs,
                                         KernelList kernels = ReferenceKernels());

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_REFERENCE_INTERPRETER_H_
