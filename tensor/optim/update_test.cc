#include "tensor/optim/update.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  for (Role role : {Role::kParameter, Role::kMaster, Role::kMoment1, Role::kMoment2}) {
    EXPECT_EQ(ParameterName(role, StateName(role, "h.0.w")), "h.0.w");
  }
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
  AddUpdate(b, optimizer, {{info, compute, gradient}}, scalars);
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

// Protects: of narrow and wide parameters each kind has a node, and wide ones have no master.
TEST(UpdateTest, NarrowAndWideParameters) {
  GraphBuilder b("update");
  UpdateScalars scalars;
  scalars.learning_rate = b.Feed("learning_rate", {DType::kF32, {}});
  scalars.grad_scale = b.Feed("grad_scale", {DType::kF32, {}});
  std::vector<UpdatedParameter> updated;
  for (const auto& [name, dtype] : {std::pair{"a", DType::kBF16}, std::pair{"b", DType::kF32},
                                    std::pair{"c", DType::kBF16}}) {
    StateInfo info;
    info.name = name;
    info.global_dims = info.disk_dims = {4};
    info.axes = {"embed"};
    updated.push_back({info, dtype, b.Feed(absl::StrCat("g/", name), {DType::kBF16, {4}})});
  }
  AddUpdate(b, Of(kSgd), updated, scalars);
  ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Build());
  EXPECT_EQ(graph.nodes().size(), 2u);
  for (const char* name : {"a", "b", "c"}) {
    const State* parameter = graph.FindState(name);
    ASSERT_NE(parameter, nullptr);
    const bool narrow = graph.value(parameter->in).type.dtype == DType::kBF16;
    EXPECT_EQ(narrow, std::string(name) != "b");
    EXPECT_EQ(graph.FindState(absl::StrCat("master/", name)) != nullptr, narrow);
    EXPECT_NE(parameter->in, parameter->out);
  }
}

// Protects: one node for all, each parameter with its own states, decay and gradient.
TEST(UpdateTest, SeveralParameters) {
  for (Optimizer::Kind kind : {kAdamw, kSgd}) {
    GraphBuilder b("update");
    UpdateScalars scalars;
    for (auto [name, value] : {std::pair{"learning_rate", &scalars.learning_rate},
                               std::pair{"grad_scale", &scalars.grad_scale},
                               std::pair{"correction1", &scalars.correction1},
                               std::pair{"correction2", &scalars.correction2}}) {
      *value = b.Feed(name, {DType::kF32, {}});
    }
    std::vector<UpdatedParameter> updated;
    for (int64_t i = 0; i < 3; ++i) {
      StateInfo info;
      info.name = std::string(1, static_cast<char>('a' + i));
      info.global_dims = info.disk_dims = {i};
      info.axes = {"embed"};
      info.decayed = i != 1;
      const ValueId gradient = b.Feed("gradient/" + info.name, {DType::kBF16, {i}});
      updated.push_back({info, DType::kBF16, gradient});
    }
    AddUpdate(b, Of(kind), updated, scalars);
    ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Build());
    ASSERT_EQ(graph.nodes().size(), 1u);
    const Node& node = graph.node(0);
    EXPECT_THAT(node.attributes.FloatList("weight_decay"), ElementsAre(0.1, 0, 0.1));
    const int moments = kind == kAdamw ? 2 : 1;
    const Role roles[] = {Role::kMaster, Role::kMoment1, Role::kMoment2};
    for (int i = 0; i < 3; ++i) {
      const std::string name = updated[i].info.name;
      const int x = i * (2 + moments), y = i * (2 + moments);
      EXPECT_EQ(graph.value(node.operands[x + 1]).name, "gradient/" + name);
      EXPECT_EQ(graph.FindState(name)->out, node.results[y + 1 + moments]);
      for (int role = 0; role <= moments; ++role) {
        const State* state = graph.FindState(StateName(roles[role], name));
        EXPECT_EQ(state->in, node.operands[x + (role == 0 ? 0 : role + 1)]);
        EXPECT_EQ(state->out, node.results[y + role]);
      }
    }
  }
}

}  // namespace
}  // namespace colossus
