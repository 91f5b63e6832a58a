#include "parallel/sharding/override.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace colossus {
namespace {

absl::StatusOr<ShardingOverride> ParseOverride(absl::string_view text) {
  const size_t sign = text.rfind('=');
  ShardingOverride entry;
  if (sign != absl::string_view::npos) {
    entry.pattern = std::string(absl::StripAsciiWhitespace(text.substr(0, sign)));
  }
  if (entry.pattern.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is no override as *.c_fc.weight=data/tensor: names of states, and for each "
                     "dim the axes that split it"));
  }
  const absl::string_view dims = absl::StripAsciiWhitespace(text.substr(sign + 1));
  if (dims.empty()) return entry;
  for (absl::string_view dim : absl::StrSplit(dims, '/')) {
    AxisNames& axes = entry.dims.emplace_back();
    for (absl::string_view axis : absl::StrSplit(dim, '+', absl::SkipWhitespace())) {
      axes.emplace_back(absl::StripAsciiWhitespace(axis));
    }
  }
  return entry;
}

}  // namespace

std::string OverridesText(const std::vector<ShardingOverride>& overrides) {
  return absl::StrJoin(overrides, ";", [](std::string* out, const ShardingOverride& entry) {
    absl::StrAppend(out, entry.pattern, "=",
                    absl::StrJoin(entry.dims, "/", [](std::string* dim, const AxisNames& axes) {
                      absl::StrAppend(dim, absl::StrJoin(axes, "+"));
                    }));
  });
}

absl::StatusOr<std::vector<ShardingOverride>> ParseOverrides(absl::string_view text) {
  std::vector<ShardingOverride> overrides;
  for (absl::string_view part : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    ASSIGN_OR_RETURN(ShardingOverride entry, ParseOverride(part));
    overrides.push_back(std::move(entry));
  }
  return overrides;
}

}  // namespace colossus
