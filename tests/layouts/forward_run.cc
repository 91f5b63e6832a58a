#include "tests/layouts/forward_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/in_process.h"
#include "parallel/rank_graph.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tests/layouts/layout_run.h"

namespace colossus {
namespace {

absl::StatusOr<std::vector<HostTensor>> RankLogits(const ForwardRun& run, Device& device,
                                                   int rank) {
  const Dims& dims = run.ids[0].type().dims;
  const Plan plan = run.plan.OfStage(run.plan.StageOfRank(rank));
  ForwardOptions forward;
  forward.rows = dims[0] / plan.AxisSize("data");
  forward.length = dims[1];
  forward.loss = false;
  forward.logits = true;
  forward.packed = run.plan.packed;
  ASSIGN_OR_RETURN(RankProgram mine,
                   CompileForward(run.config, forward, run.plan, {}, device, rank));
  RETURN_IF_ERROR(SetRandomParameters(mine));
  const int64_t first = mine.place.mesh.Coordinate(mine.place.rank, "data") * forward.rows;
  const auto part = [&](const HostTensor& whole, int32_t padding) {
    if (whole.type().dims.empty()) return HostTensor();
    const HostTensor rows = CutOut(whole, {{first, 0}, {forward.rows, dims[1]}, dims});
    return PositionsOf(rows, padding, plan, mine.place);
  };
  const HostTensor positions = part(run.positions, 0), segments = part(run.segments, -1);
  std::vector<HostTensor> logits;
  for (const HostTensor& whole : run.ids) {
    const HostTensor ids = part(whole, 0);
    ASSIGN_OR_RETURN(Fetched fetched, mine.program->RunPhase(0, [&](absl::string_view name, int) {
      return name == "positions" ? &positions : name == "segments" ? &segments : &ids;
    }));
    logits.push_back(std::move(fetched.at({"logits", 0})));
  }
  return logits;
}

}  // namespace

absl::Status OnPlanRanks(const ModelConfig& config, const Plan& plan,
                         const std::function<absl::Status(Device&, int)>& body) {
  return RunRanks({.ranks = plan.ranks()}, [&](Communicator& world) -> absl::Status {
    SetThreads(1);
    ASSIGN_OR_RETURN(MeshPlace place, MeshPlace::Of(plan, config, world.rank()));
    MeshCommunicators communicators(place.mesh, world, place.first);
    CollectiveKernels kernels(communicators, CpuKernels());
    std::unique_ptr<Device> device = NewHostDevice({.kernels = kernels.list()});
    return body(*device, world.rank());
  });
}

absl::Status SetRandomParameters(RankProgram& run) {
  RETURN_IF_ERROR(run.program->Allocate());
  for (const LocalState& state : run.states) {
    HostTensor whole(Type{DType::kF32, state.info.global_dims});
    if (state.info.role == Role::kParameter) whole = RandomValues(state.info);
    RETURN_IF_ERROR(run.program->WriteState(state.info.name, CutOut(whole, state.slice)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostTensor>> LogitsOf(const ForwardRun& run) {
  std::vector<std::vector<HostTensor>> ranks(run.plan.ranks());
  RETURN_IF_ERROR(OnPlanRanks(run.config, run.plan, [&](Device& device, int rank) -> absl::Status {
    ASSIGN_OR_RETURN(ranks[rank], RankLogits(run, device, rank));
    return absl::OkStatus();
  }));
  for (const std::vector<HostTensor>& logits : ranks) {
    if (!(logits == ranks[0])) return absl::InternalError("logits differ between ranks");
  }
  return std::move(ranks[0]);
}

absl::StatusOr<std::vector<int>> TokensSeen(ForwardRun run) {
  CHECK_EQ(run.ids.size(), 1u);
  const HostTensor before = run.ids[0];
  const int64_t length = before.type().dims[1];
  for (int64_t token = 0; token < length; ++token) {
    HostTensor changed = before;
    const auto id = static_cast<int64_t>(before.Get(token));
    changed.Set(token, static_cast<double>((id + 1) % run.config.vocabulary));
    run.ids.push_back(std::move(changed));
  }
  ASSIGN_OR_RETURN(const std::vector<HostTensor> logits, LogitsOf(run));
  const std::vector<double> old = logits[0].ToDoubles();
  const int64_t width = run.config.vocabulary;
  std::vector<int> seen(static_cast<size_t>(length), 0);
  for (size_t pass = 1; pass < logits.size(); ++pass) {
    const std::vector<double> now = logits[pass].ToDoubles();
    for (int64_t t = 0; t < length; ++t) {
      const auto begin = old.begin() + width * t;
      seen[static_cast<size_t>(t)] += !std::equal(begin, begin + width, now.begin() + width * t);
    }
  }
  return seen;
}

}  // namespace colossus
