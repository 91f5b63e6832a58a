#include "trainers/lib/run/warm_up.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/place_again.h"
#include "trainers/lib/ranks/keep_alive.h"

namespace colossus {
namespace {

// Fewer say nothing about a machine that others use too.
constexpr size_t kUpdates = 8;
constexpr double kDrift = 0.3;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

WarmUp::WarmUp(Program& program, RankGroup group, RankGroup stage)
    : program_(program), group_(group), stage_(stage) {}

absl::StatusOr<bool> WarmUp::Active() {
  // What all ranks have alike comes first.
  if (program_.options().placer == nullptr || !program_.device().computes()) return false;
  if (!active_) {
    ASSIGN_OR_RETURN(const int64_t placed, group_.Max(program_.plan().placed ? 1 : 0, "placed"));
    active_ = placed != 0;
  }
  return *active_;
}

StepObserver* WarmUp::Next() {
  if (!due_ || !program_.plan().placed) return nullptr;
  measure_.emplace(program_);
  return &*measure_;
}

absl::StatusOr<std::string> WarmUp::Done(double seconds) {
  ASSIGN_OR_RETURN(const bool active, Active());
  if (!active) return "";
  if (due_) return Again();
  const bool first = !warm_;
  warm_ = true;
  seconds_.push_back(seconds);
  ASSIGN_OR_RETURN(const bool drifted, Drifted());
  due_ = first || drifted;
  return drifted ? "updates take another time than they did: the next one is measured" : "";
}

absl::StatusOr<std::string> WarmUp::Again() {
  const StepTimes times = measure_ ? measure_->times() : StepTimes();
  measure_.reset();
  due_ = false;
  seconds_.clear();
  const KeepAlive alive(group_);  // a tight device of many tensors is planned for long
  const absl::StatusOr<bool> changed = PlaceAgain(program_, times, stage_.world());
  if (!changed.ok() && !absl::IsInternal(changed.status())) return changed.status();
  ASSIGN_OR_RETURN(const int64_t any, group_.Max(changed.ok() && *changed ? 1 : 0, "placed again"));
  if (!changed.ok()) {
    return absl::StrCat("the placement stays as it is: ", changed.status().message());
  }
  return any != 0 ? "the placement was made again by the times of this update"
                  : "the times of this update leave the placement as it is";
}

absl::StatusOr<bool> WarmUp::Drifted() {
  bool mine = false;
  if (seconds_.size() >= 2 * kUpdates) {
    const double before = Median({seconds_.begin(), seconds_.begin() + kUpdates});
    const double now = Median({seconds_.end() - kUpdates, seconds_.end()});
    mine = now > (1 + kDrift) * before || now < before / (1 + kDrift);
  }
  ASSIGN_OR_RETURN(const int64_t any, group_.Max(mine ? 1 : 0, "drift"));
  return any != 0;
}

}  // namespace colossus
