// Cases about weights in files: tied heads, name prefixes, orientation, buffers to ignore.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/export.h"
#include "shardformer/model.h"
#include "shardformer/model_directory.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/safetensors_writer.h"
#include "tensor/ops/matmul.h"
#include "tensor/testing/run_op.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using Tensors = std::map<std::string, HostTensor>;  // as on disk

constexpr char kEmbedding[] = "model.embed_tokens.weight", kHead[] = "lm_head.weight";

// Random values of every parameter of an untied model, under canonical names, in disk_dims.
Tensors TensorsOf(const ModelConfig& config) {
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(config);
  CHECK_OK(parameters.status());
  Tensors tensors;
  for (const StateInfo& info : *parameters) {
    HostTensor values = RandomParameter(info);
    HostTensor& disk = tensors[info.name] = HostTensor(Type{DType::kF32, info.disk_dims});
    for (int64_t i = 0; i < disk.type().elements(); ++i) disk.Set(i, values.Get(i));
  }
  return tensors;
}

// Writes a directory under the test's own; returns its path.
std::string Write(const std::string& name, const nlohmann::json& config, const Tensors& tensors) {
  FileSystem& files = RealFileSystem();
  const std::string folder = JoinPath(::testing::TempDir(), name);
  CHECK_OK(files.MakeDirs(folder));
  CHECK_OK(files.WriteFileAtomically(JoinPath(folder, "config.json"), config.dump()));
  std::vector<SafetensorsTensor> list;
  for (const auto& item : tensors) {
    const Dims& dims = item.second.type().dims;
    list.push_back({item.first, DType::kF32, {dims.begin(), dims.end()}});
  }
  absl::StatusOr<std::unique_ptr<SafetensorsWriter>> writer = SafetensorsWriter::Begin(
      files, JoinPath(folder, "model.safetensors"), std::move(list));
  CHECK_OK(writer.status());
  for (const SafetensorsTensor& tensor : (*writer)->order()) {
    const HostTensor& values = tensors.at(tensor.name);
    CHECK_OK((*writer)->Append(tensor.name, {static_cast<const char*>(values.raw()),
                                             static_cast<size_t>(values.type().bytes())}));
  }
  CHECK_OK((*writer)->Finish());
  return folder;
}

absl::StatusOr<ModelDirectory> Open(const std::string& folder, bool initialize_missing = false) {
  ModelDirectoryOptions options;
  options.initialize_missing = initialize_missing;
  return ModelDirectory::Open(RealFileSystem(), folder, options);
}

