#include "tensor/kernels/collective/mesh_communicators.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/collective.h"

namespace colossus {

namespace {

bool IsWorld(const AxisNames& axes) { return axes.size() == 1 && axes[0] == kWorldAxis; }

}  // namespace

MeshCommunicators::MeshCommunicators(Mesh mesh, Communicator& world, int first)
    : mesh_(std::move(mesh)), world_(world), first_(first) {
  CHECK(first_ + mesh_.ranks() <= world_.size() && rank() >= 0 && rank() < mesh_.ranks())
      << "a mesh of " << mesh_.ranks() << " ranks from rank " << first_ << " on";
}

int64_t MeshCommunicators::SizeOf(const AxisNames& axes) const {
  return IsWorld(axes) ? world_.size() : mesh_.SizeOf(axes);
}

int MeshCommunicators::IndexIn(const AxisNames& axes) const {
  return IsWorld(axes) ? world_.rank() : mesh_.IndexIn(rank(), axes);
}

std::vector<int> MeshCommunicators::GroupOf(const AxisNames& axes) const {
  std::vector<int> group;
  if (IsWorld(axes)) {
    for (int rank = 0; rank < world_.size(); ++rank) group.push_back(rank);
    return group;
  }
  for (int rank : mesh_.Group(rank(), axes)) group.push_back(first_ + rank);
  return group;
}

absl::Status MeshCommunicators::CheckAxes(const AxisNames& axes) const {
  if (IsWorld(axes)) return absl::OkStatus();
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
      world_.Subgroup(GroupOf(axes),
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
  const std::vector<int> group = GroupOf(axes);
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
