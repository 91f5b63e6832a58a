// The job of //trainers:tokenize: texts to ids, as lines of JSON or as a token file.
//
// Purpose: one line {"ids": [...], "decoded": "..."} for each line {"text": "..."} of standard
// input (or each document of --data), in order, in pure ASCII; or with --out the ids of all of them
// in a token file, whose name must end in .tokens. `ids` has those that the tokenizer puts around
// a text, `decoded` no special tokens; a token file has the end token behind each document and
// nothing around it.
// Thread-safety: one thread. Lines are read and written one at a time.
//
//   int main(int argc, char** argv) {
//     return RunTrainer(Trainer::kTokenize, argc, argv, RunTokenize);
//   }
#ifndef COLOSSUS_TRAINERS_LIB_DATA_TOKENIZE_H_
#define COLOSSUS_TRAINERS_LIB_DATA_TOKENIZE_H_

#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/config/main.h"

namespace colossus {

// Receives lines with their '\n'. An error ends the job.
using LineFunction = std::function<absl::Status(absl::string_view)>;

// `in` is read where data.file is not given. InvalidArgument names the line or file and the fault.
absl::Status Tokenize(FileSystem& files, JobContext& context, std::FILE* in,
                      const LineFunction& print);

// {"ids":[...],"decoded":"..."}
absl::StatusOr<std::string> TokenizedLine(const Tokenizer& tokenizer, absl::string_view text);

absl::StatusOr<int> RunTokenize(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_TOKENIZE_H_