const StateInfo* Find(const ModelDirectory& model, const std::string& name) {
  for (const StateInfo& info : model.parameters()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::vector<double> Values(const ModelDirectory& model, const std::string& name) {
  const StateInfo* info = Find(model, name);
  CHECK(info != nullptr) << name;
  absl::StatusOr<HostTensor> values = model.Read(*info, DType::kF32);
  CHECK_OK(values.status());
  return values->ToDoubles();
}

// ---- C4: tied and untied heads.

enum class Files { kOnlyEmbedding, kOnlyHead, kEqual, kDifferent };
enum class Wanted { kTied, kTiedFromHead, kUntied, kUntiedWithWarning, kRefused };

struct TieCase {
  const char* name;
  Files files;
  const char* flag;  // "true", "false", "" (absent)
  Wanted wanted;
};

// Llama's default is untied.
const TieCase kTieCases[] = {
    {"embedding_true", Files::kOnlyEmbedding, "true", Wanted::kTied},
    {"head_true", Files::kOnlyHead, "true", Wanted::kTiedFromHead},
    {"equal_true", Files::kEqual, "true", Wanted::kTied},
    {"different_true", Files::kDifferent, "true", Wanted::kUntiedWithWarning},
    {"embedding_false", Files::kOnlyEmbedding, "false", Wanted::kRefused},
    {"head_false", Files::kOnlyHead, "false", Wanted::kRefused},
    {"equal_false", Files::kEqual, "false", Wanted::kUntied},
    {"different_false", Files::kDifferent, "false", Wanted::kUntied},
    {"embedding_absent", Files::kOnlyEmbedding, "", Wanted::kRefused},
    {"head_absent", Files::kOnlyHead, "", Wanted::kRefused},
    {"equal_absent", Files::kEqual, "", Wanted::kUntied},
    {"different_absent", Files::kDifferent, "", Wanted::kUntied},
};

Tensors TiedTensors(Files files) {
  Tensors tensors = TensorsOf(SmallLlama());
  if (files == Files::kEqual) tensors[kHead] = tensors[kEmbedding];
  if (files == Files::kOnlyEmbedding) tensors.erase(kHead);
  if (files == Files::kOnlyHead) tensors.erase(kEmbedding);
  return tensors;
}

class C4TiedHeads : public ::testing::TestWithParam<TieCase> {};

TEST_P(C4TiedHeads, FollowFilesAndFlag) {
  const TieCase& c = GetParam();
  nlohmann::json json = SmallLlama().raw;
  json.erase("tie_word_embeddings");
  if (c.flag[0] != '\0') json["tie_word_embeddings"] = c.flag == std::string("true");
  const Tensors tensors = TiedTensors(c.files);
  absl::StatusOr<ModelDirectory> model = Open(Write(absl::StrCat("c4_", c.name), json, tensors));
  if (c.wanted == Wanted::kRefused) {
    const char* missing = c.files == Files::kOnlyHead ? kEmbedding : kHead;
    EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(absl::StrCat("Missing: ", missing))));
    return;
  }
  ASSERT_OK(model.status());
  const bool tied = c.wanted == Wanted::kTied || c.wanted == Wanted::kTiedFromHead;
  EXPECT_EQ(model->config().tie_word_embeddings, tied);
  EXPECT_EQ(Find(*model, kHead) == nullptr, tied);
  const char* source = c.wanted == Wanted::kTiedFromHead ? kHead : kEmbedding;
  EXPECT_EQ(Values(*model, kEmbedding), tensors.at(source).ToDoubles());
  if (!tied) {
    EXPECT_EQ(Values(*model, kHead), tensors.at(kHead).ToDoubles());
  }
  auto warning = Contains(AllOf(HasSubstr("warning"), HasSubstr(kEmbedding), HasSubstr(kHead)));
  if (c.wanted == Wanted::kUntiedWithWarning) {
    EXPECT_THAT(model->notes(), warning);
  } else {
    EXPECT_THAT(model->notes(), Not(warning));
  }
}

INSTANTIATE_TEST_SUITE_P(FieldCases, C4TiedHeads, ::testing::ValuesIn(kTieCases),
                         [](const auto& info) { return info.param.name; });

TEST(FieldCases, C4FamilyDefaults) {
  EXPECT_TRUE(SmallGpt2(R"({"tie_word_embeddings": null})").tie_word_embeddings);
  nlohmann::json json;
  for (const char* family : {"llama", "mistral", "qwen2"}) {
    json = SmallLlama().raw;
    json["model_type"] = family;
    json.erase("tie_word_embeddings");
    ASSERT_OK_AND_ASSIGN(ModelConfig config, ReadModelConfig(json, family));
    EXPECT_FALSE(config.tie_word_embeddings) << family;
    EXPECT_FALSE(config.tie_was_read) << family;
  }
}

// After an update the tied table is still one state, and it is exported once.
TEST(FieldCases, C4TiedStorageStaysOne) {
  for (Files files : {Files::kOnlyEmbedding, Files::kOnlyHead}) {
    nlohmann::json json = SmallLlama().raw;
    json["tie_word_embeddings"] = true;
    const bool head = files == Files::kOnlyHead;
    ASSERT_OK_AND_ASSIGN(ModelDirectory model,
                         Open(Write(head ? "one_h" : "one_e", json, TiedTensors(files))));
    auto values = [&](const StateInfo& info) { return *model.Read(info, DType::kF32); };
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<SmallTrainer> trainer,
                         SmallTrainer::Make(model.config(), SmallPlan(1, 1, 4), {}, values));
    ASSERT_OK(trainer->Update({Rows({{1, 2, 3, 4}}, {{2, 3, 4, 5}})}, 0.1).status());
    ASSERT_OK_AND_ASSIGN(HostTensors states, trainer->States());
    EXPECT_EQ(states.count(kHead), 0u);
    EXPECT_NE(states.at(kEmbedding).ToDoubles(), Values(model, kEmbedding));
    const std::string folder = JoinPath(::testing::TempDir(), head ? "one_h_out" : "one_e_out");
    ASSERT_OK(ExportModel(RealFileSystem(), folder, model.config(), model.parameters(),
                          DType::kF32, [&](const StateInfo& info) -> absl::StatusOr<HostTensor> {
                            return states.at(info.name);
                          }));
    ASSERT_OK_AND_ASSIGN(SafetensorsFile written,
                         SafetensorsFile::Open(RealFileSystem(),
                                               JoinPath(folder, "model.safetensors")));
    EXPECT_EQ(written.Find(kHead), nullptr);
    EXPECT_NE(written.Find(kEmbedding), nullptr);
    ASSERT_OK_AND_ASSIGN(ModelDirectory again, Open(folder));
    EXPECT_TRUE(again.config().tie_word_embeddings);
    EXPECT_EQ(Values(again, kEmbedding), states.at(kEmbedding).ToDoubles());
  }
}

