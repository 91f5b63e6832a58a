#include "trainers/lib/answer/decoder.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {

Decoder::Decoder(const ModelConfig& config, const DecoderOptions& options,
                 RankProgram compiled)
    : vocabulary_(config.vocabulary),
      positions_(config.max_positions),
      options_(options),
      compiled_(std::move(compiled)),
      lengths_(options.rows, 0) {}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Make(const ModelConfig& config,
                                                       const DecoderOptions& options,
                                                       const CompileOptions& compile,
                                                       Device& device) {
  return Make(config, options, Plan(), compile, device, /*rank=*/0);
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Make(const ModelConfig& config,
                                                       const DecoderOptions& options,
                                                       const Plan& plan,
                                                       const CompileOptions& compile,
                                                       Device& device, int rank) {
  CHECK(options.rows >= 1 && options.capacity >= 1 && options.chunk >= 1);
  if (options.capacity > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("a text of ", options.capacity,
                                                   " ids is beyond the model's ",
                                                   config.max_positions, " positions"));
  }
  DecoderOptions cut = options;
  cut.chunk = std::min(options.chunk, options.capacity);
  ASSIGN_OR_RETURN(RankProgram compiled,
                   CompileDecoder(config, {cut.rows, cut.capacity, cut.chunk, cut.compute}, plan,
                                  compile, device, rank));
  return std::unique_ptr<Decoder>(new Decoder(config, cut, std::move(compiled)));
}

absl::Status Decoder::Allocate() {
  RETURN_IF_ERROR(program().Allocate());
  // Keys that do not exist are masked, but a weight of 0 times a stray NaN would still be NaN.
  for (const StateHome& home : program().plan().states) {
    if (home.info.role != Role::kCache) continue;
    RETURN_IF_ERROR(program().WriteState(home.info.name, HostTensor(home.type)));
  }
  return absl::OkStatus();
}

absl::Status Decoder::SetParameters(const TypedReader& read) {
  return colossus::SetParameters(compiled_, read);
}

absl::Status Decoder::Check(const RowIds& ids) const {
  CHECK_EQ(static_cast<int64_t>(ids.size()), options_.rows);
  for (int64_t row = 0; row < options_.rows; ++row) {
    const int64_t total = lengths_[row] + static_cast<int64_t>(ids[row].size());
    if (total > options_.capacity) {
      return absl::InvalidArgumentError(absl::StrCat("row ", row, " would have ", total,
                                                     " ids, its cache holds ",
                                                     options_.capacity));
    }
    for (int32_t id : ids[row]) {
      if (id >= 0 && id < vocabulary_) continue;
      return absl::InvalidArgumentError(absl::StrCat("id ", id, " is outside of the vocabulary, 0 ",
                                                     "to ", vocabulary_ - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status Decoder::RunOnce(const RowIds& ids, int phase, std::vector<int64_t>& taken,
                              HostTensor& logits) {
  const int64_t length = phase == kPrefillPhase ? options_.chunk : 1;
  const Type tokens{DType::kI32, {options_.rows, length}};
  Feeds feeds{HostTensor(tokens), HostTensor(tokens),
              HostTensor(Type{DType::kI32, {options_.rows}})};
  std::vector<int64_t> counts(options_.rows);
  for (int64_t row = 0; row < options_.rows; ++row) {
    const int64_t left = static_cast<int64_t>(ids[row].size()) - taken[row];
    counts[row] = std::min(left, length);
    feeds.cache_length.data<int32_t>()[row] = static_cast<int32_t>(lengths_[row]);
    for (int64_t i = 0; i < length; ++i) {
      // Behind the last id stands padding: no id before it sees it, and what it leaves in the cache
      // is overwritten by the next ids. Its position only has to exist.
      const int64_t position = std::min(lengths_[row] + i, positions_ - 1);
      feeds.positions.data<int32_t>()[row * length + i] = static_cast<int32_t>(position);
      if (i >= counts[row]) continue;
      feeds.input_ids.data<int32_t>()[row * length + i] = ids[row][taken[row] + i];
    }
  }
  FeedFunction function = [&](absl::string_view name, int) -> const HostTensor* {
    if (name == "input_ids") return &feeds.input_ids;
    if (name == "positions") return &feeds.positions;
    return name == "cache_length" ? &feeds.cache_length : nullptr;
  };
  ASSIGN_OR_RETURN(Fetched fetched, program().RunPhase(phase, function));
  const HostTensor& computed = fetched.at({"logits", phase});
  const int64_t bytes = vocabulary_ * SizeOf(computed.type().dtype);
  for (int64_t row = 0; row < options_.rows; ++row) {
    taken[row] += counts[row];
    lengths_[row] += counts[row];
    if (counts[row] == 0 || taken[row] < static_cast<int64_t>(ids[row].size())) continue;
    std::memcpy(static_cast<char*>(logits.raw()) + row * bytes,
                static_cast<const char*>(computed.raw()) +
                    (row * length + counts[row] - 1) * bytes,
                bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> Decoder::Append(const RowIds& ids) {
  RETURN_IF_ERROR(Check(ids));
  std::vector<int64_t> taken(options_.rows, 0);
  const DType dtype = options_.compute == DType::kF64 ? DType::kF64 : DType::kF32;
  HostTensor logits(Type{dtype, {options_.rows, vocabulary_}});
  for (;;) {
    int64_t most = 0;
    for (int64_t row = 0; row < options_.rows; ++row) {
      most = std::max(most, static_cast<int64_t>(ids[row].size()) - taken[row]);
    }
    if (most == 0) break;
    RETURN_IF_ERROR(RunOnce(ids, most == 1 ? kDecodePhase : kPrefillPhase, taken, logits));
  }
  return logits;
}

void Decoder::Reset() { std::fill(lengths_.begin(), lengths_.end(), 0); }

}  // namespace colossus
