#include "tensor/kernels/collective/mesh_communicators.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {

MeshCommunicators::MeshCommunicators(Mesh mesh, Communicator& world)
    : mesh_(std::move(mesh)), world_(world) {
  CHECK_EQ(mesh_.ranks(), world_.size());
}

absl::Status MeshCommunicators::CheckAxes(const AxisNames& axes) const {
  for (const std::string& axis : axes) {
    bool known = std::any_of(mesh_.axes().begin(), mesh_.axes().end(),
                             [&](const MeshAxis& known) { return known.name == axis; });
    if (!known)
      return absl::InvalidArgumentError(absl::StrCat("the mesh has no axis '", axis, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Communicator*> MeshCommunicators::On(const AxisNames& axes,
                                                    absl::string_view channel) {
  const std::pair<std::string, std::string> key{absl::StrJoin(axes, ","), channel};
  auto found = groups_.find(key);
  if (found != groups_.end()) return found->second.get();
  RETURN_IF_ERROR(CheckAxes(axes));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> group,
      world_.Subgroup(mesh_.Group(rank(), axes),
                      channel.empty() ? key.first : absl::StrCat(key.first, "/", channel)));
  return groups_.emplace(key, std::move(group)).first->second.get();
}

absl::StatusOr<Communicator*> MeshCommunicators::Pair(const AxisNames& axes, int from, int to,
                                                      absl::string_view channel) {
  const std::pair<std::string, std::string> key{absl::StrJoin(axes, ","),
                                                absl::StrCat(from, "-", to, "/", channel)};
  auto found = groups_.find(key);
  if (found != groups_.end()) return found->second.get();
  RETURN_IF_ERROR(CheckAxes(axes));
  const std::vector<int> group = mesh_.Group(rank(), axes);
  CHECK(from != to && std::max(from, to) < static_cast<int>(group.size()));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> pair,
      world_.Subgroup({group[static_cast<size_t>(from)], group[static_cast<size_t>(to)]},
                      absl::StrCat(key.first, "/", key.second)));
  return groups_.emplace(key, std::move(pair)).first->second.get();
}

std::map<std::string, CollectiveCounts> MeshCommunicators::counts() const {
  std::map<std::string, CollectiveCounts> counts;
  for (const auto& [key, group] : groups_) {
    counts[key.first] += group->counts();
  }
  return counts;
}

}  // namespace colossus
