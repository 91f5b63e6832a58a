// The job of //trainers:evaluate: the loss of a model directory or a checkpoint over data.
//
// Thread-safety: plain functions.
//
//   int main(int argc, char** argv) {
//     return RunTrainer(Trainer::kEvaluate, argc, argv, RunEvaluate);
//   }
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_EVALUATE_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_EVALUATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/run/evaluator.h"

namespace colossus {

// Opens model and data, computes every row once, on all ranks of the configuration. The result is
// that of rank 0, in a process that has it (JobContext::first).
absl::StatusOr<Evaluation> Evaluate(FileSystem& files, JobContext& context);

// {"loss", "perplexity", "bits_per_byte", "tokens"}; bits_per_byte is null where there is no text.
std::string EvaluationJson(const Evaluation& evaluation);

// Evaluates on the real file system and prints the result on stdout.
absl::StatusOr<int> RunEvaluate(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_EVALUATE_H_
