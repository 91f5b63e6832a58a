// Whether a run may go on from a checkpoint: the same model, configuration and data.
//
// Thread-safe: functions of their arguments.
//
//   RETURN_IF_ERROR(CheckSameRun(checkpoint, config, model, data.train->rows(), log));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_RESUME_H_
#define COLOSSUS_TRAINERS_LIB_RUN_RESUME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardformer/config.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {

enum class ResumeRule {
  kFree,    // changes no number
  kNoted,   // may be changed on purpose; the log says what follows
  kRefused  // makes it another run
};

// What a changed value of the key "section.key" means for a run that goes on. Keys without a row
// are refused.
ResumeRule RuleOf(absl::string_view key);

// InvalidArgument naming the keys that differ with both values, the model's difference, or the
// number of rows, with the remedy. Differences that are allowed and matter are logged.
absl::Status CheckSameRun(const Checkpoint& checkpoint, const Config& config,
                          const ModelConfig& model, int64_t data_rows, Log& log);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_RESUME_H_
