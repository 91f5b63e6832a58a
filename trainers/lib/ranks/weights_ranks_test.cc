// Weights of files on ranks that split them: field cases C7 and G3 along tensor. What the ranks
// hold together is what the file has, and what they export is too.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/state_share.h"
#include "shardformer/model.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/state_piece.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/safetensors_writer.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/whole_state.h"
#include "trainers/lib/run/run_inputs.h"
#include "trainers/lib/run/run_output.h"
#include "trainers/lib/run/session.h"

namespace colossus {
namespace {

// What a rank looks at when it has loaded the weights.
using Look = std::function<void(Session&, RankGroup)>;

class WeightsRanksTest : public ::testing::Test {
 protected:
  WeightsRanksTest() : out_(JoinPath(::testing::TempDir(), "weights")) {
    EXPECT_OK(RealFileSystem().RemoveTree(out_));
  }

  // Loads `folder`, compares, saves and exports on the ranks of a layout; then compares the export
  // with the files that were read. Returns how many tensors were the same.
  int LoadAndExport(const std::string& folder, const std::vector<std::string>& layout_flags,
                    const Look& look = nullptr) {
    std::vector<std::string> flags = {"--model=" + folder,  "--data=synthetic", "--steps=1",
                                      "--precision=fp32",   "--threads=1",      "--out=" + out_,
                                      "--sequence_length=4"};
    flags.insert(flags.end(), layout_flags.begin(), layout_flags.end());
    const absl::StatusOr<Config> config = ReadConfig(Trainer::kPretrain, flags, RealFileSystem());
    EXPECT_OK(config);
    Log quiet(nullptr, false);
    JobContext context{*config, quiet};
    const absl::StatusOr<RunLayout> layout = LayoutOf(config->options);
    EXPECT_OK(layout);
    RunInputs inputs(RealFileSystem(), config->options, quiet);
    EXPECT_OK(RunOnRanks(context, *layout, [&](JobContext& rank, RankGroup group) {
      return RunRank(rank, *layout, group, inputs, look);
    }));
    return SameTensors(folder);
  }

  const std::string out_;

 private:
  absl::StatusOr<int> RunRank(JobContext& context, const RunLayout& layout, RankGroup group,
                              RunInputs& inputs, const Look& look) {
    ASSIGN_OR_RETURN(RunOutput output, RunOutput::Open(RealFileSystem(), context.config.options.run,
                                                       context.log, group));
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                     OpenSession(inputs, context.config, layout, group));
    RETURN_IF_ERROR(output.TryToWrite());
    RETURN_IF_ERROR(session->training->Allocate());
    RETURN_IF_ERROR(SetFirstValues(*session));
    const ModelSource& weights = *session->input->weights;
    for (const StateInfo& info : session->training->parameters()) {
      ASSIGN_OR_RETURN(const HostTensor whole,
                       ReadWholeState(*session->training, info.name, group));
      ASSIGN_OR_RETURN(const HostTensor expected, weights.Read(info, DType::kF32));
      EXPECT_EQ(whole, expected) << info.name;
    }
    if (look) look(*session, group);
    CheckpointRecord record;
    record.counters.attempted = 1;
    record.model = session->model.raw.dump();
    RETURN_IF_ERROR(output.Save(*session, record));
    RETURN_IF_ERROR(output.Export(*session));
    return 0;
  }

