// ModelBuilder: what the families share when they build their graphs.
//
// Purpose: feeds, parameters, precision, attention with or without a cache, dropout sites, and the
// head with its loss. A family says which parameters there are and how they are connected.
// Values that decide how a model is split carry the logical names of their dims in Value::sharding:
// feeds [batch seq], the residual stream [batch residual embed], queries and attention's result
// [batch attention_seq heads -], keys and values with kv_heads. parallel/sharding/rules.h maps
// them. Thread-safety: none; one thread. Ownership: refers to config and options.
//
//   ModelBuilder m(config, options);
//   ValueId x =
//       m.Embed(m.Parameter("wte.weight", {v, c}, {"vocab", "embed"}, init), m.input_ids());
//   ...
//   return std::move(m).Finish();
#ifndef COLOSSUS_SHARDFORMER_MODEL_BUILDER_H_
#define COLOSSUS_SHARDFORMER_MODEL_BUILDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "tensor/graph/builder.h"

namespace colossus {

class ModelBuilder {
 public:
  ModelBuilder(const ModelConfig& config, const ForwardOptions& options);

  GraphBuilder& graph() { return graph_; }
  const ModelConfig& config() const { return config_; }
  const ForwardOptions& options() const { return options_; }
  // f32, or f64 when everything is.
  DType residual() const { return residual_; }

  ValueId input_ids() const { return input_ids_; }
  ValueId positions() const { return positions_; }

  // A parameter in compute precision. `dims`: as the graph uses it; `disk`: as the file has it
  // (empty: the same). Decayed if it is a matrix on disk.
  ValueId Parameter(absl::string_view name, Dims dims, LogicalAxes axes, Initializer init,
                    Dims disk = {});
  // A norm's weight or bias over the hidden width: as wide as the residual stream. Weights lie near
  // 1, where bf16 steps are 2^-8 and would swallow most updates.
  ValueId NormParameter(absl::string_view name, double initial);
  // The normal of the config's initializer_range, divided by `divisor`.
  Initializer Normal(double divisor = 1) const;

  // The rows of `table` for `ids`, in the residual stream's precision and layout.
  ValueId Embed(ValueId table, ValueId ids);
  // x[b s c] as products read it.
  ValueId ForProducts(ValueId x) { return WithAxes(x, {"batch", "product_seq", "product_embed"}); }
  // x of the residual stream, plus `update` after dropout at `site`.
  ValueId AddResidual(ValueId x, ValueId update, absl::string_view site);
  // Dropout at `rate` if the options ask for it; x otherwise.
  ValueId Drop(ValueId x, double rate, absl::string_view site);
  ValueId Activate(ValueId x);

  // Causal attention of layer `layer` over q[b s h d], k and v[b s g d]: window, scale, dropout,
  // packed borders and the cache as config and options say.
  ValueId Attend(int64_t layer, ValueId q, ValueId k, ValueId v);
  // Rotates q or k by the config's rope.
  ValueId Rotate(ValueId x);

  // Final hidden states x[b s c] and the head's weight[v c]: loss and logits.
  void Head(ValueId x, ValueId weight);

  absl::StatusOr<Graph> Finish() &&;

 private:
  void CheckOptions();
  // i32[rows, length]: in each row the indices of the order, none above `most`.
  ValueId OrderOf(int64_t most);
  ValueId MakePositions();
  ValueId AddParameter(absl::string_view name, DType dtype, Dims dims, LogicalAxes axes,
                       Initializer init, Dims disk);
  // x[b s ..] with its positions in the order of the tokens, without padding.
  ValueId InOrder(ValueId x);
  // The extent of a dim with zeros behind it.
  int64_t Padded(const std::string& axis, int64_t extent) const;
  // `value` with the logical axes of its dims, which a plan maps to mesh axes; "" = never sharded.
  ValueId WithAxes(ValueId value, const LogicalAxes& axes);
  ValueId OfResidual(ValueId value) { return WithAxes(value, {"batch", "residual", "embed"}); }
  ValueId Append(int64_t layer, absl::string_view what, ValueId rows);

  const ModelConfig& config_;
  const ForwardOptions& options_;
  GraphBuilder graph_;
  DType residual_;
  ValueId order_ = kNoValue;  // of the tokens in their rows, where it is not 0, 1, 2 ...
  int64_t row_length_ = 0;    // without padding, where random masks need to know
  ValueId input_ids_ = kNoValue, labels_ = kNoValue, positions_ = kNoValue, segments_ = kNoValue;
  ValueId loss_seed_ = kNoValue, dropout_key_ = kNoValue, first_row_ = kNoValue;
  ValueId cache_length_ = kNoValue, kv_length_ = kNoValue;
  ValueId inverse_frequencies_ = kNoValue;
  double rotary_scale_ = 1;
};

// The families' builders; model.cc lists them.
absl::Status BuildGpt2(ModelBuilder& model);
absl::Status BuildLlama(ModelBuilder& model);  // llama, mistral, qwen2

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_MODEL_BUILDER_H_
