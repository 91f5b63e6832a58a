// Random graphs: what passes, memory plans and graph text are tested on.
//
// Purpose: small graphs of mixed ops with what breaks compilers: extents 1 and odd, broadcasting,
// values read several times and never, parameters read twice, frozen ones, states with updates,
// several results, blocks, random ops. A function of the seed; print it on failure.
// Thread-safety: functions of their arguments.
//
//   Graph graph = RandomGraph(seed);
//   ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(graph, RandomInputs(graph, seed)));
//
// Every graph has a feed "seed" and an output "loss" of one type, f32[] (f64[] with dtype f64),
// that depends on at least one trainable parameter, so Autodiff accepts it. Values stay small, and
// every op has a smooth gradient, so finite differences work in f64.
#ifndef COLOSSUS_TENSOR_TESTING_RANDOM_GRAPH_H_
#define COLOSSUS_TENSOR_TESTING_RANDOM_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"

namespace colossus {

struct RandomGraphOptions {
  int steps = 24;             // random choices; nodes are up to about three times as many
  int blocks = 3;             // "b.0", "b.1", ...; the loss is in block "loss"
  DType dtype = DType::kF32;  // of the floats; f64 also turns off conversions to bf16
};

Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

// The tags "b.0", "b.1", ... of such a graph.
std::vector<std::string> RandomGraphBlocks(const RandomGraphOptions& options = {});

// A tensor for every feed and state of any graph: floats in [-1, 1), integers in [0, 5), which the
// random graphs' tables allow.
HostTensors RandomInputs(const Graph& graph, uint64_t seed);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_RANDOM_GRAPH_H_
