// Mesh axes as people write them: "data=2,tensor=4", the first axis slowest.
//
// Thread-safe: pure functions.
//
//   ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ParseMeshAxes("data=2,tensor=4"));
//   MeshText(axes);   // the same text again
#ifndef COLOSSUS_PARALLEL_MESH_TEXT_H_
#define COLOSSUS_PARALLEL_MESH_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/mesh.h"

namespace colossus {

// Axes that a plan may name: "data", "sequence", "stage", "tensor".
const std::vector<std::string>& PlanAxisNames();

// Empty for an empty text. InvalidArgument: not of that form, an axis that no plan has, one given
// twice, a size below 1, or more ranks than a mesh may have.
absl::StatusOr<std::vector<MeshAxis>> ParseMeshAxes(absl::string_view text);

std::string MeshText(absl::Span<const MeshAxis> axes);

// Of stages that do not have the same mesh: a part for each, as "stage:data=2/stage:tensor=2"; a
// stage of one rank is "stage:". IsStageMeshes: whether the text means to be one of these.
bool IsStageMeshes(absl::string_view text);
absl::StatusOr<std::vector<std::vector<MeshAxis>>> ParseStageMeshes(absl::string_view text);
std::string StageMeshesText(absl::Span<const std::vector<MeshAxis>> stages);

// The product of the sizes.
int64_t RanksOf(absl::Span<const MeshAxis> axes);

// 1 for an axis that is not there.
int64_t SizeOfAxis(absl::Span<const MeshAxis> axes, absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_MESH_TEXT_H_
