#include "parallel/mesh_text.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr absl::string_view kStage = "stage:";

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

bool IsStageMeshes(absl::string_view text) { return absl::StartsWith(text, kStage); }

absl::StatusOr<std::vector<std::vector<MeshAxis>>> ParseStageMeshes(absl::string_view text) {
  std::vector<std::vector<MeshAxis>> stages;
  for (absl::string_view part : absl::StrSplit(text, '/')) {
    if (!absl::ConsumePrefix(&part, kStage)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part, "' is no stage; write stages as stage:data=2/stage:tensor=2/stage:"));
    }
    ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ParseMeshAxes(part));
    if (SizeOfAxis(axes, "stage") > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "' has stages inside a stage; write one part for each"));
    }
    stages.push_back(std::move(axes));
  }
  return stages;
}

std::string StageMeshesText(absl::Span<const std::vector<MeshAxis>> stages) {
  return absl::StrJoin(stages, "/", [](std::string* out, const std::vector<MeshAxis>& axes) {
    absl::StrAppend(out, kStage, MeshText(axes));
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
