// Rows of sequence_length inputs with next-token targets, cut from a stream of documents.
//
// Thread-safe: rows are constant once made; each Fill writes only where it is told. Windows share
// ownership of their tokens.
//
// The windows: the documents, each closed by its end token, form one stream of N ids. Row r has the
// ids [r * s, r * s + s) as inputs and the ids one further as targets, so neighbouring rows share
// nothing and every id but the first is a target exactly once: ceil((N - 1) / s) rows. The last row
// is filled up with padding. Packing `borders` cuts the same windows, but positions restart and a
// new segment begins with each document (and with each row), and an id that starts a document is no
// target: documents of 3 and 5 ids in a row of 8 have positions 0 1 2 0 1 2 3 4 and 6 targets.
//
//   auto store = std::make_shared<const TokenStore>(...);
//   DataSplit split = HoldOut(store, /*share=*/0.05);
//   WindowRows rows(store, split.train, /*sequence_length=*/256, Packing::kJoin);
//   Batch batch;
//   FillBatch(rows, {17, 4}, /*padded_rows=*/4, token_bytes, &batch);
#ifndef COLOSSUS_TRAINERS_LIB_DATA_ROWS_H_
#define COLOSSUS_TRAINERS_LIB_DATA_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "trainers/lib/data/token_store.h"

namespace colossus {

// A run of ids of a store: a document or a part of one.
struct TokenRange {
  int64_t begin;
  int64_t end;  // past the last
};

struct DataSplit {
  std::vector<TokenRange> train;
  std::vector<TokenRange> validation;
};

// Splits off a share of the documents, chosen at random but always the same: the choice depends on
// the number of documents and the share alone, so runs with other seeds stay comparable. Where the
// share is less than one document, the last share of all ids is held out. Order is kept.
// REQUIRES: 0 <= share < 1.
DataSplit HoldOut(const TokenStore& store, double share);

// Where a row goes: four arrays of sequence_length numbers.
struct RowOut {
  int32_t* ids;
  int32_t* labels;  // kIgnoreLabel (tensor/ops/loss.h) where nothing counts
  int32_t* positions;
  int32_t* segments;  // attention stays within equal numbers; padding has a number of its own
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t sequence_length() const = 0;
  // Bytes of the text that all rows together stand for, where `token_bytes[id]` is
  // Tokenizer::TextBytes(id): what a loss in bits per byte is divided by. 0: no text.
  virtual int64_t TextBytes(absl::Span<const int32_t> token_bytes) const = 0;
  // The id written into padding. Only labels and segments tell padding apart.
  virtual int32_t padding_id() const = 0;
  // REQUIRES: 0 <= row < rows().
  virtual void Fill(int64_t row, RowOut out) const = 0;
};

enum class Packing { kJoin, kBorders };

class WindowRows final : public RowSource {
 public:
  // `documents`: ranges of `store` in stream order, none empty. REQUIRES: sequence_length >= 1.
  WindowRows(std::shared_ptr<const TokenStore> store, std::vector<TokenRange> documents,
             int64_t sequence_length, Packing packing);
  int64_t rows() const override;
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t TextBytes(absl::Span<const int32_t> token_bytes) const override;
  int32_t padding_id() const override { return store_->end_id(); }
  void Fill(int64_t row, RowOut out) const override;
  // Ids in the stream.
  int64_t tokens() const { return starts_.back(); }

 private:
  const std::shared_ptr<const TokenStore> store_;
  const std::vector<TokenRange> documents_;
  std::vector<int64_t> starts_;  // of each document in the stream; then the stream's length
  const int64_t sequence_length_;
  const Packing packing_;
};

// Generated rows without end: each counts up through the vocabulary from a random id by a random
// step of 1 to 8, which a small model learns within some hundred updates.
class SyntheticRows final : public RowSource {
 public:
  // REQUIRES: vocabulary >= 1, sequence_length >= 1.
  SyntheticRows(uint64_t seed, int64_t vocabulary, int64_t sequence_length)
      : seed_(seed), vocabulary_(vocabulary), sequence_length_(sequence_length) {}
  int64_t rows() const override { return int64_t{1} << 40; }
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t TextBytes(absl::Span<const int32_t>) const override { return 0; }
  int32_t padding_id() const override { return 0; }
  void Fill(int64_t row, RowOut out) const override;

 private:
  const uint64_t seed_;
  const int64_t vocabulary_;
  const int64_t sequence_length_;
};

// Some rows as the model takes them. Arrays are [rows, sequence_length], row by row.
struct Batch {
  int64_t rows = 0;
  int64_t sequence_length = 0;
  std::vector<int32_t> ids, labels, positions, segments;
  std::vector<int64_t> row_ids;  // [rows]; -1 for rows that are padding
  int64_t counting_tokens = 0;   // labels that are not kIgnoreLabel
};

// Fills `batch` with the rows `row_ids` and then padding up to `padded_rows` rows.
// REQUIRES: row_ids.size() <= padded_rows.
void FillBatch(const RowSource& source, absl::Span<const int64_t> row_ids, int64_t padded_rows,
               Batch* batch);

// TextBytes of every id.
std::vector<int32_t> TokenBytes(const Tokenizer& tokenizer);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_ROWS_H_
