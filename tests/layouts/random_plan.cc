#include "tests/layouts/random_plan.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "parallel/mesh_text.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_list.h"
#include "shardformer/model.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  template <typename T>
  T OneOf(const std::vector<T>& values) {
    return values[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Between(0, i - 1)]);
  }

 private:
  std::mt19937_64 random_;
};

constexpr int64_t kMostRanks = 8;

// Axes of up to `most` ranks, in any order; those of size 1 are there or not.
std::vector<MeshAxis> RandomAxes(Dice& dice, int64_t most) {
  std::vector<MeshAxis> mesh = {{"data", 1}, {"tensor", 1}, {"sequence", 1}};
  dice.Shuffle(mesh);
  int64_t ranks = 1;
  for (MeshAxis& axis : mesh) {
    axis.size = dice.OneIn(2) ? 1 : dice.Between(1, most / ranks);
    ranks *= axis.size;
  }
  dice.Shuffle(mesh);
  if (dice.OneIn(2)) std::erase_if(mesh, [](const MeshAxis& axis) { return axis.size == 1; });
  return mesh;
}

// Up to eight ranks: two times in five of two to four stages.
std::vector<MeshAxis> RandomMesh(Dice& dice) {
  const int64_t stages = dice.Between(1, 5) <= 2 ? dice.Between(2, 4) : 1;
  std::vector<MeshAxis> mesh = RandomAxes(dice, kMostRanks / stages);
  if (stages > 1) mesh.insert(mesh.begin(), {"stage", stages});
  return mesh;
}

// Of a pipeline, one time in three: each stage has a mesh of its own, with at most so many ranks
// that all of them are not more than eight. Nine times in ten the rows of a micro-batch divide over
// all of them.
void DrawStageMeshes(Dice& dice, Plan& plan) {
  const int64_t stages = plan.AxisSize("stage");
  if (stages == 1 || !dice.OneIn(3)) return;
  std::vector<std::vector<MeshAxis>> meshes;
  for (int64_t s = 0; s < stages; ++s) meshes.push_back(RandomAxes(dice, kMostRanks / stages));
  plan.stages = StagesPlan(meshes, 1, 1, 1).stages;
  const int64_t data = plan.AxisSize("data"), all = plan.AxisMultiple("data");
  if (!dice.OneIn(10)) plan.micro_batch = dice.Between(1, 2) * (all / data);
}

// How the stages of a plan work: a schedule, chunks and micro-batches that are drawn again until
// they suit each other, nine times in ten.
void DrawSchedule(Dice& dice, Plan& plan) {
  if (plan.stages.size() == 1) return;
  const int64_t stages = plan.AxisSize("stage");
  const bool any = dice.OneIn(10);
  for (int tries = 0; tries < 20; ++tries) {
    plan.schedule = std::string(dice.OneOf(AllSchedules()).name);
    plan.chunks = dice.OneIn(3) ? static_cast<int>(dice.Between(1, 3)) : 0;
    plan.micro_batches = dice.Between(1, 2 * stages);
    if (any || plan.schedule == "searched") return;
    ScheduleInput input;
    input.shape = *ShapeOf(plan);
    if ((*FindSchedule(plan.schedule))->rules(input).ok()) return;
  }
}

// Enough for all parts of a pipeline, nine times in ten; embedding and head are blocks too.
int64_t RandomLayers(Dice& dice, const Plan& plan) {
  int64_t least = 1;
  if (plan.stages.size() > 1) {
    least = std::max<int64_t>(1, ShapeOf(plan)->parts() - (dice.OneIn(10) ? 3 : 2));
  }
  return dice.Between(least, least + 2);
}

// Of a pipeline, one time in three: uneven parts, in order nine times in ten.
void DrawBorders(Dice& dice, const ModelConfig& config, Plan& plan) {
  if (plan.stages.size() == 1 || !dice.OneIn(3)) return;
  std::vector<std::string> blocks = ModelBlocks(config);
  const int parts = ShapeOf(plan)->parts();
  if (static_cast<int>(blocks.size()) < parts) return;
  blocks.erase(blocks.begin());
  while (static_cast<int>(blocks.size()) > parts - 1) {
    blocks.erase(blocks.begin() + dice.Between(0, static_cast<int64_t>(blocks.size()) - 1));
  }
  if (dice.OneIn(10)) dice.Shuffle(blocks);
  plan.borders = blocks;
}

struct Heads {
  int64_t heads = 1, kv_heads = 1;
};

// Five times in six the axes split them.
Heads RandomHeads(Dice& dice, const Plan& plan, bool grouped) {
  Heads drawn;
  drawn.kv_heads = dice.Between(1, 4);
  drawn.heads = drawn.kv_heads * (grouped ? dice.Between(1, 3) : 1);
  if (dice.OneIn(6)) return drawn;
  const int64_t split =
      plan.AxisMultiple("tensor") *
      (plan.sequence == SequenceParallelism::kRing ? 1 : plan.AxisMultiple("sequence"));
  const int64_t times = dice.Between(1, 2);
  drawn.heads = split * times;
  // One for each part, or fewer that are repeated.
  std::vector<int64_t> kv = {drawn.heads, split};
  if (plan.same_meshes() && plan.AxisSize("tensor") % 2 == 0) {
    kv.push_back(plan.AxisSize("tensor") / 2);
  }
  drawn.kv_heads = grouped ? dice.OneOf(kv) : drawn.heads;
  return drawn;
}

