#include "shardformer/model_directory.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/export.h"
#include "shardformer/initialize.h"
#include "shardformer/model.h"
#include "tensor/io/json.h"
#include "tensor/io/safetensors_writer.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGoldens[] = {"gpt2_inner",     "gpt2_untied",  "llama_llama3_bias",
                                    "llama_yarn",     "llama_tied",   "mistral_window",
                                    "qwen2_layers",   "llama_shards"};

FileSystem& Files() { return RealFileSystem(); }

std::string GoldenPath(absl::string_view name) { return absl::StrCat("tests/golden/", name); }

std::string Scratch(absl::string_view name) {
  std::string path = JoinPath(::testing::TempDir(), absl::StrCat("model_directory_test.", name));
  EXPECT_OK(Files().RemoveTree(path));
  EXPECT_OK(Files().MakeDirs(path));
  return path;
}

ModelDirectory Open(const std::string& path, const ModelDirectoryOptions& options = {}) {
  absl::StatusOr<ModelDirectory> model = ModelDirectory::Open(Files(), path, options);
  EXPECT_OK(model);
  return *std::move(model);
}

// A tensor of a file under test: `seed` chooses its values.
struct Tensor {
  std::string name;
  std::vector<int64_t> dims;
  uint64_t seed = 0;
  DType dtype = DType::kF32;
};

// What a tiny tied GPT-2 without blocks' details needs: the config and its tensors.
constexpr absl::string_view kConfig = R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1,
    "n_embd": 4, "vocab_size": 6, "n_positions": 3, "tie_word_embeddings": TIE, "note": "kept"})";

std::vector<Tensor> TensorsOf(bool tied) {
  std::string text(kConfig);
  text.replace(text.find("TIE"), 3, tied ? "true" : "false");
  absl::StatusOr<ModelConfig> config = ReadModelConfig(nlohmann::json::parse(text), "test");
  EXPECT_OK(config);
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(*config);
  EXPECT_OK(parameters);
  std::vector<Tensor> tensors;
  for (const StateInfo& info : *parameters) {
    tensors.push_back({info.name, {info.disk_dims.begin(), info.disk_dims.end()}, 1});
  }
  return tensors;
}

void Write(const std::string& path, bool tied, const std::vector<Tensor>& tensors) {
  std::string text(kConfig);
  text.replace(text.find("TIE"), 3, tied ? "true" : "false");
  ASSERT_OK(Files().WriteFileAtomically(JoinPath(path, "config.json"), text));
  std::vector<SafetensorsTensor> headers;
  for (const Tensor& tensor : tensors) headers.push_back({tensor.name, tensor.dtype, tensor.dims});
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<SafetensorsWriter> writer,
                       SafetensorsWriter::Begin(Files(), JoinPath(path, "model.safetensors"),
                                                headers));
  for (const SafetensorsTensor& header : writer->order()) {
    uint64_t seed = 0;
    for (const Tensor& tensor : tensors) {
      if (tensor.name == header.name) seed = tensor.seed;
    }
    HostTensor values(Type{header.dtype, Dims(header.dims.begin(), header.dims.end())});
    for (int64_t i = 0; i < values.type().elements(); ++i) {
      values.Set(i, static_cast<double>(seed) + 0.25 * static_cast<double>(i));
    }
    ASSERT_OK(writer->Append(header.name, {static_cast<const char*>(values.raw()),
                                           static_cast<size_t>(values.type().bytes())}));
  }
  ASSERT_OK(writer->Finish());
}

const StateInfo& Find(const ModelDirectory& model, absl::string_view name) {
  for (const StateInfo& info : model.parameters()) {
    if (info.name == name) return info;
  }
  ADD_FAILURE() << "no parameter " << name;
  return model.parameters()[0];
}

// Protects: names and shapes are those of the files that the peer library writes.
TEST(ModelDirectoryTest, OpensGoldens) {
  for (const char* golden : kGoldens) {
    ModelDirectory model = Open(GoldenPath(golden));
    ASSERT_OK_AND_ASSIGN(nlohmann::json json,
                         ReadJsonFile(Files(), JoinPath(GoldenPath(golden), "golden.json")));
    std::set<std::string> names;
    for (const StateInfo& info : model.parameters()) {
      names.insert(info.name);
      ASSERT_TRUE(json["tensors"].contains(info.name)) << golden << " " << info.name;
      std::vector<int64_t> dims = json["tensors"][info.name][1];
      EXPECT_EQ(dims, std::vector<int64_t>(info.disk_dims.begin(), info.disk_dims.end()));
    }
    for (const auto& [name, unused] : json["tensors"].items()) {
      EXPECT_TRUE(names.contains(name) || absl::StrContains(name, "inv_freq")) << name;
    }
    EXPECT_EQ(ParameterCount(model.config()), json["parameters"].get<int64_t>()) << golden;
    std::set<std::string> decayed, expected = json["adamw"]["decayed"];
    for (const StateInfo& info : model.parameters()) {
      if (info.decayed) decayed.insert(info.name);
    }
    EXPECT_EQ(decayed, expected) << golden;
    EXPECT_THAT(model.notes(), IsEmpty()) << golden;
  }
}

