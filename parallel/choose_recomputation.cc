#include "parallel/choose_recomputation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/rank_graph.h"
#include "tensor/exec/disk/null_disk_tier.h"
#include "tensor/exec/disk_tier.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/collective_kernels.h"

namespace colossus {
namespace {

// From the one that computes least to the one that keeps least.
constexpr Recomputation kWays[] = {Recomputation::kNone, Recomputation::kCheap,
                                   Recomputation::kSelective, Recomputation::kBlock};

struct Predicted {
  double seconds = 0;
  bool moves = false;  // anything over the link
};

absl::StatusOr<Predicted> PredictRank(const ModelConfig& config, const Plan& plan,
                                      const TrainingOptions& options, const Device& device,
                                      int rank) {
  ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(plan, config, rank));
  const CollectiveKernels kernels(place.mesh, device.kernels());  // of ranks that are not there
  NullDeviceOptions null;
  null.memory_bytes = device.capacity_bytes();
  null.threads = device.threads();
  null.kernels = kernels.list();
  null.copy_bytes_per_second = options.compile.program.transfer_rates.link_bytes_per_second;
  const std::unique_ptr<Device> virtual_device = NewNullDevice(null);
  ASSIGN_OR_RETURN(CompiledTraining training,
                   CompileTraining(config, plan, options, *virtual_device, rank));
  RETURN_IF_ERROR(training.program->Allocate());
  Predicted predicted;
  const double start = virtual_device->clock().Seconds();
  for (int phase : {kAccumulatePhase, kMeasurePhase, kUpdatePhase}) {
    const FeedFunction nothing = [](absl::string_view, int) -> const HostTensor* {
      return nullptr;
    };
    RETURN_IF_ERROR(training.program->RunPhase(phase, nothing).status());
  }
  predicted.moves = BytesOverLink(*training.program) > 0;
  predicted.seconds = virtual_device->clock().Seconds() - start;
  return predicted;
}

// Of the slowest stage, since all wait for it.
absl::StatusOr<Predicted> Predict(const ModelConfig& config, const Plan& plan,
                                  const TrainingOptions& options, const Device& device) {
  Predicted slowest;
  for (const StagePlan& stage : plan.stages) {
    ASSIGN_OR_RETURN(const Predicted predicted,
                     PredictRank(config, plan, options, device, stage.ranks[0]));
    slowest.moves = slowest.moves || predicted.moves;
    slowest.seconds = std::max(slowest.seconds, predicted.seconds);
  }
  return slowest;
}

// Tries plans that differ in recomputation, and remembers the best.
class Chooser {
 public:
  Chooser(const ModelConfig& config, const Plan& plan, const TrainingOptions& options,
          const Device& device)
      : config_(config), way_(plan), options_(options), device_(device), best_(plan) {
    options_.compile.dump_graphs.clear();
    std::shared_ptr<DiskTier>& disk = options_.compile.program.disk;
    if (disk != nullptr) disk = NewNullDiskTier(*disk);
    options_.validation = false;
    // A searched order is fitted to the device when this has been chosen.
    if (!options_.pipeline.room) options_.pipeline.room.emplace();
  }

  // False: nothing need be made again or moved, so that nothing more need be tried.
  absl::StatusOr<bool> TryUniform() {
    for (Recomputation recomputation : kWays) {
      way_.recomputation = recomputation;
      ASSIGN_OR_RETURN(const Outcome outcome, Try());
      uniform_.emplace_back(recomputation, outcome);
      if (!outcome.fits || outcome.moves) continue;
      // What comes computes more and saves nothing.
      return recomputation != Recomputation::kNone;
    }
    return true;
  }

