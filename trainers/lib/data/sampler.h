// Which rows each update trains on: an order of rows in each epoch, cut into updates.
//
// Not thread-safe: one thread draws. The order is a function of (seed, epoch, index), so a position
// of two numbers is all that a checkpoint needs. The row source is not touched, only counted.
//
//   ASSIGN_OR_RETURN(Sampler sampler, Sampler::Make({.rows = 10, .global_batch = 2, .seed = 1}));
//   UpdateRows update = sampler.Next();         // update.rows: 2 row ids
//   DataPosition position = sampler.position(); // where the next update starts; save it
//   RETURN_IF_ERROR(other.Seek(position));      // a new process goes on with the same rows
#ifndef COLOSSUS_TRAINERS_LIB_DATA_SAMPLER_H_
#define COLOSSUS_TRAINERS_LIB_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainers/lib/checkpoint/data_position.h"

namespace colossus {

struct SamplerOptions {
  int64_t rows = 0;          // of the source
  int64_t global_batch = 1;  // rows an update
  uint64_t seed = 0;
  bool shuffled = true;
  bool drop_tail = false;  // leave out the rows that do not fill the epoch's last update
};

// Who computes which rows of a micro-batch: its rows, all ranks together, are dealt to the places
// along the axis "data" one after another.
struct BatchShare {
  int64_t micro_batch = 1;  // rows of one place
  int64_t places = 1;
  int64_t place = 0;  // this one

  int64_t all_rows() const { return micro_batch * places; }
};

// Rows of one update, all ranks; fewer than global_batch only in the last update of an epoch.
struct UpdateRows {
  DataPosition start;
  std::vector<int64_t> rows;

  // Micro-batches with at least one row: the last update of an epoch may have fewer than others.
  int64_t MicroBatches(int64_t micro_batch) const;
  // The rows of micro-batch `m`, at most `micro_batch`; FillBatch pads the rest.
  absl::Span<const int64_t> MicroBatch(int64_t m, int64_t micro_batch) const;
  // Those of them that a place computes, at the epoch's end perhaps none. REQUIRES: m <
  // MicroBatches(share.all_rows()).
  absl::Span<const int64_t> Share(int64_t m, const BatchShare& share) const;
};

class Sampler {
 public:
  // InvalidArgument when an epoch has no update: no rows, or fewer than an update with drop_tail.
  static absl::StatusOr<Sampler> Make(const SamplerOptions& options);

  // An update never crosses an epoch.
  int64_t updates_per_epoch() const;
  DataPosition position() const { return position_; }
  // InvalidArgument when `position` is not where an update of these options starts.
  absl::Status Seek(DataPosition position);

  // The rows from position() on; moves to the next update, which may start the next epoch.
  UpdateRows Next();

  // The row at `index` of the order of `epoch`.
  int64_t RowAt(int64_t epoch, int64_t index) const;

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  // Rows of the order that an epoch uses.
  int64_t UsedRows() const;

  SamplerOptions options_;
  DataPosition position_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_SAMPLER_H_
