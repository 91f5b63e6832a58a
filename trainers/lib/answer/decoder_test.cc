// Cached decoding against the uncached forward, over all golden cases: windows, grouped heads,
// learned and rotary positions.
#include "trainers/lib/answer/decoder.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "shardformer/model_directory.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "trainers/lib/answer/golden.h"

namespace colossus {
namespace {

constexpr char kFolder[] = "tests/golden/";

// A golden model with its input and uncached logits.
struct Case {
  std::unique_ptr<ModelDirectory> model;
  std::unique_ptr<Device> device;
  RowIds ids;
  int64_t rows = 0, length = 0, vocabulary = 0;
  HostTensor logits;  // [rows, length, v]
  double limit = 0;   // of the difference of logits, relative to the largest

  // Of position `last` of a row.
  std::vector<double> Expected(int64_t row, int64_t last) const {
    std::vector<double> values(vocabulary);
    for (int64_t v = 0; v < vocabulary; ++v) {
      values[v] = logits.Get((row * length + last) * vocabulary + v);
    }
    return values;
  }
  // ids[row][from, to) of each row.
  RowIds Part(int64_t from, int64_t to) const {
    RowIds part;
    for (const auto& row : ids) part.emplace_back(row.begin() + from, row.begin() + to);
    return part;
  }
};

absl::StatusOr<HostTensor> UncachedLogits(const Case& c, const HostTensor& ids, DType compute) {
  ForwardOptions forward;
  forward.rows = c.rows;
  forward.length = c.length;
  forward.compute = compute;
  forward.loss = false;
  forward.logits = true;
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   CompileForward(c.model->config(), forward, {}, *c.device));
  RETURN_IF_ERROR(program->Allocate());
  for (const StateInfo& info : c.model->parameters()) {
    ASSIGN_OR_RETURN(HostTensor values, c.model->Read(info, compute));
    RETURN_IF_ERROR(program->WriteState(info.name, values));
  }
  FeedFunction feeds = [&](absl::string_view, int) { return &ids; };
  ASSIGN_OR_RETURN(Fetched fetched, program->RunPhase(0, feeds));
  return fetched.at({"logits", 0});
}

absl::StatusOr<Case> OpenCase(const std::string& name, DType compute) {
  Case c;
  const std::string path = kFolder + name;
  ASSIGN_OR_RETURN(Golden golden,
                   Golden::Open(RealFileSystem(), JoinPath(path, "golden.safetensors")));
  ASSIGN_OR_RETURN(ModelDirectory model, ModelDirectory::Open(RealFileSystem(), path, {}));
  c.model = std::make_unique<ModelDirectory>(std::move(model));
  c.device = NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = CpuKernels()});
  ASSIGN_OR_RETURN(HostTensor ids, golden.Read("input_ids", DType::kI32));
  c.rows = ids.type().dims[0];
  c.length = ids.type().dims[1];
  c.vocabulary = c.model->config().vocabulary;
  for (int64_t row = 0; row < c.rows; ++row) {
    const int32_t* first = ids.data<int32_t>().data() + row * c.length;
    c.ids.emplace_back(first, first + c.length);
  }
  // Both sides are within the golden limit of exact arithmetic in f32, so within twice that of each
  // other. f64 rounds 2^29 times finer; 2^24 leaves a factor of 32 to libm's functions.
  c.limit = 2 * golden.limits().output * (compute == DType::kF64 ? 0x1p-24 : 1);
  ASSIGN_OR_RETURN(c.logits, UncachedLogits(c, ids, compute));
  return c;
}

absl::StatusOr<std::unique_ptr<Decoder>> OpenDecoder(const Case& c, const DecoderOptions& options) {
  CompileOptions compile;
  compile.program.poison = true;
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                   Decoder::Make(c.model->config(), options, compile, *c.device));
  RETURN_IF_ERROR(decoder->Allocate());
  RETURN_IF_ERROR(decoder->SetParameters(
      [&](const StateInfo& info, DType dtype) { return c.model->Read(info, dtype); }));
  return decoder;
}

void ExpectRow(const Case& c, const HostTensor& logits, int64_t row, int64_t last) {
  const std::vector<double> all = logits.ToDoubles();
  const std::vector<double> actual(all.begin() + row * c.vocabulary,
                                   all.begin() + (row + 1) * c.vocabulary);
  EXPECT_TRUE(TensorNear(actual, c.Expected(row, last), {.relative_to_max = c.limit}))
      << "row " << row << ", position " << last;
}

class DecoderTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DecoderTest, EveryPositionEqualsTheUncachedForward) {
  for (DType compute : {DType::kF32, DType::kF64}) {
    SCOPED_TRACE(Name(compute));
    ASSERT_OK_AND_ASSIGN(const Case c, OpenCase(GetParam(), compute));
    // A capacity that the last chunks of 5 pass, so that padding is dropped.
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<Decoder> decoder,
        OpenDecoder(c, {.rows = c.rows, .capacity = c.length, .chunk = 5, .compute = compute}));
    // As the end of a prefill of every length ...
    for (int64_t n = 1; n <= c.length; ++n) {
      decoder->Reset();
      ASSERT_OK_AND_ASSIGN(const HostTensor logits, decoder->Append(c.Part(0, n)));
      for (int64_t row = 0; row < c.rows; ++row) ExpectRow(c, logits, row, n - 1);
    }
    // ... and singly behind a prompt of 3, over what the runs before left in the caches.
    decoder->Reset();
    ASSERT_OK(decoder->Append(c.Part(0, 3)).status());
    for (int64_t n = 3; n < c.length; ++n) {
      ASSERT_OK_AND_ASSIGN(const HostTensor logits, decoder->Append(c.Part(n, n + 1)));
      for (int64_t row = 0; row < c.rows; ++row) ExpectRow(c, logits, row, n);
    }
  }
}

TEST_P(DecoderTest, RowsMayHaveDifferentLengths) {
  ASSERT_OK_AND_ASSIGN(const Case c, OpenCase(GetParam(), DType::kF32));
  ASSERT_GE(c.rows, 2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Decoder> decoder,
                       OpenDecoder(c, {.rows = c.rows, .capacity = c.length + 3, .chunk = 4}));
  // Ids of rows 0 and 1 in each call; other rows get none until the end.
  const std::vector<std::pair<int64_t, int64_t>> steps = {{9, 2}, {0, 1}, {1, 0}, {1, 5}, {1, 1}};
  std::vector<int64_t> taken(c.rows, 0);
  for (const auto& step : steps) {
    std::vector<int64_t> counts(c.rows, 0);
    counts[0] = std::min(step.first, c.length - taken[0]);
    counts[1] = std::min(step.second, c.length - taken[1]);
    RowIds part(c.rows);
    for (int64_t row = 0; row < c.rows; ++row) {
      const auto first = c.ids[row].begin() + taken[row];
      part[row].assign(first, first + counts[row]);
      taken[row] += counts[row];
    }
    ASSERT_OK_AND_ASSIGN(const HostTensor logits, decoder->Append(part));
    for (int64_t row = 0; row < c.rows; ++row) {
      EXPECT_EQ(decoder->length(row), taken[row]);
      if (counts[row] > 0) ExpectRow(c, logits, row, taken[row] - 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, DecoderTest,
                         ::testing::Values("gpt2_inner", "gpt2_untied", "llama_llama3_bias",
                                           "llama_yarn", "llama_tied", "mistral_window",
                                           "qwen2_layers", "llama_shards"),
                         [](const auto& info) { return info.param; });

TEST(Decoder, RefusesWhatDoesNotFit) {
  ASSERT_OK_AND_ASSIGN(const Case c, OpenCase("gpt2_inner", DType::kF32));
  const int64_t positions = c.model->config().max_positions;
  EXPECT_THAT(OpenDecoder(c, {.capacity = positions + 1}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr(std::to_string(positions) + " positions")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Decoder> decoder, OpenDecoder(c, {.capacity = 3}));
  ASSERT_OK(decoder->Append({{1, 2}}).status());
  EXPECT_THAT(decoder->Append({{1, 2}}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  ::testing::HasSubstr("holds 3")));
  for (int32_t id : {-1, static_cast<int32_t>(c.vocabulary)}) {
    EXPECT_THAT(decoder->Append({{id}}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  ::testing::HasSubstr("vocabulary")));
  }
  EXPECT_EQ(decoder->length(0), 2);
  EXPECT_OK(decoder->Append({{3}}).status());
}

}  // namespace
}  // namespace colossus
