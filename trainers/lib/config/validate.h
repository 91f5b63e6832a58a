// Checks that need more than one key, as pure functions: required keys and the batch arithmetic.
//
// Thread-safe: functions of their arguments. All errors are InvalidArgument with the remedy.
//
//   ASSIGN_OR_RETURN(BatchPlan plan, PlanBatch(/*global_batch=*/256, /*micro_batch=*/2,
//                                              /*data_parallel=*/8));
//   plan.accumulation   // 16
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_VALIDATE_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_VALIDATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/schema.h"

namespace colossus {

// global_batch = micro_batch * accumulation * data-parallel ranks; rows.
struct BatchPlan {
  int64_t global_batch;
  int64_t micro_batch;
  int64_t accumulation;

  // "global batch 256 = micro-batch 2 x accumulation 16 x data-parallel 8".
  std::string ToString(int64_t data_parallel) const;
};

// Of a micro-batch where nothing says how many.
inline constexpr int64_t kDefaultRows = 8;

// Fills in what is 0 and checks what is not. micro_batch 0: the whole share of a rank;
// global_batch 0: one micro-batch a rank; both 0: a micro-batch of 8.
// REQUIRES: arguments not negative, data_parallel >= 1.
absl::StatusOr<BatchPlan> PlanBatch(int64_t global_batch, int64_t micro_batch,
                                    int64_t data_parallel);

// Tokens a row: `given` (data.sequence_length), or for 0 the positions of the model, at most 1024.
// `positions` 0: the model has no limit. InvalidArgument when `given` exceeds them.
absl::StatusOr<int64_t> RowLength(int64_t given, int64_t positions);

// Required keys of the trainer and combinations that cannot run. Checks of the model or the data
// are made where those are read.
absl::Status Validate(Trainer trainer, const Options& options);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_VALIDATE_H_
