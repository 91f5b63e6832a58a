// Decoder: a causal model that reads ids a few at a time and keeps their keys and values.
//
// Purpose: generation in a time per token that does not grow with the square of the text. Ids go in
// by chunks (a prompt) or singly; what comes back are the logits of what follows. Compiled once per
// (rows, capacity).
// Thread-safety: one thread a rank. Ownership: owns the Program with parameters and caches; the
// device must outlive it.
//
//   ASSIGN_OR_RETURN(auto decoder, Decoder::Make(config, {.capacity = 128}, {}, *device));
//   RETURN_IF_ERROR(decoder->Allocate());
//   RETURN_IF_ERROR(decoder->SetParameters(read));
//   ASSIGN_OR_RETURN(HostTensor logits, decoder->Append({{5, 6, 7}}));   // [1, v]
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_DECODER_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_DECODER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "parallel/compile.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"

namespace colossus {

struct DecoderOptions {
  int64_t rows = 1;      // texts at once
  int64_t capacity = 1;  // ids a row may have; at most the model's positions
  int64_t chunk = 32;    // ids of a row that go in together; cut to capacity
  DType compute = DType::kF32;
};

// New ids of each row; rows may have different numbers, also none.
using RowIds = std::vector<std::vector<int32_t>>;

class Decoder {
 public:
  // Takes no memory for the model. Error: InvalidArgument for a capacity beyond the model's
  // positions, naming them; as CompileDecoder.
  static absl::StatusOr<std::unique_ptr<Decoder>> Make(const ModelConfig& config,
                                                       const DecoderOptions& options,
                                                       const CompileOptions& compile,
                                                       Device& device);
  // The same as a rank of the plan's mesh: all ranks put in the same ids and get the same logits.
  static absl::StatusOr<std::unique_ptr<Decoder>> Make(const ModelConfig& config,
                                                       const DecoderOptions& options,
                                                       const Plan& plan,
                                                       const CompileOptions& compile,
                                                       Device& device, int rank);
  // Takes memory; all rows are empty.
  absl::Status Allocate();
  // As parallel/compile.h's. REQUIRES: allocated.
  absl::Status SetParameters(const TypedReader& read);

  // Puts ids behind those the rows have. Returns logits[rows, v] (f32; f64 for f64) of what follows
  // the last id of each row; zeros for a row that was given none. REQUIRES: parameters are set; one
  // list per row. Error: InvalidArgument, before anything changes, for an id outside of the
  // vocabulary or more ids than the capacity.
  absl::StatusOr<HostTensor> Append(const RowIds& ids);
  // Empties all rows.
  void Reset();

  int64_t length(int64_t row) const { return lengths_[row]; }
  const DecoderOptions& options() const { return options_; }
  Program& program() { return *compiled_.program; }

 private:
  Decoder(const ModelConfig& config, const DecoderOptions& options,
          RankProgram compiled);

  // What one run of a phase is fed.
  struct Feeds {
    HostTensor input_ids, positions, cache_length;
  };

  absl::Status Check(const RowIds& ids) const;
  // Runs a phase over ids[row][taken[row] ...], moves `taken` and lengths on, and copies the logits
  // of rows that came to their end.
  absl::Status RunOnce(const RowIds& ids, int phase, std::vector<int64_t>& taken,
                       HostTensor& logits);

  const int64_t vocabulary_, positions_;
  const DecoderOptions options_;
  RankProgram compiled_;
  std::vector<int64_t> lengths_;  // per row: ids in the caches
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_DECODER_H_
