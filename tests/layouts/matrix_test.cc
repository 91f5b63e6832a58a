// The layout matrix: every mesh of 1 to 8 ranks over data, tensor and sequence × ZeRO stage ×
// micro-batches × recomputation × how positions and products are split × precision, for two
// families, one of them also with few key/value heads.
//
// A subset in which every pair of choices stands beside each other once at least; all of it with
// COLOSSUS_LAYOUTS=all. Each layout equals one rank; layouts that differ in ZeRO stage,
// recomputation and overlap alone have the same bits (few of the subset do; zero_test.cc has more).
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

// Indices of the choices: model, mesh, ZeRO stage, micro-batches, recomputation, positions,
// products, precision.
using Choice = std::vector<int>;

std::vector<std::vector<MeshAxis>> Meshes() {
  std::vector<std::vector<MeshAxis>> meshes;
  for (int64_t data = 1; data <= 8; ++data) {
    for (int64_t tensor = 1; data * tensor <= 8; ++tensor) {
      for (int64_t sequence = 1; data * tensor * sequence <= 8; ++sequence) {
        meshes.push_back({{"data", data}, {"tensor", tensor}, {"sequence", sequence}});
      }
    }
  }
  return meshes;
}

const std::vector<std::vector<MeshAxis>>& AllMeshes() {
  static const auto* const meshes = new std::vector<std::vector<MeshAxis>>(Meshes());
  return *meshes;
}

std::vector<int> Sizes() { return {3, static_cast<int>(AllMeshes().size()), 4, 2, 2, 2, 2, 2}; }

ModelConfig ModelOf(int choice) {
  if (choice == 0) return SmallGpt2(R"({"n_head": 8, "n_embd": 16})");
  return SmallLlama(absl::StrCat(R"({"num_attention_heads": 8, "num_key_value_heads": )",
                                 choice == 1 ? 8 : 2,
                                 R"(, "hidden_size": 16, "intermediate_size": 22})"));
}

LayoutRun RunOf(const Choice& choice) {
  LayoutRun run;
  run.config = ModelOf(choice[0]);
  run.plan = LayoutPlan(AllMeshes()[choice[1]], 1, choice[3] == 0 ? 1 : 3, 8);
  run.plan.zero = choice[2];
  run.plan.recomputation = choice[4] == 0 ? Recomputation::kNone : Recomputation::kBlock;
  run.plan.sequence = choice[5] == 0 ? SequenceParallelism::kRing : SequenceParallelism::kAllToAll;
  run.plan.tensor_layout = choice[6] == 0 ? TensorLayout::k1d : TensorLayout::k2d;
  if (choice[7] != 0) {
    run.plan.precision = {DType::kBF16, DType::kBF16};
    run.values = FirstValues;
  }
  run.optimizer.kind = Optimizer::Kind::kSgd;
  run.updates = choice[7] == 0 ? 3 : 4;
  run.overlap = (choice[2] + choice[4]) % 2 == 0;
  return run;
}

std::string NameOf(const Plan& plan) {
  std::string name = absl::StrCat("zero=", plan.zero, " micro_batches=", plan.micro_batches, " ",
                                  Name(plan.recomputation), " ", Name(plan.sequence), " ",
                                  Name(plan.tensor_layout), " ", Name(plan.precision.compute));
  for (const MeshAxis& axis : plan.stages[0].mesh) {
    absl::StrAppend(&name, " ", axis.name, "=", axis.size);
  }
  return name;
}

// A choice that says nothing on a mesh is made once.
bool IsOne(const Choice& choice) {
  const Plan plan = RunOf(choice).plan;
  if (choice[5] != 0 && plan.AxisSize("sequence") == 1) return false;
  if (choice[6] != 0 && plan.AxisSize("tensor") == 1) return false;
  return true;
}

// Why a layout is refused, if it may be: docs/layouts.md.
bool MayBeRefused(const absl::Status& status) {
  return absl::StrContains(status.message(), "key/value heads cannot be split over") ||
         absl::StrContains(status.message(), "tensor_layout=2d needs a square");
}

