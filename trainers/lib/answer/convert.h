// The job of //trainers:convert: a checkpoint, or a directory of another layout, to a Hugging Face
// directory.
//
// Thread-safety: plain functions. One tensor at a time is in memory.
//
//   int main(int argc, char** argv) {
//     return RunTrainer(Trainer::kConvert, argc, argv, RunConvert);
//   }
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_CONVERT_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_CONVERT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainers/lib/config/main.h"

namespace colossus {

// Writes run.out: weights in fp32 under their canonical names, config, generation defaults, and the
// tokenizer: of a checkpoint the one it was trained with, of a directory its own files.
absl::Status Convert(FileSystem& files, JobContext& context);

// Converts on the real file system and prints where the model is.
absl::StatusOr<int> RunConvert(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_CONVERT_H_
