// Llama, Mistral, Qwen2: rotary positions, RMS norms, grouped heads, gated MLP, products stored
// [out, in].
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardformer/model_builder.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

ValueId Norm(ModelBuilder& m, ValueId x, const std::string& name) {
  ValueId weight = m.NormParameter(name + ".weight", 1);
  return RmsNorm(m.graph(), x, weight, m.config().norm_epsilon, 0, m.options().compute);
}

// x[b s c] times weight[h d c] -> [b s h d], with a bias if the model has it.
ValueId ToHeads(ModelBuilder& m, ValueId x, const std::string& name, int64_t heads,
                const std::string& axis) {
  int64_t c = m.config().hidden, d = m.config().head_dim;
  ValueId weight = m.Parameter(name + ".weight", {heads, d, c}, {axis, "head_dim", "embed"},
                               m.Normal(), {heads * d, c});
  ValueId y = Matmul(m.graph(), "b s c, h d c -> b s h d", x, weight);
  if (!m.config().qkv_bias) return y;
  return Add(m.graph(), y, m.Parameter(name + ".bias", {heads, d}, {axis, "head_dim"},
                                       Initializer::Constant(0), {heads * d}));
}

ValueId SelfAttention(ModelBuilder& m, int64_t layer, ValueId x, const std::string& name) {
  const ModelConfig& config = m.config();
  int64_t c = config.hidden, h = config.heads, d = config.head_dim;
  ValueId q = m.Rotate(ToHeads(m, x, name + ".q_proj", h, "heads"));
  ValueId k = m.Rotate(ToHeads(m, x, name + ".k_proj", config.kv_heads, "kv_heads"));
  ValueId v = ToHeads(m, x, name + ".v_proj", config.kv_heads, "kv_heads");
  ValueId out = m.Attend(layer, q, k, v);
  ValueId weight = m.Parameter(name + ".o_proj.weight", {c, h, d}, {"embed", "heads", "head_dim"},
                               m.Normal(), {c, h * d});
  ValueId y = Matmul(m.graph(), "b s h d, c h d -> b s c", out, weight);
  if (!config.attention_output_bias) return y;
  return Add(m.graph(), y,
             m.Parameter(name + ".o_proj.bias", {c}, {"embed"}, Initializer::Constant(0)));
}

ValueId Mlp(ModelBuilder& m, ValueId x, const std::string& name) {
  const ModelConfig& config = m.config();
  int64_t c = config.hidden, f = config.mlp;
  auto project = [&](const std::string& which, absl::string_view spec, ValueId in, Dims dims,
                     LogicalAxes axes) {
    std::string full = absl::StrCat(name, ".", which, "_proj");
    int64_t out = dims[0];
    std::string axis = axes[0];
    ValueId weight = m.Parameter(full + ".weight", dims, std::move(axes), m.Normal());
    ValueId y = Matmul(m.graph(), spec, in, weight);
    if (!config.mlp_bias) return y;
    return Add(m.graph(), y,
               m.Parameter(full + ".bias", {out}, {axis}, Initializer::Constant(0)));
  };
  ValueId gate = project("gate", "b s c, m c -> b s m", x, {f, c}, {"mlp", "embed"});
  ValueId up = project("up", "b s c, m c -> b s m", x, {f, c}, {"mlp", "embed"});
  ValueId inner = Mul(m.graph(), m.Activate(gate), up);
  return project("down", "b s m, c m -> b s c", inner, {c, f}, {"embed", "mlp"});
}

}  // namespace

absl::Status BuildLlama(ModelBuilder& m) {
  const ModelConfig& config = m.config();
  int64_t c = config.hidden;
  ValueId table = m.Parameter("model.embed_tokens.weight", {config.vocabulary, c},
                              {"vocab", "embed"}, m.Normal());
  ValueId x = m.Embed(table, m.input_ids());
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string block = LayerBlock(layer), name = absl::StrCat("model.layers.", layer);
    BlockScope scope(m.graph(), block);
    ValueId normed = m.ForProducts(Norm(m, x, name + ".input_layernorm"));
    x = m.AddResidual(x, SelfAttention(m, layer, normed, name + ".self_attn"),
                      block + "/attention_out");
    normed = m.ForProducts(Norm(m, x, name + ".post_attention_layernorm"));
    x = m.AddResidual(x, Mlp(m, normed, name + ".mlp"), block + "/mlp_out");
  }
  BlockScope scope(m.graph(), "head");
  x = Norm(m, x, "model.norm");
  ValueId head = table;
  if (!config.tie_word_embeddings) {
    head = m.Parameter("lm_head.weight", {config.vocabulary, c}, {"vocab", "embed"}, m.Normal());
  }
  m.Head(x, head);
  return absl::OkStatus();
}

}  // namespace colossus
