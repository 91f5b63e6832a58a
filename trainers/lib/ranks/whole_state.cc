#include "trainers/lib/ranks/whole_state.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/state_share.h"

namespace colossus {

const JobState* FindJobState(const TrainingProgram& training, absl::string_view name) {
  for (const JobState& state : training.job_states()) {
    if (state.info.name == name) return &state;
  }
  return nullptr;
}

// Each rank gives zeros where it owns nothing: so the texts of all ranks, or-ed, are the state.
absl::StatusOr<HostTensor> ReadWholeState(TrainingProgram& training, absl::string_view name,
                                          RankGroup group) {
  const JobState* state = FindJobState(training, name);
  if (state == nullptr) return absl::NotFoundError(absl::StrCat("no state '", name, "'"));
  HostTensor whole(Type{state->dtype, state->info.global_dims});
  std::string own(static_cast<size_t>(whole.type().bytes()), '\0');
  for (const StateShare& share : training.shares()) {
    if (!share.owner || share.info.name != name) continue;
    RETURN_IF_ERROR(
        ReadStateShare(training.program(), share, WholePiece(whole.type().dims), own.data()));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, group.Gather(own, "whole state"));
  char* bytes = static_cast<char*>(whole.raw());
  for (size_t i = 0; i < own.size(); ++i) {
    bytes[i] = 0;
    for (const std::string& text : texts) bytes[i] = static_cast<char>(bytes[i] | text[i]);
  }
  return whole;
}

}  // namespace colossus
