#include "collectives/mesh.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr int64_t kMostRanks = int64_t{1} << 20;

}  // namespace

absl::StatusOr<Mesh> Mesh::Make(std::vector<MeshAxis> axes) {
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) return absl::InvalidArgumentError("mesh: an axis without a name");
    if (axes[i].size < 1 || axes[i].size > kMostRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh: ", axes[i].name, "=", axes[i].size, " is not in 1..", kMostRanks));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return absl::InvalidArgumentError(absl::StrCat("mesh: axis ", axes[i].name, " twice"));
      }
    }
    ranks *= axes[i].size;
    if (ranks > kMostRanks) {
      return absl::InvalidArgumentError(absl::StrCat("mesh: more than ", kMostRanks, " ranks"));
    }
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  mesh.ranks_ = static_cast<int>(ranks);
  return mesh;
}

int64_t Mesh::SizeOf(absl::string_view axis) const {
  for (const MeshAxis& a : axes_) {
    if (a.name == axis) return a.size;
  }
  return 1;
}

int64_t Mesh::SizeOf(absl::Span<const std::string> axes) const {
  int64_t size = 1;
  for (const std::string& axis : axes) size *= SizeOf(axis);
  return size;
}

int64_t Mesh::Coordinate(int rank, absl::string_view axis) const {
  CHECK(rank >= 0 && rank < ranks_) << rank;
  int64_t rest = rank;
  for (size_t i = axes_.size(); i-- > 0;) {
    if (axes_[i].name == axis) return rest % axes_[i].size;
    rest /= axes_[i].size;
  }
  return 0;
}

std::vector<int> Mesh::Group(int rank, absl::Span<const std::string> axes) const {
  // Steps between neighbours along each axis of the mesh.
  auto stride = [&](absl::string_view axis) {
    int64_t step = 1;
    for (size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].name == axis) return step;
      step *= axes_[i].size;
    }
    return int64_t{0};
  };
  int64_t first = rank;
  for (const std::string& axis : axes) first -= Coordinate(rank, axis) * stride(axis);
  std::vector<int> group = {static_cast<int>(first)};
  for (const std::string& axis : axes) {
    std::vector<int> wider;
    for (int member : group) {
      for (int64_t c = 0; c < SizeOf(axis); ++c) {
        wider.push_back(static_cast<int>(member + c * stride(axis)));
      }
    }
    group = std::move(wider);
  }
  return group;
}

int Mesh::IndexIn(int rank, absl::Span<const std::string> axes) const {
  int64_t index = 0;
  for (const std::string& axis : axes) index = index * SizeOf(axis) + Coordinate(rank, axis);
  return static_cast<int>(index);
}

}  // namespace colossus
