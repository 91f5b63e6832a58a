// Random steps: what the executor is tested on.
//
// Purpose: graphs with everything that memory plans get wrong (views, views of states and of parts,
// results in place, operands made in place, states updated at home or copied, several results,
// optimizer updates, dead values), cut anywhere, run for several micro-batches in an order that
// some schedule could ask for; and what they should compute, by the interpreter. Functions of the
// seed.
// Thread-safety: plain functions and values.
//
//   RandomStep random = MakeRandomStep(seed);
//   StepModel model(random, seed);
//   ASSERT_OK(model.RunAndCompare(*program));      // one update, bit by bit
#ifndef COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_STEP_H_
#define COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_STEP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

// A graph for MakeStep with ops of every kind of memory use.
Graph RandomExecGraph(uint64_t seed);

struct RandomStep {
  std::shared_ptr<const Graph> graph;
  int micro_batches = 1;
  Step step;
};

// Cuts any graph at random, with one to three micro-batches (each updates the states) and one to
// three phases, most of which follow the one before; about a third of the parts run on the link
// stream. All outputs are fetched.
RandomStep MakeStep(Graph graph, uint64_t seed);
inline RandomStep MakeRandomStep(uint64_t seed) { return MakeStep(RandomExecGraph(seed), seed); }

// Reference kernels that need workspaces of odd sizes for about half of all requests, fill them
// before they run and check them afterwards.
KernelList KernelsWithWorkspaces();

// The interpreter's side of a run.
class StepModel {
 public:
  // Random states and feeds.
  StepModel(const RandomStep& random, uint64_t seed);
  // Writes the states to an allocated program.
  absl::Status WriteStates(Program& program) const;
  // Runs one update in both. Error: what differs.
  absl::Status RunAndCompare(Program& program);
  // For Program::RunPhase.
  FeedFunction feeds() const;

 private:
  absl::Status Compare(absl::string_view what, const HostTensor& actual,
                       const HostTensor& expected) const;

  const RandomStep& random_;
  HostTensors states_;
  std::map<std::pair<std::string, int>, HostTensor> feeds_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_STEP_H_
