// A mixture of experts with a bounded dim, written as text: against plain loops, and its gradients
// against differences, also with an expert that gets nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/passes/autodiff.h"
#include "tensor/testing/run_op.h"
#include "tests/gate/gate_graph.h"

namespace colossus {
namespace {

constexpr int64_t kTokens = 6, kWidth = 4, kExperts = 4, kInner = 5;
constexpr int64_t kPadding[] = {2, 5};  // tokens that are not real

bool IsReal(int64_t token) {
  return std::find(std::begin(kPadding), std::end(kPadding), token) == std::end(kPadding);
}

HostTensors Inputs(const Graph& graph) {
  HostTensors inputs = RandomParameters(graph, TestSeed());
  std::mt19937_64 random(TestSeed() + 1);
  inputs["x"] = RandomTensor(DType::kF64, {kTokens, kWidth}, random);
  inputs["target"] = RandomTensor(DType::kF64, {kTokens, kWidth}, random);
  inputs["real"] = HostTensor(Type{DType::kBool, {kTokens, 1}});
  for (int64_t t = 0; t < kTokens; ++t) inputs["real"].Set(t, IsReal(t));
  inputs["seed"] = ScalarF64(0.25);
  return inputs;
}

// Nobody's scores come near expert 3's: all tokens are alike in their first entry, and it alone
// decides against it.
void AvoidLastExpert(HostTensors& inputs) {
  for (int64_t t = 0; t < kTokens; ++t) inputs["x"].Set(t * kWidth, 1);
  inputs["router"].Set(kExperts - 1, -100);
}

struct Routed {
  std::vector<double> y = std::vector<double>(kTokens * kWidth);
  std::vector<int64_t> counts = std::vector<int64_t>(kExperts);
};

// The expert's answer to token t, added to y with a weight.
void AddExpert(const HostTensors& in, int64_t t, int64_t expert, double weight, Routed& out) {
  auto at = [&](const char* name, int64_t i, int64_t j) {
    return in.at(name).Get((expert * kWidth + i) * kInner + j);
  };
  for (int64_t j = 0; j < kInner; ++j) {
    double gate = 0, up = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      gate += in.at("x").Get(t * kWidth + i) * at("gate", i, j);
      up += in.at("x").Get(t * kWidth + i) * at("up", i, j);
    }
    const double inner = gate / (1 + std::exp(-gate)) * up;
    for (int64_t i = 0; i < kWidth; ++i) {
      out.y[t * kWidth + i] += weight * inner * at("down", i, j);
    }
  }
}

// The layer token by token, every expert in full.
Routed Plain(const HostTensors& in) {
  Routed out;
  for (int64_t t = 0; t < kTokens; ++t) {
    std::vector<std::pair<double, int64_t>> scores;  // exp of score, expert
    for (int64_t e = 0; e < kExperts; ++e) {
      double score = 0;
      for (int64_t i = 0; i < kWidth; ++i) {
        score += in.at("x").Get(t * kWidth + i) * in.at("router").Get(i * kExperts + e);
      }
      scores.push_back({std::exp(score), e});
    }
    std::sort(scores.rbegin(), scores.rend());
    if (!IsReal(t)) continue;
    for (int slot = 0; slot < 2; ++slot) {
      const double weight = scores[slot].first / (scores[0].first + scores[1].first);
      AddExpert(in, t, scores[slot].second, weight, out);
      ++out.counts[scores[slot].second];
    }
  }
  return out;
}

void ExpectPlain(const Graph& graph, const HostTensors& inputs) {
  ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(graph, inputs));
  const Routed plain = Plain(inputs);
  // A few dozen roundings of 2^-53 each.
  EXPECT_TRUE(TensorNear(out.at("y").ToDoubles(), plain.y, {.relative_to_max = 1e-13}));
  for (int64_t e = 0; e < kExperts; ++e) EXPECT_EQ(out.at("counts").Get(e), plain.counts[e]) << e;
}

TEST(MixtureGraphTest, EqualsPlainLoopsAndDifferences) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ReadGateGraph("mixture"));
  const HostTensors inputs = Inputs(graph);
  ExpectPlain(graph, inputs);
  ASSERT_OK_AND_ASSIGN(Differentiated d, Autodiff(graph, graph.FindOutput("loss"),
                                                  graph.FindValue("seed")));
  EXPECT_EQ(d.parameters.size(), 4u);
  ExpectGradientsOfLoss(graph, d, inputs);
}

TEST(MixtureGraphTest, ExpertWithoutTokensHasZeroGradient) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ReadGateGraph("mixture"));
  HostTensors inputs = Inputs(graph);
  AvoidLastExpert(inputs);
  ExpectPlain(graph, inputs);
  ASSERT_OK_AND_ASSIGN(Differentiated d, Autodiff(graph, graph.FindOutput("loss"),
                                                  graph.FindValue("seed")));
  ExpectGradientsOfLoss(graph, d, inputs);
  ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(d.graph, inputs));
  EXPECT_EQ(out.at("counts").Get(kExperts - 1), 0);
  for (const char* name : {"d.up", "d.gate", "d.down"}) {
    std::vector<double> all = out.at(name).ToDoubles();
    std::vector<double> last(all.end() - kWidth * kInner, all.end());
    EXPECT_TRUE(BitEqual<double>(last, std::vector<double>(last.size()))) << name;
    EXPECT_FALSE(BitEqual<double>(all, std::vector<double>(all.size()))) << name;
  }
}

// Padding leaves no trace: whatever its tokens hold, real ones and weights do not see it.
TEST(MixtureGraphTest, PaddingChangesNothing) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ReadGateGraph("mixture"));
  HostTensors inputs = Inputs(graph);
  ASSERT_OK_AND_ASSIGN(HostTensors before, Interpret(graph, inputs));
  for (int64_t t : kPadding) inputs["x"].Set(t * kWidth + 1, 7);
  ASSERT_OK_AND_ASSIGN(HostTensors after, Interpret(graph, inputs));
  EXPECT_EQ(after, before);
  for (int64_t t : kPadding) EXPECT_EQ(after.at("y").Get(t * kWidth), 0);
}

}  // namespace
}  // namespace colossus