// ---- C5: prefixes.

// Canonical names without what the families put in front.
std::string Bare(const std::string& name) {
  for (const std::string prefix : {"model.", "transformer."}) {
    if (name.compare(0, prefix.size(), prefix) == 0) return name.substr(prefix.size());
  }
  return name;
}

TEST(FieldCases, C5NamePrefixes) {
  for (const ModelConfig& config : {SmallGpt2(), SmallLlama()}) {
    const Tensors tensors = TensorsOf(config);
    std::map<std::string, std::vector<double>> first;
    double first_loss = 0;
    int number = 0;
    for (const char* prefix :
         {"", "model.", "transformer.", "module.", "_orig_mod.", "module.model."}) {
      SCOPED_TRACE(absl::StrCat(config.family, " '", prefix, "'"));
      Tensors renamed;
      for (const auto& item : tensors) {
        renamed[absl::StrCat(prefix, Bare(item.first))] = item.second;
      }
      ASSERT_OK_AND_ASSIGN(ModelDirectory model,
                           Open(Write(absl::StrCat("c5_", config.family, ++number), config.raw,
                                      renamed)));
      std::map<std::string, std::vector<double>> values;
      for (const StateInfo& info : model.parameters()) {
        values[info.name] = Values(model, info.name);
      }
      auto read = [&](const StateInfo& info) { return *model.Read(info, DType::kF32); };
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<SmallTrainer> trainer,
                           SmallTrainer::Make(model.config(), SmallPlan(1, 1, 4), {}, read));
      ASSERT_OK_AND_ASSIGN(SmallUpdate update,
                           trainer->Update({Rows({{1, 2, 3, 4}}, {{2, 3, 4, 5}})}));
      if (first.empty()) {
        first = values;
        first_loss = update.result.loss;
        for (const auto& item : tensors) EXPECT_EQ(values[item.first], item.second.ToDoubles());
      }
      EXPECT_EQ(values, first);
      EXPECT_EQ(update.result.loss, first_loss);
    }
  }
}

TEST(FieldCases, C5RenamedTensor) {
  const ModelConfig config = SmallLlama();
  Tensors tensors = TensorsOf(config);
  auto node = tensors.extract("model.layers.1.mlp.up_proj.weight");
  node.key() = "model.layers.1.mlp.upper.weight";
  tensors.insert(std::move(node));
  const std::string folder = Write("c5_renamed", config.raw, tensors);
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("Missing: model.layers.1.mlp.up_proj.weight"),
                             HasSubstr("Unexpected: model.layers.1.mlp.upper.weight"))));
  ASSERT_OK_AND_ASSIGN(ModelDirectory model, Open(folder, /*initialize_missing=*/true));
  EXPECT_THAT(model.notes(), Contains(HasSubstr("at random: model.layers.1.mlp.up_proj.weight")));
}

TEST(FieldCases, C5AnotherShape) {
  const ModelConfig config = SmallLlama();
  Tensors tensors = TensorsOf(config);
  tensors["model.norm.weight"] = HostTensor(Type{DType::kF32, {23}});
  const std::string folder = Write("c5_shape", config.raw, tensors);
  for (bool initialize : {false, true}) {
    EXPECT_THAT(
        Open(folder, initialize),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("model.norm.weight"), HasSubstr("[23]"), HasSubstr("[24]"))));
  }
}

