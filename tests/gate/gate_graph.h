// What the tests of hand-written graph texts share: reading, random inputs, differences.
//
// Thread-safety: plain functions for one test at a time.
//
//   ASSERT_OK_AND_ASSIGN(Graph graph, ReadGateGraph("mixture"));
//   HostTensors inputs = RandomParameters(graph, TestSeed());
#ifndef COLOSSUS_TESTS_GATE_GATE_GRAPH_H_
#define COLOSSUS_TESTS_GATE_GATE_GRAPH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

// The graph of tests/gate/<name>.graph, verified. Error: also if its printed form does not read
// back the same.
absl::StatusOr<Graph> ReadGateGraph(absl::string_view name);

// Standard normal values for every parameter, by name.
HostTensors RandomParameters(const Graph& graph, uint64_t seed);

// A 0-d value.
HostTensor ScalarF64(double value);

// Compares the gradients of every parameter, the sum over its uses, with central differences of the
// output "loss" of `forward` (f64) times the feed "seed". `inputs`: of `forward`, the seed among
// them.
void ExpectGradientsOfLoss(const Graph& forward, const Differentiated& differentiated,
                           const HostTensors& inputs);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_GATE_GATE_GRAPH_H_
