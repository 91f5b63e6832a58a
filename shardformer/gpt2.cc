// GPT-2: learned positions, pre-norm blocks, fused query/key/value, products stored [in, out].
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardformer/model_builder.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/stack.h"

namespace colossus {
namespace {

ValueId Norm(ModelBuilder& m, ValueId x, const std::string& name) {
  ValueId weight = m.NormParameter(name + ".weight", 1);
  ValueId bias = m.NormParameter(name + ".bias", 0);
  return LayerNorm(m.graph(), x, weight, bias, m.config().norm_epsilon, m.options().compute);
}

ValueId SelfAttention(ModelBuilder& m, int64_t layer, ValueId x, const std::string& name,
                      double residual_divisor) {
  const ModelConfig& config = m.config();
  int64_t c = config.hidden, h = config.heads, d = config.head_dim;
  ValueId weight = m.Parameter(name + ".c_attn.weight", {c, 3, h, d},
                               {"embed", "qkv", "heads", "head_dim"}, m.Normal(), {c, 3 * h * d});
  ValueId bias = m.Parameter(name + ".c_attn.bias", {3, h, d}, {"qkv", "heads", "head_dim"},
                             Initializer::Constant(0), {3 * h * d});
  ValueId qkv = Add(m.graph(), Matmul(m.graph(), "b s c, c k h d -> b s k h d", x, weight), bias);
  ValueIds parts = Unstack(m.graph(), qkv, 2);
  ValueId out = m.Attend(layer, parts[0], parts[1], parts[2]);
  ValueId project = m.Parameter(name + ".c_proj.weight", {h, d, c}, {"heads", "head_dim", "embed"},
                                m.Normal(residual_divisor), {h * d, c});
  ValueId project_bias =
      m.Parameter(name + ".c_proj.bias", {c}, {"embed"}, Initializer::Constant(0));
  return Add(m.graph(), Matmul(m.graph(), "b s h d, h d c -> b s c", out, project), project_bias);
}

ValueId Mlp(ModelBuilder& m, ValueId x, const std::string& name, double residual_divisor) {
  int64_t c = m.config().hidden, f = m.config().mlp;
  ValueId up = m.Parameter(name + ".c_fc.weight", {c, f}, {"embed", "mlp"}, m.Normal());
  ValueId up_bias = m.Parameter(name + ".c_fc.bias", {f}, {"mlp"}, Initializer::Constant(0));
  ValueId inner =
      m.Activate(Add(m.graph(), Matmul(m.graph(), "b s c, c m -> b s m", x, up), up_bias));
  ValueId down = m.Parameter(name + ".c_proj.weight", {f, c}, {"mlp", "embed"},
                             m.Normal(residual_divisor));
  ValueId down_bias = m.Parameter(name + ".c_proj.bias", {c}, {"embed"}, Initializer::Constant(0));
  return Add(m.graph(), Matmul(m.graph(), "b s m, m c -> b s c", inner, down), down_bias);
}

}  // namespace

absl::Status BuildGpt2(ModelBuilder& m) {
  const ModelConfig& config = m.config();
  int64_t c = config.hidden;
  // Two additions to the residual stream per layer: their weights start smaller, so that the sum
  // keeps its variance.
  double residual_divisor = std::sqrt(2.0 * static_cast<double>(config.layers));
  ValueId table = m.Parameter("transformer.wte.weight", {config.vocabulary, c}, {"vocab", "embed"},
                              m.Normal());
  ValueId places = m.Parameter("transformer.wpe.weight", {config.max_positions, c}, {"", "embed"},
                               m.Normal());
  ValueId x = Add(m.graph(), m.Embed(table, m.input_ids()), m.Embed(places, m.positions()));
  x = m.Drop(x, config.embedding_dropout, "embed");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string block = LayerBlock(layer), name = absl::StrCat("transformer.", block);
    BlockScope scope(m.graph(), block);
    ValueId normed = m.ForProducts(Norm(m, x, name + ".ln_1"));
    x = m.AddResidual(x, SelfAttention(m, layer, normed, name + ".attn", residual_divisor),
                      block + "/attention_out");
    normed = m.ForProducts(Norm(m, x, name + ".ln_2"));
    x = m.AddResidual(x, Mlp(m, normed, name + ".mlp", residual_divisor), block + "/mlp_out");
  }
  BlockScope scope(m.graph(), "head");
  x = Norm(m, x, "transformer.ln_f");
  ValueId head = table;
  if (!config.tie_word_embeddings) {
    head = m.Parameter("lm_head.weight", {config.vocabulary, c}, {"vocab", "embed"}, m.Normal());
  }
  m.Head(x, head);
  return absl::OkStatus();
}

}  // namespace colossus
