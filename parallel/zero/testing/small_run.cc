#include "parallel/zero/testing/small_run.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/in_process.h"
#include "parallel/check_copies.h"
#include "parallel/rank_graph.h"
#include "parallel/update_graph.h"
#include "parallel/zero/held_ranges.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

std::vector<double> RandomValues(const std::string& name, uint64_t seed, int64_t count) {
  for (char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(random() % 4096) / 2048 - 1);
  }
  return values;
}

HostTensor TensorOf(const Type& type, const std::vector<double>& values) {
  HostTensor tensor(type);
  CHECK_EQ(static_cast<int64_t>(values.size()), type.elements());
  for (size_t i = 0; i < values.size(); ++i) tensor.Set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

// Elements of a state as one rank holds them.
struct HeldBytes {
  LocalState state;
  HeldRange range;
  std::vector<char> bytes;
};

// What one rank brings back.
struct RankResult {
  std::vector<double> sum_squares;
  std::map<std::string, HostTensor> gradients;
  std::vector<HeldBytes> held;
  std::map<std::string, CollectiveCounts> counts;
  int64_t state_bytes = 0, device_bytes = 0;
};

// One rank's side of a run.
class SmallRank {
 public:
  SmallRank(const SmallRun& run, Communicator& world)
      : run_(run),
        rank_(world.rank()),
        communicators_(run.model.mesh, world),
        kernels_(communicators_, ReferenceKernels()) {}

  absl::Status Run(RankResult& result) {
    SetThreads(1);
    RETURN_IF_ERROR(Compile());
    RETURN_IF_ERROR(SetStates());
    for (int update = 0; update < run_.updates; ++update) {
      RETURN_IF_ERROR(Update(update, result));
    }
    result.counts = communicators_.counts();
    if (run_.before_check != nullptr) RETURN_IF_ERROR(run_.before_check(rank_, *program_));
    RETURN_IF_ERROR(CheckCopies(*program_, JobStates(), training_.zero, communicators_));
    result.state_bytes = program_->plan().state_bytes;
    result.device_bytes = program_->plan().device_bytes;
    return ReadStates(result);
  }

 private:
  absl::Status Compile() {
    SmallLocal local = MakeLocal(run_.model, rank_);
    training_.local = std::move(local.local);
    training_.parameters = std::move(local.gradients);
    training_.place.mesh = run_.model.mesh;
    training_.place.rank = rank_;
    if (ZeroLayout::Applies(run_.model.mesh)) {
      ASSIGN_OR_RETURN(
          training_.zero,
          ZeroLayout::Make(
              training_.local, training_.parameters, run_.model.mesh, rank_,
              {run_.plan.zero, run_.plan.precision.compute, run_.plan.chunk_elements}));
    }
    if (run_.late) {
      CappedDeviceOptions options;
      options.memory_bytes = 1 << 24;
      options.kernels = kernels_.list();
      options.late_seed = static_cast<uint64_t>(rank_) + 1;
      ASSIGN_OR_RETURN(device_, NewCappedDevice(options));
    } else {
      device_ = NewHostDevice({.threads = 1, .kernels = kernels_.list()});
    }
    TrainingOptions options;
    options.optimizer = run_.optimizer;
    options.fetch_gradients = run_.fetch_gradients;
    options.compile.program.poison = true;
    options.compile.program.overlap = run_.overlap;
    if (run_.set_program != nullptr) run_.set_program(rank_, options.compile.program);
    StepBuilder builder({"accumulate", "measure", "update"});
    RETURN_IF_ERROR(AddTrainingCalls(training_, run_.plan, options, *device_, builder));
    ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
    ASSIGN_OR_RETURN(program_,
                     Program::Compile(std::move(step), *device_, options.compile.program));
    return program_->Allocate();
  }

  // States of the job: a parameter's and those of its optimizer, as this rank's part.
  std::vector<LocalState> JobStates() const {
    std::vector<LocalState> states;
    for (const LocalState& parameter : training_.local.states) {
      bool updated = false;
      for (const ParameterGradients& own : training_.parameters) {
        updated = updated || own.state == parameter.info.name;
      }
      for (Role role : StateRoles(run_.optimizer, parameter.type.dtype)) {
        if (!updated && role != Role::kParameter) continue;
        LocalState state = parameter;
        state.info.name = StateName(role, parameter.info.name);
        state.info.role = role;
        state.type.dtype = StateDType(run_.optimizer, role, parameter.type.dtype);
        states.push_back(std::move(state));
      }
    }
    return states;
  }

  absl::Status SetStates() {
    for (const StateHome& home : program_->plan().states) {
      RETURN_IF_ERROR(program_->WriteState(home.info.name, HostTensor(home.type)));
    }
    for (const LocalState& state : JobStates()) {
      if (state.info.role != Role::kParameter && state.info.role != Role::kMaster) continue;
      const std::string name(ParameterName(state.info.role, state.info.name));
      const Type whole{state.type.dtype, state.info.global_dims};
      const HostTensor values =
          CutOut(TensorOf(whole, run_.values ? run_.values(name)
                                             : RandomValues(name, 1, whole.elements())),
                 state.slice);
      for (const HeldRange& range : HeldRanges(training_.zero, state, run_.model.mesh, rank_)) {
        const int64_t size = SizeOf(state.type.dtype);
        RETURN_IF_ERROR(program_->WriteStateBytes(
            range.home, range.home_first * size,
            static_cast<const char*>(values.raw()) + range.first * size, range.count * size));
      }
    }
    return absl::OkStatus();
  }

  // Ranks that have the same summand have the same place.
  std::string PlaceOf(const std::string& output) const {
    const Sharding& sharding = training_.local.outputs.at(output);
    std::string place;
    auto add = [&](const AxisNames& axes) {
      for (const std::string& axis : axes) {
        absl::StrAppend(&place, "/", axis, run_.model.mesh.Coordinate(rank_, axis));
      }
    };
    for (const AxisNames& axes : sharding.dims) add(axes);
    add(sharding.partial);
    return place;
  }

  void FeedGradients(int update) {
    feeds_.clear();
    for (const ParameterGradients& parameter : training_.parameters) {
      for (const std::string& output : parameter.outputs) {
        const Graph& graph = training_.local.graph;
        const Type& type = graph.value(graph.FindOutput(output)).type;
        for (int m = 0; m < static_cast<int>(run_.plan.micro_batches); ++m) {
          const std::vector<double> values =
              run_.gradient ? run_.gradient(output, rank_, m, update)
                            : RandomValues(absl::StrCat(output, PlaceOf(output), "/", m),
                                           static_cast<uint64_t>(update) + 2, type.elements());
          feeds_[{GradientFeed(output), m}] = TensorOf(type, values);
        }
      }
    }
    for (int m = 0; m < static_cast<int>(run_.plan.micro_batches); ++m) {
      feeds_[{kLossFeed, m}] = HostTensor(Type{DType::kF32, {}});
    }
    const double count = update + 1;
    const std::pair<const char*, double> scalars[] = {
        {"learning_rate", run_.learning_rate},
        {"grad_scale", run_.grad_scale},
        {"correction1", 1 - std::pow(run_.optimizer.beta1, count)},
        {"correction2", 1 - std::pow(run_.optimizer.beta2, count)}};
    for (const auto& [name, value] : scalars) {
      feeds_[{name, -1}] = TensorOf({MasterDType(run_.plan.precision.compute), {}}, {value});
    }
    feeds_[{"rounding_key", -1}] = HostTensor::Of<int64_t>({2}, {7, update});
  }

  absl::Status Update(int update, RankResult& result) {
    FeedGradients(update);
    const FeedFunction feeds = [&](absl::string_view name, int m) -> const HostTensor* {
      auto found = feeds_.find({std::string(name), m});
      return found == feeds_.end() ? nullptr : &found->second;
    };
    RETURN_IF_ERROR(program_->RunPhase(kAccumulatePhase, feeds).status());
    ASSIGN_OR_RETURN(Fetched measured, program_->RunPhase(kMeasurePhase, feeds));
    result.sum_squares.push_back(measured.at({"sum_squares", -1}).Get(0));
    for (const ParameterGradients& parameter : training_.parameters) {
      if (!run_.fetch_gradients) break;
      const bool alone = run_.model.mesh.ranks() == 1;
      result.gradients[parameter.state] = measured.at(
          {alone ? GradientName(parameter.state) : WholeGradientName(parameter.state), -1});
    }
    return program_->RunPhase(kUpdatePhase, feeds).status();
  }

  absl::Status ReadStates(RankResult& result) {
    for (const LocalState& state : JobStates()) {
      const int64_t size = SizeOf(state.type.dtype);
      for (const HeldRange& range : HeldRanges(training_.zero, state, run_.model.mesh, rank_)) {
        result.held.push_back({state, range, {}});
        std::vector<char>& bytes = result.held.back().bytes;
        bytes.resize(static_cast<size_t>(range.count * size));
        RETURN_IF_ERROR(program_->ReadStateBytes(range.home, range.home_first * size, bytes.data(),
                                                 range.count * size));
      }
    }
    return absl::OkStatus();
  }

  const SmallRun& run_;
  const int rank_;
  MeshCommunicators communicators_;
  CollectiveKernels kernels_;
  std::unique_ptr<Device> device_;
  LocalTraining training_;
  std::unique_ptr<Program> program_;
  std::map<std::pair<std::string, int>, HostTensor> feeds_;
};

int64_t GlobalIndex(const LocalState& state, int64_t local) {
  int64_t at = 0, step = 1;
  for (size_t d = state.slice.extent.size(); d-- > 0;) {
    at += (state.slice.origin[d] + local % state.slice.extent[d]) * step;
    local /= state.slice.extent[d];
    step *= state.slice.global[d];
  }
  return at;
}

// Whole states, of which each element has one owner and the same bits wherever it is.
class Whole {
 public:
  absl::Status Put(const HeldBytes& held, std::map<std::string, HostTensor>& states) {
    const LocalState& state = held.state;
    const size_t size = static_cast<size_t>(SizeOf(state.type.dtype));
    HostTensor& whole =
        states.try_emplace(state.info.name, Type{state.type.dtype, state.info.global_dims})
            .first->second;
    std::vector<Seen>& seen = seen_[state.info.name];
    seen.resize(static_cast<size_t>(whole.type().elements()));
    for (int64_t i = 0; i < held.range.count; ++i) {
      const int64_t at = GlobalIndex(state, held.range.first + i);
      char* const to = static_cast<char*>(whole.raw()) + at * static_cast<int64_t>(size);
      const char* const from = held.bytes.data() + i * static_cast<int64_t>(size);
      Seen& own = seen[static_cast<size_t>(at)];
      if (own.holders++ > 0 && std::memcmp(to, from, size) != 0) {
        return absl::InternalError(
            absl::StrCat(state.info.name, ": element ", at, " differs between ranks"));
      }
      own.owners += held.range.owner;
      std::memcpy(to, from, size);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOwners() const {
    for (const auto& [name, seen] : seen_) {
      for (size_t i = 0; i < seen.size(); ++i) {
        if (seen[i].owners == 1) continue;
        return absl::InternalError(
            absl::StrCat(name, ": element ", i, " has ", seen[i].owners, " owners"));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Seen {
    int holders = 0, owners = 0;
  };
  std::map<std::string, std::vector<Seen>> seen_;
};

}  // namespace

absl::StatusOr<SmallResult> RunSmall(const SmallRun& run) {
  std::vector<RankResult> ranks(static_cast<size_t>(run.model.mesh.ranks()));
  RETURN_IF_ERROR(RunRanks({.ranks = run.model.mesh.ranks()}, [&](Communicator& world) {
    return SmallRank(run, world).Run(ranks[static_cast<size_t>(world.rank())]);
  }));
  SmallResult result;
  result.sum_squares = ranks[0].sum_squares;
  result.gradients = ranks[0].gradients;
  Whole whole;
  for (const RankResult& rank : ranks) {
    if (rank.sum_squares != result.sum_squares || rank.gradients != result.gradients) {
      return absl::InternalError("ranks have different norms or gradients");
    }
    for (const HeldBytes& held : rank.held) RETURN_IF_ERROR(whole.Put(held, result.states));
    result.counts.push_back(rank.counts);
    result.state_bytes.push_back(rank.state_bytes);
    result.device_bytes.push_back(rank.device_bytes);
  }
  RETURN_IF_ERROR(whole.CheckOwners());
  return result;
}

}  // namespace colossus
