#include "tests/layouts/layout_run.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/in_process.h"
#include "parallel/rank_graph.h"
#include "parallel/time_pipeline.h"
#include "parallel/zero/held_ranges.h"
#include "shardformer/initialize.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

// What one rank brings back.
struct RankResult {
  LayoutResult result;  // states: this rank's parts
  std::vector<LocalState> states;
  std::map<std::string, std::vector<HeldRange>> held;  // what of its parts it really has
};

void RandomRow(const LayoutRun& run, int64_t row, std::vector<int32_t>& ids,
               std::vector<int32_t>& labels, std::vector<int32_t>& positions,
               std::vector<int32_t>& segments) {
  std::mt19937_64 random(run.seed * 1000 + static_cast<uint64_t>(row));
  const int64_t length = run.plan.sequence_length, border = (length + 1) / 3;
  for (int64_t t = 0; t < length; ++t) {
    ids[t] = static_cast<int32_t>(random() % run.config.vocabulary);
    labels[t] = static_cast<int32_t>(random() % run.config.vocabulary);
    if (random() % 8 == 0) labels[t] = -100;
    positions[t] = static_cast<int32_t>(t < border ? t : t - border);
    segments[t] = t < border ? 0 : 1;
  }
}

// Rows [first, first + rows) of the global batch.
MicroBatch MakeRows(const LayoutRun& run, int64_t first, int64_t rows) {
  const int64_t length = run.plan.sequence_length;
  const Type type{DType::kI32, {rows, length}};
  MicroBatch batch{HostTensor(type), HostTensor(type), HostTensor(type), HostTensor(type), 0};
  std::vector<int32_t> values[4];
  for (std::vector<int32_t>& list : values) list.resize(length);
  for (int64_t r = 0; r < rows; ++r) {
    if (run.row)
      run.row(first + r, values[0], values[1], values[2], values[3]);
    else
      RandomRow(run, first + r, values[0], values[1], values[2], values[3]);
    if (run.all_rows > 0 && first + r >= run.all_rows) {
      values[1].assign(static_cast<size_t>(length), -100);
    }
    HostTensor* const tensors[] = {&batch.input_ids, &batch.labels, &batch.positions,
                                   &batch.segments};
    for (int i = 0; i < 4; ++i) {
      std::copy(values[i].begin(), values[i].end(),
                tensors[i]->data<int32_t>().begin() + r * length);
    }
  }
  return batch;
}

UpdateInput InputOf(const LayoutRun& run, const MeshPlace& place, int update) {
  UpdateInput input;
  const Plan plan = run.plan.OfStage(place.stage());
  const int64_t place_of_rows = place.mesh.Coordinate(place.rank, "data");
  const int64_t global = plan.micro_batch * plan.AxisSize("data");
  for (int64_t m = 0; m < plan.micro_batches; ++m) {
    const int64_t first = m * global, all = update * plan.rows();
    if (run.all_rows > 0 && all + first >= run.all_rows) break;
    input.micro_batches.push_back(
        MakeRows(run, all + first + place_of_rows * plan.micro_batch, plan.micro_batch));
    input.micro_batches.back().first_row = first;
  }
  input.learning_rate = run.learning_rate;
  input.clip_norm = run.clip_norm;
  input.loss_scale = run.loss_scale;
  input.applied = input.step = update;
  input.seed = run.seed;
  return input;
}

absl::Status TrainRank(const LayoutRun& run, Communicator& world, RankResult& mine) {
  SetThreads(1);
  ASSIGN_OR_RETURN(MeshPlace place, MeshPlace::Of(run.plan, run.config, world.rank()));
  MeshCommunicators communicators(place.mesh, world, place.first);
  CollectiveKernels kernels(communicators, CpuKernels());
  std::unique_ptr<Device> device =
      run.device ? run.device(world.rank(), kernels.list())
                 : NewHostDevice({.threads = 1,
                                  .kernels = kernels.list(),
                                  .overlap = place.several_stages()});
  TrainingOptions options;
  options.optimizer = run.optimizer;
  options.fetch_gradients = true;
  options.compile.program.poison = true;
  options.compile.program.overlap = run.overlap;
  if (run.change_options) run.change_options(world.rank(), options);
  const RankContext context = {world.rank(), &communicators};
  if (run.trial) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<TrainingProgram> trial,
        TrainingProgram::Make(run.config, run.plan, options, *device, context));
    RETURN_IF_ERROR(PrepareTrial(*trial));
    ASSIGN_OR_RETURN(options.pipeline.measured,
                     TimePipeline(*trial, run.config.vocabulary, world));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingProgram> training,
                   TrainingProgram::Make(run.config, run.plan, options, *device, context));
  RETURN_IF_ERROR(training->Allocate());
  for (const StateInfo& info : training->parameters()) {
    RETURN_IF_ERROR(
        training->SetParameter(info.name, run.values ? run.values(info) : RandomValues(info)));
  }
  for (int update = 0; update < run.updates; ++update) {
    ASSIGN_OR_RETURN(UpdateResult result, training->RunUpdate(InputOf(run, place, update)));
    mine.result.losses.push_back(result.loss);
    mine.result.norms.push_back(result.grad_norm);
    mine.result.skipped.push_back(result.skipped);
    if (update != run.gradients_of) continue;
    for (const auto& [key, value] : result.gradients) {
      std::vector<double>& mean = mine.result.gradients[key.first];
      mean = value.ToDoubles();
      for (double& x : mean) x *= result.gradient_scale;
    }
  }
  mine.states = training->local_states();
  for (const LocalState& state : mine.states) {
    HostTensor& part = mine.result.states[state.info.name] = HostTensor(state.type);
    std::vector<HeldRange>& held = mine.held[state.info.name];
    held = HeldRanges(training->zero(), state, place.mesh, place.rank);
    const int64_t size = SizeOf(state.type.dtype);
    for (const HeldRange& range : held) {
      RETURN_IF_ERROR(training->program().ReadStateBytes(
          range.home, range.home_first * size, static_cast<char*>(part.raw()) + range.first * size,
          range.count * size));
    }
  }
  return absl::OkStatus();
}

