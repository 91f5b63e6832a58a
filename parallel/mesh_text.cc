#include "parallel/mesh_text.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace colossus {
namespace {

absl::StatusOr<MeshAxis> ParseAxis(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  MeshAxis axis;
  axis.name = std::string(parts.first);
  if (text.find('=') == absl::string_view::npos || !absl::SimpleAtoi(parts.second, &axis.size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no axis with its size; write them as data=2,tensor=2"));
  }
  const std::vector<std::string>& names = PlanAxisNames();
  if (std::find(names.begin(), names.end(), axis.name) == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat("no axis '", axis.name, "'",
                                                   NearestNameHint(axis.name, names), "; axes are ",
                                                   absl::StrJoin(names, ", ")));
  }
  return axis;
}

}  // namespace

const std::vector<std::string>& PlanAxisNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"data", "sequence", "stage", "tensor"};
  return names;
}

absl::StatusOr<std::vector<MeshAxis>> ParseMeshAxes(absl::string_view text) {
  std::vector<MeshAxis> axes;
  if (text.empty()) return axes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(MeshAxis axis, ParseAxis(part));
    axes.push_back(std::move(axis));
  }
  RETURN_IF_ERROR(Mesh::Make(axes).status());
  return axes;
}

std::string MeshText(absl::Span<const MeshAxis> axes) {
  return absl::StrJoin(axes, ",", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
}

int64_t RanksOf(absl::Span<const MeshAxis> axes) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : axes) ranks *= axis.size;
  return ranks;
}

int64_t SizeOfAxis(absl::Span<const MeshAxis> axes, absl::string_view name) {
  for (const MeshAxis& axis : axes) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

}  // namespace colossus
