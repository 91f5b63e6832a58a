// LossScale: the factor on the loss that keeps fp16 gradients in range, found while training.
//
// Purpose: starts high; an update whose gradients overflow is not applied and lowers it; a row of
// applied updates raises it. All values are powers of two, so scaling changes no bit of a gradient
// that neither overflows nor underflows.
// Thread-safety: none, one thread. A value type: copy `state()` into a checkpoint.
//
//   LossScale scale(options);
//   input.loss_scale = scale.value();
//   if (overflowed) RETURN_IF_ERROR(scale.Overflowed()); else scale.Applied();
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_LOSS_SCALE_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_LOSS_SCALE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "trainers/lib/config/options.h"

namespace colossus {

struct LossScaleOptions {
  double initial = 65536;          // a power of two
  double factor = 2;               // a power of two, from 2
  int64_t growth_interval = 2000;  // applied updates in a row after which it grows
  int64_t hysteresis = 1;          // overflows since it last grew before it falls
  double minimum = 1;              // a power of two
};

LossScaleOptions ReadLossScale(const Options::Precision& precision);

// InvalidArgument naming precision.loss_scale... and the nearest powers of two, or the range.
absl::Status Validate(const LossScaleOptions& options);

// What a resumed run needs.
struct LossScaleState {
  double value = 1;
  int64_t applied = 0;    // updates in a row since it changed or overflowed
  int64_t overflows = 0;  // since it last grew; at most `hysteresis`
  int64_t in_a_row = 0;   // overflows without an applied update in between
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

class LossScale {
 public:
  // REQUIRES: Validate(options) is ok.
  explicit LossScale(const LossScaleOptions& options)
      : options_(options), state_{.value = options.initial} {}

  double value() const { return state_.value; }
  const LossScaleState& state() const { return state_; }
  void set_state(const LossScaleState& state) { state_ = state; }

  void Applied();
  // ResourceExhausted when the scale is at its minimum already, and should fall: the run must end.
  absl::Status Overflowed();

 private:
  LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_LOSS_SCALE_H_
