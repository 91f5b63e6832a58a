#include "trainers/lib/ranks/link_bytes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

// "tensor.group,tensor.member,data" is "tensor,data" of the plan; the world is that of its stages.
std::string PlanAxes(absl::string_view axes) {
  std::vector<absl::string_view> names;
  for (const absl::string_view axis : absl::StrSplit(axes, ',')) {
    const absl::string_view name = axis.substr(0, axis.find('.'));
    const absl::string_view own = name == kWorldAxis ? "stage" : name;
    if (std::find(names.begin(), names.end(), own) == names.end()) names.push_back(own);
  }
  return absl::StrJoin(names, ",");
}

}  // namespace

LinkBytes::LinkBytes(const MeshCommunicators* communicators, std::vector<MeshAxis> mesh)
    : communicators_(communicators), mesh_(std::move(mesh)) {
  if (communicators_ == nullptr) return;
  for (const auto& [axes, counts] : communicators_->counts()) before_[axes] = counts.bytes;
}

absl::StatusOr<std::map<std::string, int64_t>> LinkBytes::Next(RankGroup group) {
  std::map<std::string, int64_t> sent;
  if (communicators_ == nullptr) return sent;
  for (const MeshAxis& axis : mesh_) sent[axis.name] = 0;
  for (const auto& [axes, counts] : communicators_->counts()) {
    sent[PlanAxes(axes)] += counts.bytes - std::exchange(before_[axes], counts.bytes);
  }
  // Stages may use other axes.
  if (sent.count("stage") > 0) {
    std::vector<absl::string_view> own;
    for (const auto& item : sent) own.push_back(item.first);
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     group.Gather(absl::StrJoin(own, ";"), "link axes"));
    for (const std::string& text : names) {
      for (const absl::string_view name : absl::StrSplit(text, ';')) sent[std::string(name)] += 0;
    }
  }
  std::vector<int64_t> bytes;
  for (const auto& item : sent) bytes.push_back(item.second);
  RETURN_IF_ERROR(group.MaxOfEach(bytes, "link bytes"));
  size_t i = 0;
  for (auto& item : sent) item.second = bytes[i++];
  return sent;
}

}  // namespace colossus