// Protects: what is exported is what was read, to the bit, tied and untied, narrow and wide; and
// the config keeps its keys.
TEST(ModelDirectoryTest, ExportRoundTrip) {
  for (const char* golden : kGoldens) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      ModelDirectory model = Open(GoldenPath(golden));
      const std::string path = Scratch("round_trip");
      ASSERT_OK(ExportModel(Files(), path, model.config(), model.parameters(), dtype,
                            [&](const StateInfo& info) { return model.Read(info, DType::kF32); }));
      ModelDirectory again = Open(path);
      ASSERT_EQ(again.parameters().size(), model.parameters().size());
      for (const StateInfo& info : model.parameters()) {
        ASSERT_OK_AND_ASSIGN(HostTensor before, model.Read(info, dtype));
        ASSERT_OK_AND_ASSIGN(HostTensor after, again.Read(info, dtype));
        EXPECT_TRUE(before == after) << golden << " " << info.name;
      }
      nlohmann::json raw = again.config().raw, expected = model.config().raw;
      EXPECT_EQ(again.config().stored_dtype, dtype) << golden;
      for (const char* key : {"dtype", "torch_dtype", "tie_word_embeddings"}) {
        raw.erase(key), expected.erase(key);
      }
      EXPECT_EQ(raw, expected) << golden;
    }
  }
}

// Protects: a config with the old and the new key of the dtype does not contradict itself.
TEST(ModelDirectoryTest, ExportSetsBothDTypeKeys) {
  ModelDirectory model = Open(GoldenPath("llama_tied"));
  ModelConfig config = model.config();
  config.raw["dtype"] = config.raw["torch_dtype"] = "float32";
  const std::string path = Scratch("dtype_keys");
  ASSERT_OK(ExportModel(Files(), path, config, model.parameters(), DType::kF16,
                        [&](const StateInfo& info) { return model.Read(info, DType::kF16); }));
  ModelDirectory again = Open(path);
  EXPECT_EQ(again.config().raw["dtype"], "float16");
  EXPECT_EQ(again.config().raw["torch_dtype"], "float16");
}

// Protects: an error of the reader leaves the old model in place.
TEST(ModelDirectoryTest, ExportStopsAtErrors) {
  const std::string path = Scratch("stops");
  Write(path, true, TensorsOf(true));
  ModelDirectory model = Open(path);
  EXPECT_THAT(ExportModel(Files(), path, model.config(), model.parameters(), DType::kBF16,
                          [](const StateInfo&) -> absl::StatusOr<HostTensor> {
                            return absl::DataLossError("gone");
                          }),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Files().List(path), IsOkAndHolds(ElementsAre("config.json", "model.safetensors")));
  EXPECT_OK(ModelDirectory::Open(Files(), path, {}));
}

// Protects: the rules of tied heads, in every combination of config and files.
TEST(ModelDirectoryTest, Tying) {
  const std::string table = "transformer.wte.weight", head = "lm_head.weight";
  const struct {
    const char* name;
    bool config_ties;
    uint64_t table_seed, head_seed;  // 0: the file lacks it
    bool tied;                       // as opened
    const char* note;                // "" none
    const char* error;               // "" none
  } rows[] = {
      {"table only", true, 1, 0, true, "", ""},
      {"head only", true, 0, 2, true, "is read from 'lm_head.weight'", ""},
      {"both equal", true, 3, 3, true, "", ""},
      {"both differ", true, 1, 2, false, "differ: loaded untied", ""},
      {"untied", false, 1, 2, false, "", ""},
      {"untied and equal", false, 2, 2, false, "", ""},
      {"untied, no head", false, 1, 0, false, "", "Missing: lm_head.weight. Unexpected: none."},
      {"neither", true, 0, 0, true, "", "Missing: transformer.wte.weight. Unexpected: none."},
  };
  for (const auto& row : rows) {
    const std::string path = Scratch("tying");
    std::vector<Tensor> tensors;
    for (Tensor& tensor : TensorsOf(/*tied=*/false)) {
      if (tensor.name == table) tensor.seed = row.table_seed;
      if (tensor.name == head) tensor.seed = row.head_seed;
      if (tensor.seed != 0) tensors.push_back(tensor);
    }
    Write(path, row.config_ties, tensors);
    absl::StatusOr<ModelDirectory> model = ModelDirectory::Open(Files(), path, {});
    if (row.error[0] != '\0') {
      EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.error)));
      continue;
    }
    ASSERT_OK(model) << row.name;
    EXPECT_EQ(model->config().tie_word_embeddings, row.tied) << row.name;
    EXPECT_EQ(model->parameters().size(), TensorsOf(row.tied).size()) << row.name;
    const uint64_t seed = row.table_seed != 0 ? row.table_seed : row.head_seed;
    EXPECT_EQ(model->Read(Find(*model, table), DType::kF32)->Get(1), 0.25 + seed) << row.name;
    if (std::string(row.name) == "both differ") {
      ModelDirectoryOptions options;
      options.require_tied = true;
      EXPECT_THAT(ModelDirectory::Open(Files(), path, options),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a tied head was asked")));
    }
    if (!row.tied) {
      EXPECT_EQ(model->Read(Find(*model, head), DType::kF32)->Get(1), 0.25 + row.head_seed);
    }
    if (row.note[0] == '\0') {
      EXPECT_THAT(model->notes(), IsEmpty()) << row.name;
    } else {
      EXPECT_THAT(model->notes(), ElementsAre(HasSubstr(row.note)));
    }
  }
}