  // In the orientation they were read in, bit by bit; those of another dtype are left out.
  int SameTensors(const std::string& folder) {
    const auto exported =
        SafetensorsFile::Open(RealFileSystem(), JoinPath(out_, "model/model.safetensors"));
    const auto read =
        SafetensorsFile::Open(RealFileSystem(), JoinPath(folder, "model.safetensors"));
    EXPECT_OK(exported);
    EXPECT_OK(read);
    int compared = 0;
    for (const SafetensorsEntry& entry : exported->entries()) {
      const SafetensorsEntry* source = read->Find(entry.name);
      if (source == nullptr || source->dtype != entry.dtype) continue;
      EXPECT_EQ(source->dims, entry.dims) << entry.name;
      const auto a = *exported->data(entry.name), b = *read->data(entry.name);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << entry.name;
      ++compared;
    }
    return compared;
  }
};

struct Row {
  const char* golden;
  std::vector<std::string> layout;
};

class GoldenWeightsTest : public WeightsRanksTest, public ::testing::WithParamInterface<Row> {};

TEST_P(GoldenWeightsTest, LoadsAndExportsTheSameBits) {
  const std::string folder = absl::StrCat("tests/golden/", GetParam().golden);
  EXPECT_GT(LoadAndExport(folder, GetParam().layout), 10);
}

INSTANTIATE_TEST_SUITE_P(
    All, GoldenWeightsTest,
    ::testing::Values(Row{"gpt2_inner", {"--mesh=tensor=3"}},
                      Row{"gpt2_inner", {"--mesh=data=2", "--zero=3"}},
                      Row{"gpt2_untied", {"--mesh=tensor=5"}},
                      Row{"llama_llama3_bias", {"--mesh=tensor=2"}},
                      Row{"llama_llama3_bias", {"--mesh=tensor=6"}},
                      Row{"llama_llama3_bias", {"--mesh=data=2,tensor=2", "--zero=1"}},
                      Row{"mistral_window", {"--mesh=tensor=4"}},
                      Row{"mistral_window", {"--mesh=tensor=4", "--tensor_layout=2d"}}));

// Writes a model's folder with the given tensors.
std::string WriteModel(const std::string& name, const nlohmann::json& config,
                       const std::map<std::string, HostTensor>& tensors) {
  FileSystem& files = RealFileSystem();
  const std::string folder = JoinPath(::testing::TempDir(), name);
  CHECK_OK(files.MakeDirs(folder));
  CHECK_OK(files.WriteFileAtomically(JoinPath(folder, "config.json"), config.dump()));
  std::vector<SafetensorsTensor> list;
  for (const auto& [tensor, values] : tensors) {
    const Dims& dims = values.type().dims;
    list.push_back({tensor, DType::kF32, {dims.begin(), dims.end()}});
  }
  auto writer = SafetensorsWriter::Begin(files, JoinPath(folder, "model.safetensors"), list);
  CHECK_OK(writer.status());
  for (const SafetensorsTensor& tensor : (*writer)->order()) {
    const HostTensor& values = tensors.at(tensor.name);
    CHECK_OK((*writer)->Append(tensor.name, {static_cast<const char*>(values.raw()),
                                             static_cast<size_t>(values.type().bytes())}));
  }
  CHECK_OK((*writer)->Finish());
  return folder;
}

// Other values for every element.
HostTensor Counting(Dims dims, double first) {
  HostTensor values(Type{DType::kF32, std::move(dims)});
  for (int64_t i = 0; i < values.type().elements(); ++i) {
    values.Set(i, first + static_cast<double>(i) / 64);
  }
  return values;
}

const StateShare* ShareOf(const Session& session, const std::string& name) {
  for (const StateShare& share : session.training->shares()) {
    if (share.info.name == name) return &share;
  }
  ADD_FAILURE() << "no part of " << name;
  return nullptr;
}

// What this rank's rows of the matrix [2, 2] add to x W for x = [1, 1].
std::vector<int64_t> ProductOfPart(Session& session, const std::string& name) {
  const StateShare* share = ShareOf(session, name);
  std::vector<float> values(static_cast<size_t>(share->piece.count));
  EXPECT_OK(ReadStateShare(session.training->program(), *share, share->piece, values.data()));
  std::vector<int64_t> y(2, 0);
  ForEachRun(share->piece, WholePiece(share->info.global_dims),
             [&](int64_t at, int64_t element, int64_t count) {
               for (int64_t i = 0; i < count; ++i) {
                 y[(element + i) % 2] += static_cast<int64_t>(values[at + i]);
               }
             });
  return y;
}

// C7. Hidden size 2: the projection [[1, 2], [3, 4]] with bias [10, 20] applied to [1, 1] gives
// [14, 26] ([13, 27] is the transposed one). The two buffers are passed over, and the fused
// query/key/value block is split within each of its parts.
TEST_F(WeightsRanksTest, C7_Gpt2OnTwoTensorRanks) {
  std::map<std::string, HostTensor> tensors = {
      {"wte.weight", Counting({5, 2}, 1)},
      {"wpe.weight", Counting({4, 2}, 2)},
      {"h.0.attn.c_attn.weight", Counting({2, 6}, 3)},
      {"h.0.attn.c_attn.bias", Counting({6}, 4)},
      {"h.0.attn.c_proj.weight", HostTensor::Of<float>({2, 2}, {1, 2, 3, 4})},
      {"h.0.attn.c_proj.bias", HostTensor::Of<float>({2}, {10, 20})},
      {"h.0.attn.bias", Counting({1, 1, 4, 4}, 0)},
      {"h.0.attn.masked_bias", HostTensor::Of<float>({1}, {-1e4})},
      {"h.0.mlp.c_fc.weight", Counting({2, 8}, 5)},
      {"h.0.mlp.c_fc.bias", Counting({8}, 6)},
      {"h.0.mlp.c_proj.weight", Counting({8, 2}, 7)},
      {"h.0.mlp.c_proj.bias", Counting({2}, 8)}};
  for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    tensors[absl::StrCat(norm, ".weight")] = Counting({2}, 1);
    tensors[absl::StrCat(norm, ".bias")] = Counting({2}, 9);
  }
  const nlohmann::json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                                 {"n_layer", 1},         {"n_head", 2},
                                 {"n_embd", 2},          {"vocab_size", 5},
                                 {"n_positions", 4}};
  const std::string folder = WriteModel("c7", config, tensors);
  const std::string block = "transformer.h.0.attn.";
  LoadAndExport(folder, {"--mesh=tensor=2"}, [&](Session& session, RankGroup group) {
    const std::vector<int64_t> own = ProductOfPart(session, block + "c_proj.weight");
    EXPECT_NE(own, (std::vector<int64_t>{4, 6}));  // not the whole product
    ASSERT_OK_AND_ASSIGN(const HostTensor bias,
                         ReadWholeState(*session.training, block + "c_proj.bias", group));
    for (int64_t j = 0; j < 2; ++j) {
      ASSERT_OK_AND_ASSIGN(const int64_t sum, group.Sum(own[j], "product"));
      EXPECT_EQ(static_cast<double>(sum) + bias.Get(j), j == 0 ? 14 : 26);
    }
    // [in, part, head, entry]: one head of each part.
    const StateShare* fused = ShareOf(session, block + "c_attn.weight");
    EXPECT_EQ(fused->info.global_dims, (Dims{2, 3, 2, 1}));
    EXPECT_EQ(fused->piece.extent, (Dims{2, 3, 1, 1}));
    EXPECT_EQ(fused->piece.origin, (Dims{0, 0, group.rank(), 0}));
  });
  // The export has "transformer." before the names; the buffers are not in it.
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsFile exported,
      SafetensorsFile::Open(RealFileSystem(), JoinPath(out_, "model/model.safetensors")));
  EXPECT_EQ(exported.entries().size(), tensors.size() - 2);
  for (const SafetensorsEntry& entry : exported.entries()) {
    const HostTensor& read = tensors.at(std::string(absl::StripPrefix(entry.name, "transformer.")));
    EXPECT_EQ(Dims(entry.dims.begin(), entry.dims.end()), read.type().dims) << entry.name;
    const auto bytes = *exported.data(entry.name);
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), read.type().bytes());
    EXPECT_EQ(std::memcmp(bytes.data(), read.raw(), bytes.size()), 0) << entry.name;
  }
}

