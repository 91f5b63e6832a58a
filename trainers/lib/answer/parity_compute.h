// What //trainers:parity compares: the model run over a golden's inputs, on any number of ranks.
//
// Thread-safety: Compute runs ranks of its own and is called by one thread. Ownership: plain
// values.
//
//   ASSIGN_OR_RETURN(ParityInputs inputs, ReadParityInputs(golden));
//   ASSIGN_OR_RETURN(Computed computed, ComputeParity(context, layout, model, golden, inputs));
//   computed.at("grad.wte.weight")
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_COMPUTE_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_COMPUTE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "shardformer/model_directory.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/answer/golden.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/run_layout.h"

namespace colossus {

// What the model computed, under the golden's names, in f32 (scalars too).
using Computed = std::map<std::string, HostTensor>;

struct ParityInputs {
  HostTensor ids, labels;  // [rows, length]; labels are the next ids
  int64_t rows = 0, length = 0;
};

absl::StatusOr<ParityInputs> ReadParityInputs(const Golden& golden);
// InvalidArgument: an id outside of the vocabulary.
absl::Status CheckIds(const ParityInputs& inputs, const ModelConfig& config);

// One micro-batch: the rows, with padding where they do not divide by the ranks along "data".
// Error: as Validate.
absl::StatusOr<Plan> ParityPlan(const Options& options, const RunLayout& layout,
                                const ParityInputs& inputs, const ModelConfig& config);

// Logits, loss, gradients, and parameters and losses after the golden's optimizer steps. Sets
// context.begun when memory is taken.
absl::StatusOr<Computed> ComputeParity(JobContext& context, const RunLayout& layout,
                                       const Plan& plan, const ModelDirectory& model,
                                       const Golden& golden, const ParityInputs& inputs);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_COMPUTE_H_
