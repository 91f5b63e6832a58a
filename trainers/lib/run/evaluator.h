// Evaluator: the loss of a model over rows, without gradients.
//
// Purpose: the job of //trainers:evaluate, with a program of its own; validation while training is
// a phase of the training program that reads the parameters where they are. The ranks of a mesh
// share the rows out along "data", pad the last ones with rows that do not count, and get the same.
// Thread-safety: one thread a rank; Make and Run are collective over the group. Ownership: owns its
// own program, refers to a training program; the device must outlive it.
//
//   ASSIGN_OR_RETURN(auto evaluator, Evaluator::Make(config, plan, {}, *device, group));
//   RETURN_IF_ERROR(evaluator->Allocate());
//   RETURN_IF_ERROR(evaluator->SetParameters(read));
//   ASSIGN_OR_RETURN(Evaluation result, evaluator->Run(*data.validation, data.token_bytes));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_EVALUATOR_H_
#define COLOSSUS_TRAINERS_LIB_RUN_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "parallel/compile.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/data/rows.h"
#include "trainers/lib/data/sampler.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Sums over all rows; means follow from them.
struct Evaluation {
  double nats = 0;         // summed over counting targets
  int64_t tokens = 0;      // counting targets
  int64_t text_bytes = 0;  // of all the text; 0: no text

  double loss() const { return nats / static_cast<double>(tokens); }
  double perplexity() const;
  std::optional<double> bits_per_byte() const;  // none without text
};

class Evaluator {
 public:
  // Of `plan` count the layout, micro_batch (rows computed at once by a rank along "data"), length,
  // precision and whether rows are packed. `group`: the ranks of its mesh.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Make(const ModelConfig& config,
                                                         const Plan& plan,
                                                         const CompileOptions& options,
                                                         Device& device,
                                                         RankGroup group = RankGroup());
  // Over the phase validate of `training`, which must have it and outlive this. `group`: the ranks
  // of its mesh.
  static std::unique_ptr<Evaluator> Of(TrainingProgram& training, RankGroup group = RankGroup());

  // REQUIRES: made with Make.
  absl::Status Allocate() { return owned_.program->Allocate(); }
  Program& program() { return *owned_.program; }

  // As parallel/compile.h's. REQUIRES: made with Make, allocated.
  absl::Status SetParameters(const TypedReader& read);

  // All rows of `source` in order. REQUIRES: parameters are set. `token_bytes` as in RowSource.
  // InvalidArgument when no target counts.
  absl::StatusOr<Evaluation> Run(const RowSource& source, absl::Span<const int32_t> token_bytes);

 private:
  Evaluator(const Plan& plan, const MeshPlace& place, RankGroup group);

  // The loss sum over the rows of all ranks, of which these are this rank's.
  absl::StatusOr<double> LossOf(const MicroBatch& rows);

  const Plan plan_;
  RankGroup group_;
  // What this rank computes of the rows, and whether its tokens are counted: of the ranks that have
  // the same rows only one's are.
  BatchShare share_;
  bool counts_ = true;
  RankProgram owned_;              // its program is null: `training_` has it
  int64_t vocabulary_ = 0;         // of `owned_`
  TrainingProgram* training_ = nullptr;  // null: `owned_`
};

// Feeds of the rows that FillBatch made. `packed`: positions and segments too.
MicroBatch ToMicroBatch(const Batch& batch, bool packed, int64_t first_row);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_EVALUATOR_H_
