#include "trainers/lib/data/sampler.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/random.h"

namespace colossus {

int64_t UpdateRows::MicroBatches(int64_t micro_batch) const {
  return (static_cast<int64_t>(rows.size()) + micro_batch - 1) / micro_batch;
}

absl::Span<const int64_t> UpdateRows::MicroBatch(int64_t m, int64_t micro_batch) const {
  CHECK(m >= 0 && m < MicroBatches(micro_batch)) << m;
  return absl::MakeConstSpan(rows).subspan(static_cast<size_t>(m * micro_batch),
                                           static_cast<size_t>(micro_batch));
}

absl::Span<const int64_t> UpdateRows::Share(int64_t m, const BatchShare& share) const {
  const absl::Span<const int64_t> all = MicroBatch(m, share.all_rows());
  const auto first = static_cast<size_t>(share.place * share.micro_batch);
  if (first >= all.size()) return {};
  return all.subspan(first, static_cast<size_t>(share.micro_batch));
}

absl::StatusOr<Sampler> Sampler::Make(const SamplerOptions& options) {
  CHECK_GE(options.global_batch, 1);
  if (options.rows < 1) {
    return absl::InvalidArgumentError("the data holds no row: at least two tokens are needed");
  }
  if (options.drop_tail && options.rows < options.global_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data holds ", options.rows, " rows but an update takes ",
                     options.global_batch, ", and data.tail = \"drop\" drops them all; use a ",
                     "smaller batch.global_batch or data.tail = \"keep\""));
  }
  return Sampler(options);
}

int64_t Sampler::UsedRows() const {
  const int64_t tail = options_.drop_tail ? options_.rows % options_.global_batch : 0;
  return options_.rows - tail;
}

int64_t Sampler::updates_per_epoch() const {
  return (UsedRows() + options_.global_batch - 1) / options_.global_batch;
}

absl::Status Sampler::Seek(DataPosition position) {
  if (position.epoch < 0 || position.index < 0 || position.index >= UsedRows() ||
      position.index % options_.global_batch != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data position epoch ", position.epoch, ", row ", position.index,
        " starts no update: an epoch has ", UsedRows(), " rows in updates of ",
        options_.global_batch, "; data and batch.global_batch must be those of the saved run"));
  }
  position_ = position;
  return absl::OkStatus();
}

UpdateRows Sampler::Next() {
  UpdateRows update;
  update.start = position_;
  const int64_t end = std::min(position_.index + options_.global_batch, UsedRows());
  for (int64_t index = position_.index; index < end; ++index) {
    update.rows.push_back(RowAt(position_.epoch, index));
  }
  position_.index = end;
  if (end == UsedRows()) position_ = {position_.epoch + 1, 0};
  return update;
}

int64_t Sampler::RowAt(int64_t epoch, int64_t index) const {
  if (!options_.shuffled) return index;
  const RandomKey key = {.seed = options_.seed, .update = static_cast<uint64_t>(epoch)};
  return static_cast<int64_t>(PermutedIndex(key, SiteId("data.order"), static_cast<uint64_t>(index),
                                            static_cast<uint64_t>(options_.rows)));
}

}  // namespace colossus
