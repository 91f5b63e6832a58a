// The gradients of a whole small model, every op of it differentiated by its own rule, against
// central differences in f64.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/state.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/experts.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/rotary.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/topk.h"
#include "tensor/passes/autodiff.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

constexpr DType f64 = DType::kF64;
constexpr int64_t kBatch = 2, kLength = 4, kWidth = 6, kVocabulary = 7, kExperts = 3;

// Makes the graph and its inputs together.
class TinyModel {
 public:
  TinyModel() : random_(TestSeed()), b_("tiny") {
    ids_ = Feed("ids", HostTensor::Of<int32_t>({2, 4}, {0, 3, 3, 6, 1, 5, 2, 0}));
    labels_ = Feed("labels", HostTensor::Of<int32_t>({2, 4}, {3, 3, -100, 1, 5, 2, 0, -100}));
    positions_ = Feed("positions", HostTensor::Of<int32_t>({2, 4}, {0, 1, 0, 1, 0, 1, 2, 3}));
    segments_ = Feed("segments", HostTensor::Of<int32_t>({2, 4}, {0, 0, 1, 1, 0, 0, 0, 0}));
    frequencies_ = Feed("frequencies", HostTensor::Of<float>({1}, {0.7f}));
    key_ = Feed("key", HostTensor::Of<int64_t>({2}, {1, 4}));
    first_row_ = Feed("first_row", HostTensor::Of<int64_t>({}, {2}));
    HostTensor seed(Type{f64, {}});
    seed.Set(0, 0.5);
    seed_ = Feed("seed", std::move(seed));
  }

  absl::StatusOr<Graph> Build() && {
    ValueId table = Parameter("embed", {kVocabulary, kWidth});
    ValueId x = Embedding(b_, table, ids_);
    x = Add(b_, x, AttentionBlock(RmsNorm(b_, x, Parameter("norm1", {kWidth}), 1e-5, 1)));
    ValueId h = LayerNorm(b_, x, Parameter("norm2", {kWidth}), Parameter("norm2b", {kWidth}), 1e-5);
    x = Add(b_, x, ExpertBlock(h));
    LossOptions options;
    options.seed = seed_;
    options.bias = Parameter("head_bias", {kVocabulary});
    options.chunk = 3;
    b_.Output("loss", LinearCrossEntropy(b_, x, table, labels_, options));  // tied
    return std::move(b_).Build();
  }
  const HostTensors& inputs() const { return inputs_; }

 private:
  ValueId Feed(absl::string_view name, HostTensor value) {
    ValueId id = b_.Feed(name, value.type());
    inputs_[std::string(name)] = std::move(value);
    return id;
  }

  ValueId Parameter(absl::string_view name, Dims dims) {
    StateInfo info;
    info.name = std::string(name);
    info.role = Role::kParameter;
    info.global_dims = dims;
    info.trainable = true;
    inputs_[info.name] = RandomTensor(f64, dims, random_);
    return b_.AddState(info, {f64, dims});
  }

  // Two query heads share one key and value head; documents, softcap and dropout.
  ValueId AttentionBlock(ValueId x) {
    ValueId q = Matmul(b_, "b s c, c h d -> b s h d", x, Parameter("q", {kWidth, 2, 3}));
    ValueId k = Matmul(b_, "b s c, c h d -> b s h d", x, Parameter("k", {kWidth, 1, 3}));
    ValueId v = Matmul(b_, "b s c, c h d -> b s h d", x, Parameter("v", {kWidth, 1, 3}));
    AttentionOptions options;
    options.scale = 0.3;
    options.causal = true;
    options.softcap = 3;
    options.dropout_rate = 0.2;
    options.site = "h.0.attention";
    options.q_segments = options.k_segments = segments_;
    options.q_positions = options.k_positions = positions_;
    options.dropout_key = key_;
    options.first_row = first_row_;
    ValueId out = Attention(b_, Rotary(b_, q, positions_, frequencies_),
                            Rotary(b_, k, positions_, frequencies_), v, options);
    ValueId y = Matmul(b_, "b s h d, h d c -> b s c", out, Parameter("o", {2, 3, kWidth}));
    return Dropout(b_, y, key_, first_row_, 0.25, "h.0.residual");
  }

  // The best two of three experts, weighted by their sigmoid scores.
  ValueId ExpertBlock(ValueId x) {
    constexpr int64_t kTokens = kBatch * kLength;
    ValueId tokens = Reshape(b_, x, "b s c -> (b s) c", {kTokens, kWidth});
    ValueId scores = Sigmoid(b_, Matmul(b_, "n c, c e -> n e", tokens,
                                        Parameter("router", {kWidth, kExperts})));
    TopkResults top = Topk(b_, scores, 2);
    DispatchResults d = Dispatch(b_, tokens, top.indices, kExperts);
    ValueId h = Silu(b_, GroupedMatmul(b_, d.rows, Parameter("up", {kExperts, kWidth, 5}),
                                       d.counts));
    h = GroupedMatmul(b_, h, Parameter("down", {kExperts, kWidth, 5}), d.counts, true);
    ValueId y = Combine(b_, h, d.order, top.values);
    return Reshape(b_, y, "(b s) c -> b s c", {kBatch, kLength, kWidth});
  }

  std::mt19937_64 random_;
  GraphBuilder b_;
  HostTensors inputs_;
  ValueId ids_, labels_, positions_, segments_, frequencies_, key_, first_row_, seed_;
};

double LossOf(const Graph& graph, const HostTensors& inputs) {
  absl::StatusOr<HostTensors> out = Interpret(graph, inputs);
  CHECK_OK(out.status());
  return out->at("loss").Get(0);
}

// Differences with step 1e-5 have errors of step^2 and of 1e-16 / step, both near 1e-10; the third
// derivatives of this model may reach a thousand.
TEST(ModelGradientTest, EveryParameterAgainstDifferences) {
  TinyModel model;
  ASSERT_OK_AND_ASSIGN(Graph forward, std::move(model).Build());
  ASSERT_OK_AND_ASSIGN(Differentiated d, Autodiff(forward, forward.FindOutput("loss"),
                                                  forward.FindValue("seed")));
  HostTensors inputs = model.inputs();
  ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(d.graph, inputs));
  EXPECT_EQ(d.parameters.size(), 12u);
  for (const ParameterGradients& g : d.parameters) {
    HostTensor& parameter = inputs.at(g.state);
    std::vector<double> built(parameter.type().elements()), differences;
    for (const std::string& use : g.outputs) {
      std::vector<double> values = out.at(use).ToDoubles();
      for (size_t i = 0; i < built.size(); ++i) built[i] += values[i];
    }
    EXPECT_EQ(g.outputs.size(), g.state == "embed" ? 2u : 1u) << g.state;
    for (int64_t i = 0; i < parameter.type().elements(); ++i) {
      double value = parameter.Get(i);
      parameter.Set(i, value + 1e-5);
      double above = LossOf(forward, inputs);
      parameter.Set(i, value - 1e-5);
      double below = LossOf(forward, inputs);
      parameter.Set(i, value);
      differences.push_back(0.5 * (above - below) / 2e-5);
    }
    EXPECT_TRUE(TensorNear(built, differences, {.absolute = 1e-7, .relative_to_max = 1e-6}))
        << g.state;
  }
}

}  // namespace
}  // namespace colossus