std::vector<Choice> AllChoices() {
  std::vector<Choice> all = {{}};
  for (int size : Sizes()) {
    std::vector<Choice> longer;
    for (const Choice& choice : all) {
      for (int i = 0; i < size; ++i) {
        longer.push_back(choice);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  std::vector<Choice> allowed;
  for (const Choice& choice : all) {
    const LayoutRun run = RunOf(choice);
    if (!IsOne(choice)) continue;
    const absl::Status valid = Validate(run.plan, run.config);
    if (valid.ok())
      allowed.push_back(choice);
    else
      EXPECT_TRUE(MayBeRefused(valid)) << NameOf(run.plan) << ": " << valid;
  }
  return allowed;
}

using Pair = std::tuple<size_t, int, size_t, int>;

std::set<Pair> PairsOf(const Choice& choice) {
  std::set<Pair> pairs;
  for (size_t a = 0; a < choice.size(); ++a) {
    for (size_t b = a + 1; b < choice.size(); ++b) pairs.insert({a, choice[a], b, choice[b]});
  }
  return pairs;
}

// Choices in a fixed scattered order, taken while they show a new pair.
std::vector<Choice> Covering(const std::vector<Choice>& all) {
  std::vector<Choice> chosen;
  std::set<Pair> seen;
  for (int at_least : {8, 4, 2, 1}) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Choice& choice = all[i * 7919 % all.size()];
      const std::set<Pair> pairs = PairsOf(choice);
      const auto news = std::count_if(pairs.begin(), pairs.end(),
                                      [&](const Pair& pair) { return seen.count(pair) == 0; });
      if (news < at_least) continue;
      seen.insert(pairs.begin(), pairs.end());
      chosen.push_back(choice);
    }
  }
  return chosen;
}

// Results of the same rows on one rank, made when asked for.
class OneRank {
 public:
  const LayoutResult& Of(int model, const LayoutRun& run, const Precision& precision) {
    const std::tuple key(model, run.plan.AxisSize("data"), run.plan.micro_batches, run.updates,
                         precision.compute);
    if (const auto found = results_.find(key); found != results_.end()) return found->second;
    LayoutRun alone = run;
    alone.plan =
        LayoutPlan({}, run.plan.AxisSize("data"), run.plan.micro_batches, run.plan.sequence_length);
    alone.plan.precision = precision;
    absl::StatusOr<LayoutResult> result = Train(alone);
    EXPECT_OK(result.status());
    return results_[key] = result.ok() ? *std::move(result) : LayoutResult();
  }

 private:
  std::map<std::tuple<int, int64_t, int64_t, int, DType>, LayoutResult> results_;
};

TEST(LayoutMatrixTest, EqualsOneRank) {
  const char* which = std::getenv("COLOSSUS_LAYOUTS");
  const bool all = which != nullptr && std::string(which) == "all";
  std::vector<Choice> choices = AllChoices();
  if (!all) choices = Covering(choices);
  std::cout << choices.size() << " layouts" << std::endl;
  OneRank one_rank;
  std::map<std::vector<int>, LayoutResult> same_mesh;
  size_t compared = 0;
  for (const Choice& choice : choices) {
    const LayoutRun run = RunOf(choice);
    SCOPED_TRACE(absl::StrCat(run.config.family, " ", NameOf(run.plan)));
    ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(run));
    const Precision precision = run.plan.precision;
    if (precision.compute == DType::kF32) {
      ExpectEqual(result, one_rank.Of(choice[0], run, precision));
    } else {
      ExpectNearLosses(result, one_rank.Of(choice[0], run, precision),
                       one_rank.Of(choice[0], run, Precision{}));
    }
    const std::vector<int> mesh = {choice[0], choice[1], choice[3],
                                   choice[5], choice[6], choice[7]};
    auto first = same_mesh.emplace(mesh, result);
    if (!first.second) ExpectSameBits(result, first.first->second);
    compared += !first.second;
    if (HasFailure()) return;
  }
  std::cout << compared << " with the bits of another" << std::endl;
  // Of most meshes there are four ZeRO stages, with recomputation and without.
  if (all) {
    EXPECT_GE(compared, choices.size() / 4 * 3);
  }
}

}  // namespace
}  // namespace colossus