// Norms of a few elements lose digits, so widths are 5 or more, of layer norms 8.
ModelConfig RandomModel(Dice& dice, const Plan& plan) {
  const std::string family = dice.OneOf<std::string>({"gpt2", "llama", "mistral", "qwen2"});
  const Heads heads = RandomHeads(dice, plan, family != "gpt2");
  const int64_t layers = RandomLayers(dice, plan), vocabulary = dice.Between(5, 41);
  const int64_t mlp = dice.Between(3, 29);
  nlohmann::json json = {{"vocab_size", vocabulary}, {"tie_word_embeddings", dice.OneIn(2)}};
  if (family == "gpt2") {
    json.merge_patch({{"n_layer", layers},
                      {"n_head", heads.heads},
                      {"n_embd", heads.heads * (7 / heads.heads + dice.Between(1, 3))},
                      {"n_inner", mlp},
                      {"n_positions", dice.Between(17, 23)}});
    for (const char* rate : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
      json[rate] = dice.OneIn(4) ? 0.0 : 0.2;
    }
    return SmallGpt2(json.dump());
  }
  json.merge_patch({{"num_hidden_layers", layers},
                    {"num_attention_heads", heads.heads},
                    {"num_key_value_heads", heads.kv_heads},
                    {"head_dim", 2 * dice.Between(1, 3)},
                    {"hidden_size", dice.Between(5, 23)},
                    {"intermediate_size", mlp},
                    {"attention_dropout", 0.2}});
  if (family == "llama" && dice.OneIn(3)) {
    json["attention_bias"] = json["mlp_bias"] = true;
    json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
    json["max_position_embeddings"] = dice.Between(3, 17);
    json["head_dim"] = 2 * dice.Between(2, 3);
  }
  if (family == "mistral") return SmallMistral(json.dump());
  return family == "llama" ? SmallLlama(json.dump()) : SmallQwen2(json.dump());
}

Precision RandomPrecision(Dice& dice) {
  const std::vector<Precision> narrow = {{DType::kBF16, DType::kBF16},
                                         {DType::kBF16, DType::kF32},
                                         {DType::kF16, DType::kF16},
                                         {DType::kF64, DType::kF64}};
  return dice.OneIn(3) ? dice.OneOf(narrow) : Precision{};
}

// How values lie on the axes, and in which order work is done: nothing that changes what is
// computed.
void DrawLayout(Dice& dice, Plan& plan) {
  plan.sequence =
      dice.OneOf<SequenceParallelism>({SequenceParallelism::kRing, SequenceParallelism::kAllToAll});
  plan.norms =
      dice.OneOf<NormLayout>({NormLayout::kAuto, NormLayout::kSharded, NormLayout::kReplicated});
  plan.recomputation =
      dice.OneOf<Recomputation>({Recomputation::kNone, Recomputation::kCheap,
                                 Recomputation::kSelective, Recomputation::kBlock});
  plan.zero = static_cast<int>(dice.Between(0, 3));
  if (plan.stages.size() == 1 && dice.OneIn(4)) {
    plan.accumulation_order = AccumulationOrder::kVertical;
  }
  if (dice.OneIn(3)) plan.chunk_elements = dice.Between(1, 3000);
  const auto is_square = [](const StagePlan& stage) {
    const int64_t tensor = SizeOfAxis(stage.mesh, "tensor");
    return tensor == 1 || tensor == 4;
  };
  const bool square = std::all_of(plan.stages.begin(), plan.stages.end(), is_square);
  if (dice.OneIn(square ? 2 : 8)) plan.tensor_layout = TensorLayout::k2d;
  const bool sharded = plan.norms == NormLayout::kSharded;
  const int64_t splits = plan.AxisMultiple("tensor") * plan.AxisMultiple("sequence");
  if (sharded && plan.padded_length() % splits != 0) {
    if (!dice.OneIn(8)) plan.norms = NormLayout::kAuto;  // most lengths do not divide
  }
}

void DrawNumbers(Dice& dice, Plan& plan) {
  plan.packed = dice.OneIn(3);
  plan.dropout = dice.OneIn(3);
  plan.precision = RandomPrecision(dice);
}

