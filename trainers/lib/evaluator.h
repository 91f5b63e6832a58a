// Evaluator: the loss of a model over rows, without gradients.
//
// Purpose: the job of //trainers:evaluate, with a program of its own; validation while training is
// a phase of the training program that reads the parameters where they are.
// Thread-safety: one thread. Ownership: owns its own program, refers to a training program; the
// device must outlive it.
//
//   ASSIGN_OR_RETURN(auto evaluator, Evaluator::Make(config, shape, {}, *device));
//   RETURN_IF_ERROR(evaluator->Allocate());
//   RETURN_IF_ERROR(evaluator->SetParameters(read));
//   ASSIGN_OR_RETURN(Evaluation result, evaluator->Run(*data.validation, data.token_bytes));
#ifndef COLOSSUS_TRAINERS_LIB_EVALUATOR_H_
#define COLOSSUS_TRAINERS_LIB_EVALUATOR_H_

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
#include "trainers/lib/rows.h"

namespace colossus {

struct EvaluatorShape {
  int64_t rows = 1;             // computed at once
  int64_t sequence_length = 1;  // tokens a row
  DType compute = DType::kF32;
  bool packed = false;          // rows hold several documents
};

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
  static absl::StatusOr<std::unique_ptr<Evaluator>> Make(const ModelConfig& config,
                                                         const EvaluatorShape& shape,
                                                         const CompileOptions& options,
                                                         Device& device);
  // Over the phase validate of `training`, which must have it and outlive this.
  static std::unique_ptr<Evaluator> Of(TrainingProgram& training);

  // REQUIRES: made with Make.
  absl::Status Allocate() { return program_->Allocate(); }
  Program& program() { return *program_; }

  // `read` gives each parameter's values in the dtype it is asked for. REQUIRES: made with Make,
  // allocated.
  using Reader = std::function<absl::StatusOr<HostTensor>(const StateInfo&, DType)>;
  absl::Status SetParameters(const Reader& read);

  // All rows of `source` in order. REQUIRES: parameters are set. `token_bytes` as in RowSource.
  // InvalidArgument when no target counts.
  absl::StatusOr<Evaluation> Run(const RowSource& source, absl::Span<const int32_t> token_bytes);

 private:
  Evaluator(const EvaluatorShape& shape, std::unique_ptr<Program> owned, Program* program,
            int phase, int micro_batch)
      : shape_(shape),
        owned_(std::move(owned)),
        program_(program),
        phase_(phase),
        micro_batch_(micro_batch) {}

  EvaluatorShape shape_;
  std::unique_ptr<Program> owned_;  // null: `program_` is a training program's
  Program* program_;
  int phase_, micro_batch_;
};

// Feeds of the rows that FillBatch made. `packed`: positions and segments too.
MicroBatch ToMicroBatch(const Batch& batch, bool packed, int64_t first_row);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_EVALUATOR_H_
