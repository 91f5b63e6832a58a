// //trainers:generate: text or ids that follow a prompt.
//
// Purpose: GenerateIds draws ids from a Decoder one after the other; Generate opens the model, the
// tokenizer and the prompt that a configuration names and does the whole job.
// Thread-safety: plain functions; a Decoder belongs to one thread.
//
//   ASSIGN_OR_RETURN(Generation result, Generate(files, context, /*print=*/nullptr));
//   std::puts(GenerationJson(result).c_str());
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_GENERATE_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_GENERATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "trainers/lib/answer/decoder.h"
#include "trainers/lib/answer/sampling.h"
#include "trainers/lib/config/main.h"

namespace colossus {

struct GenerateRequest {
  std::vector<int32_t> prompt;  // at least one id
  int64_t max_new_tokens = 0;
  SamplingOptions sampling;
  uint64_t seed = 0;
  std::set<int32_t> end_ids;    // after one of them nothing follows
  int64_t choices = 0;          // only ids below it are drawn; 0: the whole vocabulary
};

// The ids drawn, the end id included. `each` sees every id as soon as it is known. REQUIRES: a
// decoder of one empty row that holds prompt and all but the last new id. Error: as Append and
// SampleId.
absl::StatusOr<std::vector<int32_t>> GenerateIds(Decoder& decoder, const GenerateRequest& request,
                                                 const std::function<void(int32_t)>& each);

// What came behind the prompt.
struct Generation {
  std::vector<int32_t> ids;         // the end id included
  std::optional<std::string> text;  // without special tokens; none: the model has no tokenizer
};

// Gives out parts of the result as they come: whole characters of the text, or, without a
// tokenizer, ids separated by commas.
using PrintFunction = std::function<void(absl::string_view)>;

// Errors name what is wrong and what would do: a prompt that cannot be read as text, ids outside of
// the vocabulary, more ids than the model has positions.
absl::StatusOr<Generation> Generate(FileSystem& files, JobContext& context,
                                    const PrintFunction& print);

// {"ids":[...],"text":"..."}; the text is null if there is none, and bytes of it that are no UTF-8
// become U+FFFD.
std::string GenerationJson(const Generation& generation);

// The job of the binary: prints to stdout.
absl::StatusOr<int> RunGenerate(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_GENERATE_H_