// G3. Hidden size 64, 4 heads, 2 key/value heads, head size 32.
TEST_F(WeightsRanksTest, G3_ExplicitHeadSizeOnTwoTensorRanks) {
  const std::string block = "model.layers.0.";
  const std::map<std::string, Dims> dims = {{block + "self_attn.q_proj.weight", {128, 64}},
                                            {block + "self_attn.k_proj.weight", {64, 64}},
                                            {block + "self_attn.v_proj.weight", {64, 64}},
                                            {block + "self_attn.o_proj.weight", {64, 128}},
                                            {block + "mlp.gate_proj.weight", {20, 64}},
                                            {block + "mlp.up_proj.weight", {20, 64}},
                                            {block + "mlp.down_proj.weight", {64, 20}},
                                            {block + "input_layernorm.weight", {64}},
                                            {block + "post_attention_layernorm.weight", {64}},
                                            {"model.embed_tokens.weight", {13, 64}},
                                            {"lm_head.weight", {13, 64}},
                                            {"model.norm.weight", {64}}};
  std::map<std::string, HostTensor> tensors;
  int64_t parameters = 0, products = 0;
  for (const auto& [name, of] : dims) {
    tensors[name] = Counting(of, static_cast<double>(tensors.size()));
    parameters += ElementCount(of);
    if (of.size() == 2 && name != "model.embed_tokens.weight") products += ElementCount(of);
  }
  const nlohmann::json config = {
      {"model_type", "llama"},       {"num_hidden_layers", 1},   {"hidden_size", 64},
      {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"head_dim", 32},
      {"intermediate_size", 20},     {"vocab_size", 13},         {"max_position_embeddings", 16},
      {"tie_word_embeddings", false}};
  const std::string folder = WriteModel("g3", config, tensors);
  const int compared = LoadAndExport(folder, {"--mesh=tensor=2"}, [&](Session& session, RankGroup) {
    EXPECT_EQ(ParameterCount(session.model), parameters);
    const ModelSize size =
        SizeOfModel(session.model, session.training->parameters(), /*sequence_length=*/4);
    EXPECT_EQ(size.matmul_parameters, products);
    EXPECT_EQ(size.hidden, 128);
    // Half the heads: [head, entry, hidden] of q, and of o's columns.
    EXPECT_EQ(ShareOf(session, block + "self_attn.q_proj.weight")->piece.count, 64 * 64);
    EXPECT_EQ(ShareOf(session, block + "self_attn.k_proj.weight")->piece.count, 32 * 64);
    EXPECT_EQ(ShareOf(session, block + "self_attn.o_proj.weight")->piece.count, 64 * 64);
    int attentions = 0, rotaries = 0;
    for (const StepSegment& segment : session.training->program().step().segments) {
      const Graph& graph = *segment.segment.graph;
      for (const Node& node : graph.nodes()) {
        if (node.op->name() == "attention") {
          EXPECT_NEAR(node.attributes.Float("scale"), 0.176777, 1e-6);
          EXPECT_EQ(graph.value(node.operands[0]).type.dims[2], 2);  // heads of this rank
          ++attentions;
        }
        if (node.op->name() == "rotary") {
          EXPECT_EQ(graph.value(node.operands[0]).type.dims[3], 32);
          ++rotaries;
        }
      }
    }
    EXPECT_GT(attentions, 0);
    EXPECT_GT(rotaries, 0);
  });
  EXPECT_EQ(compared, static_cast<int>(dims.size()));
}

}  // namespace
}  // namespace colossus
