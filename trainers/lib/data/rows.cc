#include "trainers/lib/data/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/random.h"
#include "tensor/ops/loss.h"

namespace colossus {
namespace {

std::vector<int64_t> Starts(const std::vector<TokenRange>& documents) {
  std::vector<int64_t> starts = {0};
  for (const TokenRange& document : documents) {
    CHECK_LT(document.begin, document.end);
    starts.push_back(starts.back() + document.end - document.begin);
  }
  return starts;
}

// Padding from `first` on; `segment` is no segment of the row's documents.
void Pad(RowOut out, int64_t first, int64_t length, int32_t id, int32_t segment) {
  std::fill(out.ids + first, out.ids + length, id);
  std::fill(out.labels + first, out.labels + length, kIgnoreLabel);
  std::fill(out.segments + first, out.segments + length, segment);
  for (int64_t i = first; i < length; ++i) out.positions[i] = static_cast<int32_t>(i - first);
}

// The last `held` ids of the stream go to validation; one document may be cut in two.
DataSplit CutTail(const TokenStore& store, int64_t held) {
  const int64_t cut = store.size() - held;
  DataSplit split;
  for (int64_t d = 0; d < store.documents(); ++d) {
    const TokenRange all = {store.begin(d), store.end(d)};
    const TokenRange before = {all.begin, std::min(all.end, cut)};
    const TokenRange after = {std::max(all.begin, cut), all.end};
    if (before.begin < before.end) split.train.push_back(before);
    if (after.begin < after.end) split.validation.push_back(after);
  }
  return split;
}

}  // namespace

DataSplit HoldOut(const TokenStore& store, double share) {
  CHECK(share >= 0 && share < 1) << share;
  const uint64_t documents = static_cast<uint64_t>(store.documents());
  const double wanted = share * static_cast<double>(documents);
  if (wanted < 1) {
    return CutTail(store, std::llround(share * static_cast<double>(store.size())));
  }
  const uint64_t held = static_cast<uint64_t>(std::llround(wanted));
  const uint64_t site = SiteId("data.validation_share");
  DataSplit split;
  for (uint64_t d = 0; d < documents; ++d) {
    const bool out = PermutedIndex(RandomKey{}, site, d, documents) < held;
    const int64_t document = static_cast<int64_t>(d);
    (out ? split.validation : split.train).push_back({store.begin(document), store.end(document)});
  }
  return split;
}

WindowRows::WindowRows(std::shared_ptr<const TokenStore> store, std::vector<TokenRange> documents,
                       int64_t sequence_length, Packing packing)
    : store_(std::move(store)),
      documents_(std::move(documents)),
      starts_(Starts(documents_)),
      sequence_length_(sequence_length),
      packing_(packing) {
  CHECK_GE(sequence_length, 1);
}

int64_t WindowRows::rows() const {
  const int64_t targets = std::max<int64_t>(tokens() - 1, 0);
  return (targets + sequence_length_ - 1) / sequence_length_;
}

int64_t WindowRows::TextBytes(absl::Span<const int32_t> token_bytes) const {
  if (token_bytes.empty()) return 0;
  int64_t bytes = 0;
  std::vector<int32_t> ids;
  for (const TokenRange& document : documents_) {
    ids.resize(static_cast<size_t>(document.end - document.begin));
    store_->Copy(document.begin, absl::MakeSpan(ids));
    for (const int32_t id : ids) bytes += token_bytes[static_cast<size_t>(id)];
  }
  return bytes;
}

void WindowRows::Fill(int64_t row, RowOut out) const {
  CHECK(row >= 0 && row < rows()) << row << " of " << rows();
  const int64_t first = row * sequence_length_;
  const int64_t count = std::min(sequence_length_, tokens() - first);
  size_t d = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                 starts_.begin() - 1);
  int32_t segment = 0;
  for (int64_t done = 0; done < count; ++d) {
    // The part of document d in this row: inputs [done, done + part).
    const int64_t at = first + done;
    const int64_t part = std::min(starts_[d + 1] - at, count - done);
    const int64_t from = documents_[d].begin + at - starts_[d];
    store_->Copy(from, absl::MakeSpan(out.ids + done, static_cast<size_t>(part)));
    const bool restarts = packing_ == Packing::kBorders;
    for (int64_t i = done; i < done + part; ++i) {
      out.positions[i] = static_cast<int32_t>(restarts ? i - done : i);
      out.segments[i] = segment;
      if (i > 0) out.labels[i - 1] = restarts && i == done ? kIgnoreLabel : out.ids[i];
    }
    done += part;
    if (restarts) ++segment;
    // The target of the last input stands in the next row, or in the next document.
    if (done == count) {
      int32_t next = kIgnoreLabel;
      const bool same_document = at + part < starts_[d + 1];
      if (same_document) {
        store_->Copy(from + part, absl::MakeSpan(&next, 1));
      } else if (!restarts && d + 1 < documents_.size()) {
        store_->Copy(documents_[d + 1].begin, absl::MakeSpan(&next, 1));
      }
      out.labels[count - 1] = next;
    }
  }
  Pad(out, count, sequence_length_, padding_id(), segment + (packing_ == Packing::kJoin ? 1 : 0));
}

void SyntheticRows::Fill(int64_t row, RowOut out) const {
  const uint64_t site = SiteId("data.synthetic");
  const uint64_t element = 2 * static_cast<uint64_t>(row);
  const uint64_t vocabulary = static_cast<uint64_t>(vocabulary_);
  const uint64_t start = RandomBits({.seed = seed_}, site, element) % vocabulary;
  const uint64_t step = 1 + RandomBits({.seed = seed_}, site, element + 1) % 8;
  const auto id = [&](int64_t i) {
    return static_cast<int32_t>((start + step * static_cast<uint64_t>(i)) % vocabulary);
  };
  for (int64_t i = 0; i < sequence_length_; ++i) {
    out.ids[i] = id(i);
    out.labels[i] = id(i + 1);
    out.positions[i] = static_cast<int32_t>(i);
    out.segments[i] = 0;
  }
}

void FillBatch(const RowSource& source, absl::Span<const int64_t> row_ids, int64_t padded_rows,
               Batch* batch) {
  const int64_t length = source.sequence_length();
  CHECK_LE(static_cast<int64_t>(row_ids.size()), padded_rows);
  batch->rows = padded_rows;
  batch->sequence_length = length;
  for (std::vector<int32_t>* array :
       {&batch->ids, &batch->labels, &batch->positions, &batch->segments}) {
    array->resize(static_cast<size_t>(padded_rows * length));
  }
  batch->row_ids.assign(static_cast<size_t>(padded_rows), -1);
  for (int64_t r = 0; r < padded_rows; ++r) {
    const int64_t at = r * length;
    const RowOut out = {&batch->ids[at], &batch->labels[at], &batch->positions[at],
                        &batch->segments[at]};
    if (r < static_cast<int64_t>(row_ids.size())) {
      batch->row_ids[static_cast<size_t>(r)] = row_ids[static_cast<size_t>(r)];
      source.Fill(row_ids[static_cast<size_t>(r)], out);
    } else {
      Pad(out, 0, length, source.padding_id(), 0);
    }
  }
  batch->counting_tokens = 0;
  for (const int32_t label : batch->labels) {
    batch->counting_tokens += label != kIgnoreLabel;
  }
}

std::vector<int32_t> TokenBytes(const Tokenizer& tokenizer) {
  std::vector<int32_t> bytes(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (size_t id = 0; id < bytes.size(); ++id) {
    bytes[id] = tokenizer.TextBytes(static_cast<int32_t>(id));
  }
  return bytes;
}

}  // namespace colossus
