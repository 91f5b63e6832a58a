#include "tensor/optim/update.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/kernels/reference/interpreter.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

constexpr Optimizer::Kind kAdamw = Optimizer::Kind::kAdamw, kSgd = Optimizer::Kind::kSgd;

Optimizer Of(Optimizer::Kind kind) {
  Optimizer optimizer;
  optimizer.kind = kind;
  return optimizer;
}

// Protects: which states exist, hence bytes a parameter and what a checkpoint holds.
TEST(UpdateTest, Roles) {
  const Role p = Role::kParameter, master = Role::kMaster, m = Role::kMoment1, v = Role::kMoment2;
  EXPECT_THAT(StateRoles(Of(kAdamw), DType::kF32), ElementsAre(p, m, v));
  EXPECT_THAT(StateRoles(Of(kAdamw), DType::kF64), ElementsAre(p, m, v));
  EXPECT_THAT(StateRoles(Of(kAdamw), DType::kBF16), ElementsAre(p, master, m, v));
  EXPECT_THAT(StateRoles(Of(kSgd), DType::kF16), ElementsAre(p, master, m));
  EXPECT_THAT(StateRoles(Of(kSgd), DType::kF32), ElementsAre(p, m));
}

// Protects: names in checkpoints.
TEST(UpdateTest, Names) {
  EXPECT_EQ(StateName(Role::kParameter, "h.0.w"), "h.0.w");
  EXPECT_EQ(StateName(Role::kMaster, "h.0.w"), "master/h.0.w");
  EXPECT_EQ(StateName(Role::kMoment1, "h.0.w"), "moment1/h.0.w");
  EXPECT_EQ(StateName(Role::kMoment2, "h.0.w"), "moment2/h.0.w");
}

// One element w = 2 with gradient 3 after one update from zero moments.
HostTensors Updated(const Optimizer& optimizer, DType compute, bool decayed) {
  const DType wide = MasterDType(compute);
  GraphBuilder b("update");
  StateInfo info;
  info.name = "w";
  info.global_dims = info.disk_dims = {1};
  info.axes = {"embed"};
  info.decayed = decayed;
  UpdateScalars scalars;
  HostTensors inputs;
  const std::pair<const char*, ValueId*> feeds[] = {{"learning_rate", &scalars.learning_rate},
                                                    {"grad_scale", &scalars.grad_scale},
                                                    {"correction1", &scalars.correction1},
                                                    {"correction2", &scalars.correction2}};
  const double values[] = {0.5, 0.25, 1 - optimizer.beta1, 1 - optimizer.beta2};
  for (int i = 0; i < 4; ++i) {
    *feeds[i].second = b.Feed(feeds[i].first, {wide, {}});
    inputs[feeds[i].first] = HostTensor(Type{wide, {}});
    inputs[feeds[i].first].Set(0, values[i]);
  }
  const ValueId gradient = b.Feed("g", {compute, {1}});
  AddUpdate(b, optimizer, info, compute, gradient, scalars);
  absl::StatusOr<Graph> graph = std::move(b).Build();
  EXPECT_OK(graph);
  inputs["g"] = HostTensor(Type{compute, {1}});
  inputs["g"].Set(0, 3);
  for (const State& state : graph->states()) {
    EXPECT_NE(state.in, state.out) << state.info.name;
    EXPECT_EQ(state.info.decayed, decayed);
    HostTensor& value = inputs[state.info.name] = HostTensor(graph->value(state.in).type);
    const bool weight = state.info.role == Role::kParameter || state.info.role == Role::kMaster;
    value.Set(0, weight ? 2 : 0);
  }
  absl::StatusOr<HostTensors> result = Interpret(*graph, inputs);
  EXPECT_OK(result);
  return *std::move(result);
}

// Protects: every state moves, the copy follows the master, only decayed parameters decay. By hand:
// the scaled gradient is 0.75. Sgd: w - 0.5 * (0.75 + 0.1 * w). Adamw: the corrected step is
// 0.75 / 0.75, so w * (1 - 0.5 * 0.1) - 0.5.
TEST(UpdateTest, OneStep) {
  for (DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (bool decayed : {false, true}) {
      for (Optimizer::Kind kind : {kAdamw, kSgd}) {
        HostTensors after = Updated(Of(kind), compute, decayed);
        const double expected = kind == kSgd ? 2 - 0.375 - (decayed ? 0.1 : 0)
                                             : 2 * (decayed ? 0.95 : 1) - 0.5;
        const std::string master = compute == DType::kBF16 ? "master/w" : "w";
        EXPECT_LE(std::abs(after.at(master).Get(0) - expected), 1e-6);
        if (compute == DType::kBF16) {
          EXPECT_EQ(after.at("w").Get(0), after.at(master).Converted(DType::kBF16).Get(0));
        }
        EXPECT_GT(after.at("moment1/w").Get(0), 0);
        EXPECT_EQ(after.contains("moment2/w"), kind == kAdamw);
      }
    }
  }
}

}  // namespace
}  // namespace colossus