// ---- C7: GPT-2's orientation and buffers.

ModelConfig TinyGpt2() {
  return SmallGpt2(R"({"n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 4})");
}

// Tensors with the names GPT-2 files have: no "transformer." and two buffers a layer.
Tensors TinyGpt2Tensors() {
  Tensors tensors;
  for (const auto& item : TensorsOf(TinyGpt2())) tensors[Bare(item.first)] = item.second;
  tensors["h.0.attn.c_proj.weight"] = HostTensor::Of<float>({2, 2}, {1, 2, 3, 4});
  tensors["h.0.attn.c_proj.bias"] = HostTensor::Of<float>({2}, {10, 20});
  tensors["h.0.attn.bias"] = HostTensor(Type{DType::kF32, {1, 1, 4, 4}});
  tensors["h.0.attn.masked_bias"] = HostTensor(Type{DType::kF32, {1}});
  return tensors;
}

// x times the weight `name` as the model's graph multiplies it, in the graph's own words.
std::vector<double> Project(const ModelDirectory& model, const std::string& name,
                            const std::vector<float>& x) {
  absl::StatusOr<Graph> graph = BuildForward(model.config(), {.rows = 1, .length = 1});
  CHECK_OK(graph.status());
  const ValueId weight = graph->FindState(name)->in;
  for (const Node& node : graph->nodes()) {
    if (node.op != &MatmulOp() || node.operands[1] != weight) continue;
    HostTensor input(graph->value(node.operands[0]).type);
    for (size_t i = 0; i < x.size(); ++i) input.Set(static_cast<int64_t>(i), x[i]);
    absl::StatusOr<HostTensor> values = model.Read(*Find(model, name), DType::kF32);
    CHECK_OK(values.status());
    return RunOp(MatmulOp(), {input, *values}, node.attributes)[0].ToDoubles();
  }
  CHECK(false) << "no product reads " << name;
  return {};
}

TEST(FieldCases, C7Gpt2Orientation) {
  const Tensors tensors = TinyGpt2Tensors();
  ASSERT_OK_AND_ASSIGN(ModelDirectory model, Open(Write("c7", TinyGpt2().raw, tensors)));
  EXPECT_THAT(model.notes(), Not(Contains(HasSubstr("attn.bias"))));
  std::vector<double> y = Project(model, "transformer.h.0.attn.c_proj.weight", {1, 1});
  const std::vector<double> bias = Values(model, "transformer.h.0.attn.c_proj.bias");
  EXPECT_EQ(y[0] + bias[0], 14);
  EXPECT_EQ(y[1] + bias[1], 26);
  EXPECT_EQ(Values(model, "transformer.h.0.attn.c_attn.bias"),
            tensors.at("h.0.attn.c_attn.bias").ToDoubles());
}

TEST(FieldCases, C7ExportIsWhatWasRead) {
  const Tensors tensors = TinyGpt2Tensors();
  ASSERT_OK_AND_ASSIGN(ModelDirectory model, Open(Write("c7_in", TinyGpt2().raw, tensors)));
  const std::string folder = JoinPath(::testing::TempDir(), "c7_out");
  ASSERT_OK(ExportModel(RealFileSystem(), folder, model.config(), model.parameters(), DType::kF32,
                        [&](const StateInfo& info) { return model.Read(info, DType::kF32); }));
  ASSERT_OK_AND_ASSIGN(
      SafetensorsFile written,
      SafetensorsFile::Open(RealFileSystem(), JoinPath(folder, "model.safetensors")));
  EXPECT_EQ(written.entries().size(), tensors.size() - 2);  // without the buffers
  for (const SafetensorsEntry& entry : written.entries()) {
    const HostTensor& read = tensors.at(Bare(entry.name));
    EXPECT_EQ(Dims(entry.dims.begin(), entry.dims.end()), read.type().dims) << entry.name;
    ASSERT_OK_AND_ASSIGN(std::span<const char> bytes, written.data(entry.name));
    EXPECT_TRUE(BitEqual<char>(bytes, {static_cast<const char*>(read.raw()),
                                       static_cast<size_t>(read.type().bytes())}))
        << entry.name;
  }
}

}  // namespace
}  // namespace colossus