// Of one parameter or of all with its last words; axes that divide, four times in five.
ShardingOverride RandomOverride(Dice& dice, const ModelConfig& config, const Mesh& mesh) {
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(config);
  CHECK_OK(parameters.status());
  const StateInfo info = dice.OneOf(*parameters);
  ShardingOverride entry;
  entry.pattern = info.name;
  const size_t dot = info.name.rfind('.', info.name.rfind('.') - 1);
  if (dice.OneIn(2) && dot != std::string::npos) entry.pattern = "*" + info.name.substr(dot);
  entry.dims.resize(info.global_dims.size());
  const bool any = dice.OneIn(5);
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == "stage") continue;
    for (int tries = 0; tries < 3; ++tries) {
      const int64_t dim = dice.Between(0, static_cast<int64_t>(entry.dims.size()) - 1);
      AxisNames& axes = entry.dims[dim];
      axes.push_back(axis.name);
      if (any || info.global_dims[dim] % mesh.SizeOf(axes) == 0) break;
      axes.pop_back();
    }
    if (dice.OneIn(3)) break;
  }
  return entry;
}

// What nobody should ask for.
void Spoil(Dice& dice, LayoutRun& run) {
  switch (dice.Between(0, 6)) {
    case 0:
      run.plan.stages[0].ranks.push_back(run.plan.ranks());
      break;
    case 1:
      run.plan.sequence_length = 24;
      break;  // beyond a table of positions
    case 2:
      run.plan.overrides = {{"*.weight", {{"pipeline"}}}};
      break;
    case 3:
      run.plan.overrides = {{"no.such.*", {}}};
      break;
    case 4:
      run.plan.borders.push_back("h.77");
      break;  // of one stage, or one too many
    case 5:
      run.plan.chunks = 9;
      break;
    case 6:
      run.plan.overrides = {{"*.weight", {{"stage"}}}};
      break;
  }
}

std::string MeshesText(const Plan& plan) {
  if (plan.same_meshes()) return MeshText(plan.stages[0].mesh);
  std::vector<std::vector<MeshAxis>> meshes;
  for (const StagePlan& stage : plan.stages) meshes.push_back(stage.mesh);
  return StageMeshesText(meshes);
}

std::string StagesText(const Plan& plan) {
  std::string text;
  if (plan.stages.size() > 1) {
    text = absl::StrCat(" in ", plan.stages.size(), " stages ", plan.schedule);
  }
  if (plan.chunks > 0) absl::StrAppend(&text, " chunks=", plan.chunks);
  if (!plan.borders.empty()) absl::StrAppend(&text, " borders=", absl::StrJoin(plan.borders, ","));
  return text;
}

}  // namespace

LayoutRun RandomPlan(uint64_t seed) {
  Dice dice(seed);
  LayoutRun run;
  Plan& plan = run.plan;
  plan = LayoutPlan(RandomMesh(dice), dice.Between(1, 3), dice.Between(1, 3), dice.Between(1, 17));
  DrawStageMeshes(dice, plan);
  DrawSchedule(dice, plan);
  DrawLayout(dice, plan);
  DrawNumbers(dice, plan);
  run.config = RandomModel(dice, plan);
  DrawBorders(dice, run.config, plan);
  if (plan.precision.compute == DType::kF16) run.loss_scale = 1024;
  // Through many layers of large values rounding errors of f32 grow beyond what is equal too.
  if (SizeOf(plan.precision.compute) < 4 || run.config.layers > 4) run.values = FirstValues;
  run.clip_norm = 1;
  run.seed = seed;
  run.optimizer.kind = Optimizer::Kind::kSgd;
  const absl::StatusOr<Mesh> mesh = PlanMesh(plan, run.config);
  if (mesh.ok() && plan.same_meshes() && dice.OneIn(4)) {
    plan.overrides.push_back(RandomOverride(dice, run.config, *mesh));
  }
  if (dice.OneIn(25)) Spoil(dice, run);
  return run;
}

std::string PlanLine(const LayoutRun& run) {
  const ModelConfig& c = run.config;
  const Plan& plan = run.plan;
  std::string line = absl::StrCat(
      c.family, " layers=", c.layers, " hidden=", c.hidden, " heads=", c.heads, "/", c.kv_heads,
      "*", c.head_dim, " mlp=", c.mlp, " vocabulary=", c.vocabulary, " positions=", c.max_positions,
      c.tie_word_embeddings ? " tied" : "", "; mesh ", MeshesText(plan), " of ",
      plan.ranks(), StagesText(plan), " rows=", plan.micro_batch, "x", plan.micro_batches,
      " length=", plan.sequence_length, " ", Name(plan.precision.compute), "/",
      Name(plan.precision.gradient), " ", Name(plan.recomputation), " zero=", plan.zero,
      " chunk=", plan.chunk_elements, " ", Name(plan.accumulation_order), " ", Name(plan.sequence),
      " ", Name(plan.tensor_layout), " norms=", Name(plan.norms), plan.packed ? " packed" : "",
      plan.dropout ? " dropout" : "");
  for (const ShardingOverride& entry : plan.overrides) {
    absl::StrAppend(&line, "; override ", entry.pattern);
    for (const AxisNames& axes : entry.dims) {
      absl::StrAppend(&line, " [", absl::StrJoin(axes, ","), "]");
    }
  }
  return line;
}

}  // namespace colossus