// Copies a rank's part into the whole; where another rank's was before, they must agree.
absl::Status Put(const LocalState& state, const HostTensor& part, const HeldRange& held,
                 HostTensor& whole, std::vector<bool>& there) {
  const Dims strides = RowMajorStrides(whole.type().dims);
  const size_t size = SizeOf(whole.type().dtype);
  for (int64_t i = held.first; i < held.first + held.count; ++i) {
    int64_t rest = i, at = 0;
    bool inside = true;
    for (size_t d = state.slice.extent.size(); d-- > 0;) {
      const int64_t index = state.slice.origin[d] + rest % state.slice.extent[d];
      inside = inside && index < whole.type().dims[d];
      at += index * strides[d];
      rest /= state.slice.extent[d];
    }
    const char* from = static_cast<const char*>(part.raw()) + i * size;
    if (!inside) {
      if (part.Get(i) == 0) continue;
      return absl::InternalError(absl::StrCat("'", state.info.name, "': padding is not zero"));
    }
    char* to = static_cast<char*>(whole.raw()) + at * size;
    if (there[at] && std::memcmp(to, from, size) != 0) {
      return absl::InternalError(
          absl::StrCat("'", state.info.name, "': element ", at, " differs between ranks"));
    }
    std::memcpy(to, from, size);
    there[at] = true;
  }
  return absl::OkStatus();
}

// NaN too.
bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

absl::StatusOr<LayoutResult> PutTogether(const std::vector<RankResult>& ranks) {
  LayoutResult all = ranks[0].result;
  all.states.clear();
  for (const RankResult& rank : ranks) {
    if (!SameBits(rank.result.losses, all.losses) || !SameBits(rank.result.norms, all.norms) ||
        rank.result.skipped != all.skipped || rank.result.gradients != all.gradients) {
      return absl::InternalError("ranks report different losses, norms or gradients");
    }
  }
  std::map<std::string, LocalState> states;  // of all stages
  for (const RankResult& rank : ranks) {
    for (const LocalState& state : rank.states) states.emplace(state.info.name, state);
  }
  for (const auto& [name, state] : states) {
    HostTensor whole(Type{state.type.dtype, state.info.global_dims});
    std::vector<bool> there(whole.type().elements(), false);
    for (const RankResult& rank : ranks) {
      for (const LocalState& own : rank.states) {
        if (own.info.name != name) continue;
        for (const HeldRange& range : rank.held.at(name)) {
          RETURN_IF_ERROR(Put(own, rank.result.states.at(name), range, whole, there));
        }
      }
    }
    for (size_t i = 0; i < there.size(); ++i) {
      if (!there[i]) return absl::InternalError(absl::StrCat("'", name, "': nobody has ", i));
    }
    all.states[name] = std::move(whole);
  }
  return all;
}

}  // namespace

HostTensor RandomValues(const StateInfo& info) {
  HostTensor values(Type{DType::kF32, info.global_dims});
  uint64_t seed = 1;
  for (char c : info.name) seed = seed * 131 + static_cast<unsigned char>(c);
  std::mt19937_64 random(seed);
  const double around = info.init.kind == Initializer::Kind::kConstant ? info.init.value : 0;
  for (float& x : values.data<float>()) {
    x = static_cast<float>(around + 0.8 * (static_cast<double>(random() % 4096) / 4096 - 0.5));
  }
  return values;
}

HostTensor FirstValues(const StateInfo& info) {
  return InitialValue(info, DType::kF32, /*seed=*/1);
}

absl::StatusOr<LayoutResult> Train(const LayoutRun& run) {
  std::vector<RankResult> ranks(run.plan.ranks());
  RETURN_IF_ERROR(RunRanks({.ranks = run.plan.ranks()}, [&](Communicator& world) {
    return TrainRank(run, world, ranks[world.rank()]);
  }));
  return PutTogether(ranks);
}

Plan LayoutPlan(std::vector<MeshAxis> mesh, int64_t micro_batch, int64_t micro_batches,
                int64_t length) {
  Plan plan;
  plan.micro_batch = micro_batch;
  plan.micro_batches = micro_batches;
  plan.sequence_length = length;
  int64_t stages = 1;
  if (!mesh.empty() && mesh[0].name == "stage") {
    stages = mesh[0].size;
    mesh.erase(mesh.begin());
  }
  int ranks = 1, next = 0;
  for (const MeshAxis& axis : mesh) ranks *= static_cast<int>(axis.size);
  plan.stages.clear();
  for (int64_t s = 0; s < stages; ++s) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.mesh = mesh;
    stage.ranks.clear();
    for (int r = 0; r < ranks; ++r) stage.ranks.push_back(next++);
  }
  return plan;
}

Plan StagesPlan(const std::vector<std::vector<MeshAxis>>& meshes, int64_t micro_batch,
                int64_t micro_batches, int64_t length) {
  Plan plan = LayoutPlan({}, micro_batch, micro_batches, length);
  plan.stages.clear();
  int next = 0;
  for (const std::vector<MeshAxis>& mesh : meshes) {
    StagePlan stage = LayoutPlan(mesh, 1, 1, 1).stages[0];
    for (int& rank : stage.ranks) rank = next++;
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace colossus