// Protects: a model untied by its files is exported untied.
TEST(ModelDirectoryTest, ExportOfUntied) {
  const std::string path = Scratch("untied"), out = Scratch("untied_out");
  std::vector<Tensor> tensors = TensorsOf(false);
  tensors.back().seed = 5;
  Write(path, /*tied=*/true, tensors);
  ModelDirectory model = Open(path);
  ASSERT_OK(ExportModel(Files(), out, model.config(), model.parameters(), DType::kF32,
                        [&](const StateInfo& info) { return model.Read(info, DType::kF32); }));
  ModelDirectory again = Open(out);
  EXPECT_FALSE(again.config().tie_word_embeddings);
  EXPECT_THAT(again.notes(), IsEmpty());
  EXPECT_EQ(again.config().raw["note"], "kept");
}

// Protects: one message names everything that does not fit; missing tensors start at random only
// when asked for.
TEST(ModelDirectoryTest, MissingAndUnexpected) {
  const std::string path = Scratch("missing");
  std::vector<Tensor> tensors = TensorsOf(true);
  std::erase_if(tensors, [](const Tensor& t) {
    return t.name == "transformer.ln_f.bias" || t.name == "transformer.wpe.weight";
  });
  tensors.push_back({"score.weight", {2}, 1});
  tensors.push_back({"transformer.h.0.attn.bias", {1, 1, 3, 3}, 1, DType::kU8});
  Write(path, true, tensors);
  EXPECT_THAT(ModelDirectory::Open(Files(), path, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path),
                             HasSubstr("Missing: transformer.wpe.weight, transformer.ln_f.bias. "
                                       "Unexpected: score.weight."))));
  ModelDirectory model = Open(path, {.config_file = "", .initialize_missing = true, .seed = 9});
  EXPECT_THAT(model.notes(), ElementsAre(HasSubstr("start at random: transformer.wpe.weight"),
                                         HasSubstr("ignored: score.weight")));
  const StateInfo& places = Find(model, "transformer.wpe.weight");
  EXPECT_TRUE(*model.Read(places, DType::kF32) == InitialValue(places, DType::kF32, 9));
}

// Protects: tensors that cannot be what the config says are refused by name, before any is read.
TEST(ModelDirectoryTest, RefusesTensors) {
  const struct {
    const char* message;
    void (*change)(std::vector<Tensor>&);
  } rows[] = {
      {"'transformer.wte.weight' has shape [4,6], the config says [6,4]",
       [](std::vector<Tensor>& t) { t[0].dims = {4, 6}; }},
      {"'transformer.wte.weight' has shape [6,4,1]",
       [](std::vector<Tensor>& t) { t[0].dims = {6, 4, 1}; }},
      {"stored as I32, not as a float type",
       [](std::vector<Tensor>& t) { t[0].dtype = DType::kI32; }},
      {"Missing: none. Unexpected: transformer.h.7.ln_1.weight.",
       [](std::vector<Tensor>& t) { t.push_back({"transformer.h.7.ln_1.weight", {4}, 1}); }},
      {"both mean parameter 'transformer.wpe.weight'",
       [](std::vector<Tensor>& t) { t.push_back({"wpe.weight", {3, 4}, 1}); }},
  };
  for (const auto& row : rows) {
    const std::string path = Scratch("refuses");
    std::vector<Tensor> tensors = TensorsOf(true);
    row.change(tensors);
    Write(path, true, tensors);
    EXPECT_THAT(ModelDirectory::Open(Files(), path, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

// Protects: another config file may describe the same weights.
TEST(ModelDirectoryTest, ConfigFile) {
  for (const char* golden : kGoldens) {
    for (const char* alt : {"alt/config_v4.json", "alt/config_min.json"}) {
      ModelDirectory model = Open(
          GoldenPath(golden), {.config_file = JoinPath(GoldenPath(golden), alt)});
      EXPECT_FALSE(model.parameters().empty()) << golden << alt;
    }
  }
  EXPECT_THAT(ModelDirectory::Open(Files(), Scratch("empty"), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("config.json")));
}

}  // namespace
}  // namespace colossus
