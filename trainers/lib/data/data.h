// From data.* keys to rows: reads, tokenizes and splits before training starts, so that a bad file
// is refused before memory for the model is taken.
//
// Thread-safe: functions of their arguments; what they return owns all it needs.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
//                    FindTextTokenizer(files, options, model.eos_ids));
//   ASSIGN_OR_RETURN(DataSet data, LoadData(files, options.data, {.tokenizer = tokenizer.get(),
//                                                  .sequence_length = 256, .vocabulary = 257}));
//   log.Info(data.summary);
#ifndef COLOSSUS_TRAINERS_LIB_DATA_DATA_H_
#define COLOSSUS_TRAINERS_LIB_DATA_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/data/rows.h"

namespace colossus {

// What rows must fit.
struct DataShape {
  const Tokenizer* tokenizer = nullptr;  // outlives the call, not needed afterwards
  int64_t sequence_length = 0;           // of a row, see RowLength (validate.h)
  int64_t vocabulary = 0;                // of the model
  uint64_t seed = 0;                     // of generated rows
};

struct DataSet {
  std::unique_ptr<RowSource> train;
  std::unique_ptr<RowSource> validation;  // null: none asked for
  std::vector<int32_t> token_bytes;       // for RowSource; empty for generated rows
  int64_t text_bytes = 0;                 // of all documents of data.file as read; 0: not known
  std::string summary;                    // one line for the log
};

// The tokenizer that data.tokenizer names: bytes, a file or a folder. Error: InvalidArgument where
// nothing has that name; else as LoadTokenizer says.
absl::StatusOr<std::unique_ptr<Tokenizer>> NamedTokenizer(FileSystem& files,
                                                          const std::string& name,
                                                          EndToken end = EndToken::kNeeded);
// The same; where data.tokenizer is empty, that of model.directory: tokenizer.json in it, or what a
// run kept beside its checkpoints. Error: NotFound where neither is there. `model_end_ids`: of the
// model's config.
absl::StatusOr<std::unique_ptr<Tokenizer>> FindTokenizer(FileSystem& files, const Options& options,
                                                         const std::vector<int64_t>& model_end_ids);
// The same for reading data: bytes where no other is there.
absl::StatusOr<std::unique_ptr<Tokenizer>> FindTextTokenizer(
    FileSystem& files, const Options& options, const std::vector<int64_t>& model_end_ids);

// InvalidArgument where a file is not what data.format says, ids do not fit the model's vocabulary,
// or nothing is left to train on; NotFound for a missing path. Messages name file and line.
absl::StatusOr<DataSet> LoadData(FileSystem& files, const Options::Data& options,
                                 const DataShape& shape);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_DATA_H_