  // Of budgets between the least and keeping all, each larger by the same factor: a few, then those
  // around the fastest. Keeping what can be moved may be as good as making much again, and what
  // lies between worse than both.
  absl::Status TryBudgets() {
    ASSIGN_OR_RETURN(bytes_, BytesOfLayers(config_, way_, options_.compile));
    way_.recomputation = Recomputation::kOptimal;
    ASSIGN_OR_RETURN(Outcome fastest, TryShare(kShares));
    if (fastest.fits && !fastest.moves) return absl::OkStatus();
    int best = kShares;
    auto try_share = [&](int share) -> absl::Status {
      if (share < 0 || share > kShares) return absl::OkStatus();
      ASSIGN_OR_RETURN(const Outcome outcome, TryShare(share));
      if (outcome.seconds >= fastest.seconds) return absl::OkStatus();
      fastest = outcome;
      best = share;
      return absl::OkStatus();
    };
    for (int share = 0; share < kShares; share += kStep) RETURN_IF_ERROR(try_share(share));
    for (int step = kStep / 2; step > 0; step /= 2) {
      const int around = best;
      RETURN_IF_ERROR(try_share(around - step));
      RETURN_IF_ERROR(try_share(around + step));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RecomputationChoice> Best(Recomputation given) const {
    if (seconds_ < kNever) return RecomputationChoice{best_, Why(given)};
    return refused_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr int kShares = 64, kStep = 8;

  struct Outcome {
    bool fits = false, moves = false;
    double seconds = kNever;
  };

  static std::string TextOf(const Outcome& outcome) {
    return outcome.fits ? absl::StrFormat("%.4g s", outcome.seconds) : "does not fit";
  }

  // What was chosen beside the others that were tried, of budgets beside the best of them.
  std::string Why(Recomputation given) const {
    const bool budget = best_.recomputation == Recomputation::kOptimal;
    std::vector<std::string> others;
    for (const auto& [recomputation, outcome] : uniform_) {
      if (recomputation == best_.recomputation) continue;
      others.push_back(absl::StrCat(Name(recomputation), " ", TextOf(outcome)));
    }
    Outcome best_budget;
    for (const auto& [share, outcome] : tried_) {
      if (outcome.fits && outcome.seconds < best_budget.seconds) best_budget = outcome;
    }
    if (!tried_.empty()) {
      others.push_back(budget ? absl::StrCat("the best of ", tried_.size(), " budgets")
                              : absl::StrCat("the best of ", tried_.size(), " budgets ",
                                             TextOf(best_budget)));
    }
    return absl::StrFormat(
        "recompute=%s chose %s%s: %.4g s an update as predicted%s%s", Name(given),
        Name(best_.recomputation),
        budget ? absl::StrCat(" with a budget of ", best_.recompute_budget_bytes, " bytes") : "",
        seconds_, others.empty() ? ", where all fits and nothing moves" : "; ",
        absl::StrJoin(others, ", "));
  }

  absl::StatusOr<Outcome> TryShare(int share) {
    auto [known, added] = tried_.try_emplace(share);
    if (!added) return known->second;
    const double ratio = static_cast<double>(bytes_.all) / static_cast<double>(bytes_.least);
    way_.recompute_budget_bytes = static_cast<int64_t>(
        static_cast<double>(bytes_.least) * std::pow(ratio, 1.0 * share / kShares));
    ASSIGN_OR_RETURN(known->second, Try());
    return known->second;
  }

  absl::StatusOr<Outcome> Try() {
    const absl::StatusOr<Predicted> predicted = Predict(config_, way_, options_, device_);
    if (!predicted.ok()) {
      if (!absl::IsResourceExhausted(predicted.status())) return predicted.status();
      refused_ = predicted.status();
      return Outcome{};
    }
    if (predicted->seconds < seconds_) {
      seconds_ = predicted->seconds;
      best_ = way_;
    }
    return Outcome{true, predicted->moves, predicted->seconds};
  }

  const ModelConfig& config_;
  Plan way_;
  TrainingOptions options_;
  const Device& device_;
  Plan best_;
  double seconds_ = kNever;
  absl::Status refused_ = absl::InternalError("nothing was tried");
  LayerBytes bytes_;
  std::vector<std::pair<Recomputation, Outcome>> uniform_;  // one way for all layers
  std::map<int, Outcome> tried_;  // by share
};

}  // namespace

bool IsChosen(const Plan& plan) {
  return plan.recomputation == Recomputation::kAuto ||
         (plan.recomputation == Recomputation::kOptimal && plan.recompute_budget_bytes == 0);
}

absl::StatusOr<RecomputationChoice> ChooseRecomputation(const ModelConfig& config, const Plan& plan,
                                                        const TrainingOptions& options,
                                                        const Device& device) {
  Chooser chooser(config, plan, options, device);
  bool budgets = true;
  if (plan.recomputation == Recomputation::kAuto) {
    ASSIGN_OR_RETURN(budgets, chooser.TryUniform());
  }
  // Layers are planned as one chain, which stages cut.
  if (budgets && plan.stages.size() == 1) RETURN_IF_ERROR(chooser.TryBudgets());
  return chooser.Best(plan.recomputation);
}

}  // namespace colossus
