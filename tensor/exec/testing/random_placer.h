// RandomPlacer: any placement that the rules allow.
//
// Purpose: what tests of placed programs ask for: states at home anywhere, buffers that come and go
// for no reason, work on the host wherever it may be. Functions of the seed and the trace.
// Thread-safety: as Placer.
//
//   ProgramOptions options;
//   options.placer = std::make_shared<RandomPlacer>(seed);
#ifndef COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_PLACER_H_
#define COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_PLACER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensor/exec/placement.h"

namespace colossus {

class RandomPlacer final : public Placer {
 public:
  explicit RandomPlacer(uint64_t seed) : seed_(seed) {}

  // Uses the disk if there is any; looks at no sizes. Now and then a first try breaks a rule, then
  // another is made; after several, everything is on the device, or, where states have homes
  // already, it is refused.
  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override;

 private:
  const uint64_t seed_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_TESTING_RANDOM_PLACER_H_
