#include "tensor/graph/state.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr struct {
  Role role;
  absl::string_view name;
} kRoles[] = {
    {Role::kParameter, "parameter"}, {Role::kMaster, "master"},
    {Role::kMoment1, "moment1"},     {Role::kMoment2, "moment2"},
    {Role::kAccumulator, "accumulator"}, {Role::kCache, "cache"},
    {Role::kBuffer, "buffer"},
};

}  // namespace

absl::string_view Name(Role role) {
  for (const auto& row : kRoles) {
    if (row.role == role) return row.name;
  }
  CHECK(false) << "unknown role";
  return "";
}

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  for (const auto& row : kRoles) {
    if (row.name == name) return row.role;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown state role '", name, "'"));
}

}  // namespace colossus
