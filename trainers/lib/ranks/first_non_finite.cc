#include "trainers/lib/ranks/first_non_finite.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/ranks/keep_alive.h"

namespace colossus {
namespace {

std::string Encode(const std::optional<NonFinite>& found) {
  if (!found) return "";
  const std::vector<int64_t> dims(found->type.dims.begin(), found->type.dims.end());
  const nlohmann::json json = {{"value", found->value},
                               {"op", found->op},
                               {"block", found->block},
                               {"dtype", std::string(Name(found->type.dtype))},
                               {"dims", dims},
                               {"element", found->element},
                               {"kind", found->kind},
                               {"micro_batch", found->micro_batch},
                               {"instruction", found->instruction}};
  return json.dump();
}

// Of a text that Encode made on some rank.
NonFinite Decode(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  NonFinite found;
  found.value = json.at("value").get<std::string>();
  found.op = json.at("op").get<std::string>();
  found.block = json.at("block").get<std::string>();
  const absl::StatusOr<DType> dtype = ParseDType(json.at("dtype").get<std::string>());
  CHECK_OK(dtype);
  found.type.dtype = *dtype;
  const auto dims = json.at("dims").get<std::vector<int64_t>>();
  found.type.dims.assign(dims.begin(), dims.end());
  found.element = json.at("element").get<int64_t>();
  found.kind = json.at("kind").get<std::string>();
  found.micro_batch = json.at("micro_batch").get<int>();
  found.instruction = json.at("instruction").get<int64_t>();
  return found;
}

// The one that comes first in the job, and of those the one of the lowest rank.
absl::StatusOr<std::optional<FoundOnRank>> First(const std::optional<NonFinite>& mine,
                                                 RankGroup group) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, group.Gather(Encode(mine), "non-finite"));
  std::optional<FoundOnRank> first;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    NonFinite found = Decode(texts[rank]);
    if (first && first->what.instruction <= found.instruction) continue;
    first = FoundOnRank{std::move(found), static_cast<int>(rank)};
  }
  return first;
}

}  // namespace

absl::StatusOr<std::optional<FoundOnRank>> FindNonFiniteOnRanks(TrainingProgram& training,
                                                                const UpdateInput& input,
                                                                StepObserver* observer,
                                                                RankGroup group) {
  const KeepAlive alive(group);  // all states are read, and the step is computed once more
  ASSIGN_OR_RETURN(const std::optional<NonFinite> state, training.FindNonFiniteState());
  ASSIGN_OR_RETURN(std::optional<FoundOnRank> first, First(state, group));
  if (first) return first;
  ASSIGN_OR_RETURN(const std::optional<NonFinite> made,
                   training.FindNonFinite(input, observer, /*go_on=*/group.size() > 1));
  return First(made, group);
}

}  // namespace colossus
