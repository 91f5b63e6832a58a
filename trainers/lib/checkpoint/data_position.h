// DataPosition: where in the training data the next update starts.
//
// Thread-safe: a plain value. What a Sampler (which draws by it) leaves in a checkpoint.
//
//   record.data = sampler.position();
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_DATA_POSITION_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_DATA_POSITION_H_

#include <cstdint>

namespace colossus {

// The next row to draw: `index` counts rows of the epoch's order, not updates or micro-batches.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_DATA_POSITION_H_
