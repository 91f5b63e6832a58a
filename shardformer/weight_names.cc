#include "shardformer/weight_names.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"

namespace colossus {

absl::string_view CoreName(absl::string_view name) {
  for (bool stripped = true; stripped;) {
    stripped = absl::ConsumePrefix(&name, "module.") || absl::ConsumePrefix(&name, "_orig_mod.") ||
               absl::ConsumePrefix(&name, "model.") ||
               absl::ConsumePrefix(&name, "transformer.");
  }
  return name;
}

bool IsIgnoredBuffer(absl::string_view name) {
  return absl::StrContains(name, "rotary_emb.") || absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias") || absl::EndsWith(name, "position_ids");
}

absl::StatusOr<NameMatch> MatchNames(const std::vector<std::string>& canonical,
                                     const std::vector<std::string>& file_names) {
  std::map<std::string, std::string> by_core;  // core → canonical
  for (const std::string& name : canonical) {
    auto [other, added] = by_core.emplace(std::string(CoreName(name)), name);
    CHECK(added) << name << " and " << other->second << " have one core";
  }
  NameMatch match;
  for (const std::string& name : file_names) {
    auto found = by_core.find(std::string(CoreName(name)));
    if (found == by_core.end()) {
      (IsIgnoredBuffer(name) ? match.ignored : match.unexpected).push_back(name);
      continue;
    }
    auto [source, added] = match.source.emplace(found->second, name);
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("tensors '", source->second, "' and '", name,
                                                     "' both mean parameter '", found->second,
                                                     "': keep one of them"));
    }
  }
  for (const std::string& name : canonical) {
    if (!match.source.contains(name)) match.missing.push_back(name);
  }
  return match;
}

}  // namespace colossus
