// GeminiPlacer: a training step on a device that is smaller than the model.
//
// Purpose: answers the memory plan's question (tensor/exec/placement.h) from the trace alone. What
// fits the device stays there. Else states live on the host, and below it on disk, and their update
// runs where they live; on the device everything else comes and goes by farthest next use
// (eviction.h), copied early enough to be there in time (lookahead.h). Memory that is then left
// keeps parameters through the turn from forward to backward, and beyond that whole groups of
// states get homes on the device, so that nothing of theirs moves. Never fails where every
// instruction's own buffers fit the device and the tiers together hold what must be kept.
// Thread-safety: immutable. Ownership: plain values.
//
//   ProgramOptions options;
//   options.placer = std::make_shared<GeminiPlacer>(GeminiOptions{.link_bytes_per_second = 12e9});
#ifndef COLOSSUS_GEMINI_PLACEMENT_H_
#define COLOSSUS_GEMINI_PLACEMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/exec/placement.h"

namespace colossus {

enum class PlacementPolicy : uint8_t {
  kAuto,
  // ZeRO-Offload's fixed split, for comparison: parameters are on the device while it computes,
  // gradients and optimizer states on the host, activations never move.
  kStatic,
  // Every state lives on the host or disk, whatever the device has room for.
  kCpu,
};
absl::string_view Name(PlacementPolicy policy);                                // "auto", ...
absl::StatusOr<PlacementPolicy> ParsePlacementPolicy(absl::string_view name);  // InvalidArgument

struct GeminiOptions {
  PlacementPolicy policy = PlacementPolicy::kAuto;
  // Of a copy, each direction; what a trace has measured comes before.
  double link_bytes_per_second = 10e9;
  double disk_bytes_per_second = 1e9;
  // What the disk holds is whole blocks of so many bytes.
  int64_t disk_alignment = 4096;
};

class GeminiPlacer : public Placer {
 public:
  explicit GeminiPlacer(const GeminiOptions& options) : options_(options) {}

  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override;

 private:
  const GeminiOptions options_;
};

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_PLACEMENT_H_
