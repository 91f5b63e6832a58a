#include "parallel/pipeline/schedule.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {

MustRunBefore ByKey(std::function<int64_t(const Action&)> key) {
  return [key = std::move(key)](const Action& a, const Action& b) { return key(a) < key(b); };
}

MustRunBefore InOrder(const PipelineActions& actions, const StageOrders& orders) {
  auto position = std::make_shared<std::vector<int>>(actions.size(), -1);
  for (const std::vector<int>& order : orders) {
    for (size_t i = 0; i < order.size(); ++i) (*position)[order[i]] = static_cast<int>(i);
  }
  for (int p : *position) CHECK(p >= 0) << "an action without a place";
  return [actions, position](const Action& a, const Action& b) {
    return (*position)[actions.Index(a)] < (*position)[actions.Index(b)];
  };
}

absl::Status RequireChunks(absl::string_view schedule, const PipelineShape& shape, int chunks,
                           absl::string_view instead) {
  if (shape.chunks == chunks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule ", schedule, " has ", chunks, chunks == 1 ? " chunk" : " chunks",
                   " a stage, not ", shape.chunks, ": use chunks=", chunks, ", or ", instead));
}

}  // namespace colossus
