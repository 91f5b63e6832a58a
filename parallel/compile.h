// compile: Model × Plan × device → Program.
//
// Purpose: the one place that runs the passes, in the order and for the reasons written in
// compile.cc. A step for training has the phases accumulate, measure and update, and validate if
// asked for; one for inference has the phase run; one for generation has prefill and decode.
// Thread-safety: plain functions. Ownership: the returned Program refers to the device.
//
//   ASSIGN_OR_RETURN(CompiledTraining training, CompileTraining(config, plan, options, *device));
//   RETURN_IF_ERROR(training.program->Allocate());
#ifndef COLOSSUS_PARALLEL_COMPILE_H_
#define COLOSSUS_PARALLEL_COMPILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "parallel/compile_options.h"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "parallel/recompute_layers.h"
#include "parallel/sharding/partition.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/state_share.h"
#include "parallel/training_step.h"
#include "parallel/zero/layout.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"

namespace colossus {

struct CompiledTraining {
  std::unique_ptr<Program> program;
  std::vector<StateInfo> parameters;        // all, in first-use order
  std::vector<std::string> with_gradients;  // those that are updated
  Recomputation recomputation = Recomputation::kNone;  // the plan's, or what was chosen
  int64_t recompute_budget_bytes = 0;                  // of kOptimal
  // Of each key of the plan that was left open, a line: what was chosen and why, in numbers.
  std::vector<std::string> choices;
  MeshPlace place;
  std::vector<LocalState> states;    // every state that this stage holds: this rank's part
  std::vector<JobState> job_states;  // every state of the job, whoever holds it
  ZeroLayout zero;                   // where parts lie in chunks, if they do
  // Of several stages: the order of all of them, and what of it this one's calls are.
  std::optional<StagePipeline> pipeline;
  PipelineCalls calls;
};

// The program of rank `rank` of the plan's mesh. All ranks compile the same plan in the same way;
// the device's kernels must have the collectives of the mesh (tensor/kernels/collective).
// Error: a plan that does not fit the model, an op without a kernel, not enough device memory.
absl::StatusOr<CompiledTraining> CompileTraining(const ModelConfig& config, const Plan& plan,
                                                 const TrainingOptions& options, Device& device,
                                                 int rank = 0);

// Bytes that one update moves between device and host, both ways. REQUIRES: a program for training.
int64_t BytesOverLink(const Program& training);

// What Plan::recompute_budget_bytes may be. Of the plan recomputation does not count.
absl::StatusOr<LayerBytes> BytesOfLayers(const ModelConfig& config, const Plan& plan,
                                         const CompileOptions& options);

// A forward alone: evaluation (loss) or logits. Every output is fetched. One phase, one call.
absl::StatusOr<std::unique_ptr<Program>> CompileForward(const ModelConfig& config,
                                                        const ForwardOptions& forward,
                                                        const CompileOptions& options,
                                                        Device& device);

// A program without training on a rank of a plan's mesh.
struct RankProgram {
  std::unique_ptr<Program> program;
  MeshPlace place;
  std::vector<LocalState> states;  // this rank's parts of parameters and caches
};

// The same on a mesh: rows are those of each rank along "data". Of the plan the mesh and the fields
// that say how it is used count. Outputs are whole on every rank.
absl::StatusOr<RankProgram> CompileForward(const ModelConfig& config, const ForwardOptions& forward,
                                           const Plan& plan, const CompileOptions& options,
                                           Device& device, int rank);

// `read` gives each parameter's values, the whole of it, in the dtype it is asked for; the program
// takes this rank's part. REQUIRES: allocated.
using TypedReader = std::function<absl::StatusOr<HostTensor>(const StateInfo&, DType)>;
absl::Status SetParameters(const RankProgram& run, const TypedReader& read);

enum DecoderPhase { kPrefillPhase = 0, kDecodePhase = 1 };

struct DecoderShape {
  int64_t rows = 1;      // sequences
  int64_t capacity = 1;  // tokens a row's cache holds
  int64_t chunk = 1;     // tokens of each row in a prefill; at most capacity
  DType compute = DType::kF32;
};

// Generation with a key/value cache: a phase that appends `chunk` tokens and one that appends a
// single token to each row, over the same parameters and caches. Either may run any number of
// times, in any order. Feeds are those of a forward with a cache (shardformer/model.h), the
// phase is their micro-batch; "logits" is fetched. Error: as CompileForward.
absl::StatusOr<std::unique_ptr<Program>> CompileDecoder(const ModelConfig& config,
                                                        const DecoderShape& shape,
                                                        const CompileOptions& options,
                                                        Device& device);

// The same on a mesh, as CompileForward. Caches lie where the heads do. Error: InvalidArgument for
// a mesh that splits positions, since a token at a time cannot be split, or for several stages.
absl::StatusOr<RankProgram> CompileDecoder(const ModelConfig& config, const DecoderShape& shape,
                                           const Plan& plan, const CompileOptions& options,
                                           Device& device, int rank);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_COMPILE_H_
