// Bytes a second of Encode, over a whole text and line by line.
//
//   bazel run //shardformer/tokenizer:bpe_benchmark -- TOKENIZER_JSON TEXT_FILE
//
// Without the two files, over a made-up text by a tokenizer with four merges.
// tools/goldens/tokenizer_speed.py compares with the `tokenizers` library on the same text.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/file_system.h"
#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/byte_level.h"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {
namespace {

// Encodes all of `texts` an iteration.
void Encode(benchmark::State& state, const Tokenizer& tokenizer,
            const std::vector<absl::string_view>& texts) {
  int64_t bytes = 0, ids = 0;
  for (auto _ : state) {
    for (const absl::string_view text : texts) {
      const absl::StatusOr<std::vector<int32_t>> encoded = tokenizer.Encode(text);
      CHECK_OK(encoded.status());
      bytes += static_cast<int64_t>(text.size());
      ids += static_cast<int64_t>(encoded->size());
    }
  }
  state.SetBytesProcessed(bytes);
  state.counters["bytes_an_id"] = static_cast<double>(bytes) / static_cast<double>(ids);
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer;
  absl::StatusOr<std::string> text = std::string();
  if (argc == 3) {
    FileSystem& files = RealFileSystem();
    tokenizer = LoadTokenizer(files, argv[1], {.end = EndToken::kAny, .model_end_ids = {}});
    text = files.ReadFile(argv[2]);
  } else {
    const nlohmann::json small = SmallTokenizerJson();
    tokenizer = ByteLevelTokenizer::Parse(small, small.dump());
    while (text->size() < (1 << 20)) *text += "The user's 12 uses, user by user.\n";
  }
  CHECK_OK(tokenizer.status());
  CHECK_OK(text.status());
  const std::vector<absl::string_view> whole = {*text};
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  benchmark::RegisterBenchmark("whole_text",
                               [&](benchmark::State& s) { Encode(s, **tokenizer, whole); });
  benchmark::RegisterBenchmark("lines",
                               [&](benchmark::State& s) { Encode(s, **tokenizer, lines); });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
