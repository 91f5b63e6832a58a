// RecordingPlacer: asks another placer and keeps question and answer, for tests and reports.
//
// Thread-safety: one thread. Ownership: owns what it keeps.
//
//   auto placer = std::make_shared<RecordingPlacer>(std::make_shared<GeminiPlacer>(options));
//   options.compile.program.placer = placer;
//   ... compile ...
//   placer->trace(); placer->placement();
#ifndef COLOSSUS_TESTS_PLACEMENT_RECORDING_PLACER_H_
#define COLOSSUS_TESTS_PLACEMENT_RECORDING_PLACER_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/exec/placement.h"

namespace colossus {

class RecordingPlacer : public Placer {
 public:
  // nullptr: only records, and answers Cancelled.
  explicit RecordingPlacer(std::shared_ptr<const Placer> placer) : placer_(std::move(placer)) {}

  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override {
    trace_ = trace;
    tiers_ = tiers;
    ++asked_;
    if (placer_ == nullptr) return absl::CancelledError("only the trace was wanted");
    absl::StatusOr<Placement> placement = placer_->Place(trace, tiers);
    if (placement.ok()) placement_ = *placement;
    return placement;
  }

  // Of the last call.
  const StepTrace& trace() const { return trace_; }
  const TierBytes& tiers() const { return tiers_; }
  const Placement& placement() const { return placement_; }
  int asked() const { return asked_; }

 private:
  const std::shared_ptr<const Placer> placer_;
  mutable StepTrace trace_;
  mutable TierBytes tiers_;
  mutable Placement placement_;
  mutable int asked_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_TESTS_PLACEMENT_RECORDING_PLACER_H_
