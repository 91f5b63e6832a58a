#include "shardformer/model_builder.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "shardformer/rope.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/cache_append.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/rotary.h"
#include "tensor/ops/shape.h"

namespace colossus {

ModelBuilder::ModelBuilder(const ModelConfig& config, const ForwardOptions& options)
    : config_(config),
      options_(options),
      graph_(config.family),
      residual_(options.compute == DType::kF64 ? DType::kF64 : DType::kF32) {
  CheckOptions();
  const Dims tokens = {options.rows, options.length};
  graph_.SetBlock("embed");
  auto per_token = [&](absl::string_view name) {
    return WithAxes(graph_.Feed(name, {DType::kI32, tokens}), {"batch", "seq"});
  };
  input_ids_ = per_token("input_ids");
  if (options.loss) labels_ = per_token("labels");
  // Random masks are those of rows without padding, which positions tell.
  if (options.dropout && options.padding > 0) row_length_ = options.length - options.padding;
  if (!options.order.empty() || row_length_ > 0) order_ = OrderOf(INT32_MAX);
  bool given = options.packed || options.cache_capacity > 0;
  positions_ = given ? per_token("positions") : MakePositions();
  if (options.packed) segments_ = per_token("segments");
  if (options.gradients) loss_seed_ = graph_.Feed("loss_seed", {residual_, {}});
  if (options.dropout) {
    dropout_key_ = graph_.Feed("dropout_key", {DType::kI64, {2}});
    first_row_ = graph_.Feed("first_row", {DType::kI64, {}});
  }
  if (options.cache_capacity > 0) {
    cache_length_ = WithAxes(graph_.Feed("cache_length", {DType::kI32, {options.rows}}), {"batch"});
    kv_length_ =
        Add(graph_, cache_length_, ConstantInts(graph_, DType::kI32, {}, {options.length}));
  }
}

ValueId ModelBuilder::OrderOf(int64_t most) {
  Ints indices = options_.order;
  if (indices.empty()) {
    for (int64_t i = 0; i < options_.length; ++i) indices.push_back(i);
  }
  for (int64_t& index : indices) index = std::min(index, most);
  const ValueId order = ConstantInts(graph_, DType::kI32, {options_.length}, std::move(indices));
  return WithAxes(Broadcast(graph_, order, {options_.rows, options_.length}), {"batch", "seq"});
}

// A table of positions has no rows for padding behind its end.
ValueId ModelBuilder::MakePositions() {
  const bool beyond = !config_.rope.has_value() && options_.length > config_.max_positions;
  if (beyond) return OrderOf(config_.max_positions - 1);
  if (order_ != kNoValue) return order_;
  return Iota(graph_, DType::kI32, {options_.rows, options_.length}, 1);
}

int64_t ModelBuilder::Padded(const std::string& axis, int64_t extent) const {
  const int64_t multiple = axis == "vocab" ? options_.vocabulary_multiple
                           : axis == "mlp" ? options_.mlp_multiple
                                           : 1;
  return (extent + multiple - 1) / multiple * multiple;
}

void ModelBuilder::CheckOptions() {
  auto refuse = [&](std::string why) { graph_.Fail(absl::InvalidArgumentError(std::move(why))); };
  const ForwardOptions& o = options_;
  if (o.rows < 1 || o.length < 1) refuse("a model needs at least one row and one token");
  if (!IsFloat(o.compute)) refuse("compute precision must be a float type");
  if (o.gradients && !o.loss) refuse("gradients need the loss");
  if (!o.loss && !o.logits) refuse("neither loss nor logits asked for");
  if (o.cache_capacity > 0 && (o.gradients || o.packed)) {
    refuse("a cache is for generation: it does not go with gradients or packed rows");
  }
  if (o.cache_capacity > 0 && o.cache_capacity < o.length) {
    refuse(absl::StrCat("a cache of ", o.cache_capacity, " tokens cannot take ", o.length));
  }
  if (!o.order.empty() && static_cast<int64_t>(o.order.size()) != o.length) {
    refuse(absl::StrCat("an order of ", o.order.size(), " positions for a length of ", o.length));
  }
  if ((!o.order.empty() || o.padding > 0) && o.cache_capacity > 0) {
    refuse("rows in another order or padded do not go with a cache");
  }
  int64_t longest = std::max(o.length - o.padding, o.cache_capacity);
  bool dynamic = config_.rope.has_value() && config_.rope->type == RopeType::kDynamic;
  bool bounded = !config_.rope.has_value() || (dynamic && o.cache_capacity > 0);
  if (bounded && longest > config_.max_positions) {
    refuse(absl::StrCat("a length of ", longest, " tokens is beyond the model's ",
                        config_.max_positions, " positions"));
  }
}

ValueId ModelBuilder::Parameter(absl::string_view name, Dims dims, LogicalAxes axes,
                                Initializer init, Dims disk) {
  return AddParameter(name, options_.compute, std::move(dims), std::move(axes), init,
                      std::move(disk));
}

ValueId ModelBuilder::NormParameter(absl::string_view name, double initial) {
  return AddParameter(name, residual_, {config_.hidden}, {"embed"}, Initializer::Constant(initial),
                      {});
}

ValueId ModelBuilder::AddParameter(absl::string_view name, DType dtype, Dims dims, LogicalAxes axes,
                                   Initializer init, Dims disk) {
  StateInfo info;
  info.name = std::string(name);
  info.global_dims = dims;
  info.disk_dims = disk.empty() ? dims : disk;
  info.axes = std::move(axes);
  info.decayed = info.disk_dims.size() == 2;
  info.trainable = config_.frozen.count(info.name) == 0;
  info.init = init;
  CHECK_EQ(info.axes.size(), dims.size()) << name;
  CHECK_EQ(ElementCount(info.disk_dims), ElementCount(dims)) << name;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = Padded(info.axes[d], dims[d]);
  return graph_.AddState(std::move(info), {dtype, std::move(dims)});
}

Initializer ModelBuilder::Normal(double divisor) const {
  return Initializer::Normal(config_.initializer_range / divisor);
}

ValueId ModelBuilder::WithAxes(ValueId value, const LogicalAxes& axes) {
  Sharding sharding;
  for (const std::string& axis : axes) {
    sharding.dims.push_back(axis.empty() ? AxisNames{} : AxisNames{axis});
  }
  graph_.Annotate(value, std::move(sharding), std::nullopt);
  return value;
}

ValueId ModelBuilder::Embed(ValueId table, ValueId ids) {
  return OfResidual(Embedding(graph_, table, ids, residual_));
}

ValueId ModelBuilder::Drop(ValueId x, double rate, absl::string_view site) {
  if (!options_.dropout || rate == 0) return x;
  return Dropout(graph_, x, dropout_key_, first_row_, rate, site, "", order_, row_length_);
}

ValueId ModelBuilder::AddResidual(ValueId x, ValueId update, absl::string_view site) {
  update = Drop(update, config_.residual_dropout, site);
  return OfResidual(Add(graph_, x, Convert(graph_, update, residual_)));
}

ValueId ModelBuilder::Activate(ValueId x) {
  switch (config_.activation) {
    case Activation::kGelu:
      return Gelu(graph_, x);
    case Activation::kGeluTanh:
      return GeluTanh(graph_, x);
    case Activation::kQuickGelu:
      return QuickGelu(graph_, x);
    case Activation::kSilu:
      return Silu(graph_, x);
    case Activation::kRelu:
      return Relu(graph_, x);
  }
  CHECK(false) << "unknown activation";
  return kNoValue;
}

ValueId ModelBuilder::Append(int64_t layer, absl::string_view what, ValueId rows) {
  StateInfo info;
  info.name = absl::StrCat("cache/", layer, "/", what);
  info.role = Role::kCache;
  Type type = graph_.type(rows);
  if (type.rank() != 4) return kNoValue;  // an earlier error
  type.dims[1] = options_.cache_capacity;
  info.global_dims = info.disk_dims = type.dims;
  info.axes = {"batch", "", "kv_heads", "head_dim"};
  info.trainable = false;
  info.init = Initializer::Constant(0);
  ValueId before = graph_.AddState(std::move(info), type);
  ValueId after = CacheAppend(graph_, before, rows, cache_length_);
  graph_.UpdateState(before, after);
  return after;
}

ValueId ModelBuilder::Attend(int64_t layer, ValueId q, ValueId k, ValueId v) {
  WithAxes(q, {"batch", "attention_seq", "heads", ""});
  for (ValueId x : {k, v}) WithAxes(x, {"batch", "attention_seq", "kv_heads", ""});
  AttentionOptions attention;
  attention.scale = config_.AttentionScale(layer);
  attention.causal = true;
  attention.window = config_.windows[layer];
  attention.q_positions = attention.k_positions = order_;
  if (options_.packed) {
    attention.q_segments = attention.k_segments = segments_;
  }
  if (options_.dropout && config_.attention_dropout > 0) {
    attention.dropout_rate = config_.attention_dropout;
    attention.site = absl::StrCat(LayerBlock(layer), "/attention");
    attention.dropout_key = dropout_key_;
    attention.first_row = first_row_;
    attention.row_length = row_length_;
  }
  if (options_.cache_capacity > 0) {
    k = Append(layer, "k", k);
    v = Append(layer, "v", v);
    attention.q_positions = positions_;
    attention.kv_length = kv_length_;
  }
  return WithAxes(Attention(graph_, q, k, v, attention), {"batch", "attention_seq", "heads", ""});
}

ValueId ModelBuilder::Rotate(ValueId x) {
  if (inverse_frequencies_ == kNoValue) {
    absl::StatusOr<RopeFrequencies> rope = ComputeRopeFrequencies(
        *config_.rope, config_.head_dim, config_.max_positions, options_.length - options_.padding);
    if (!rope.ok()) {
      graph_.Fail(rope.status());
      return kNoValue;
    }
    rotary_scale_ = rope->attention_factor;
    Dims dims = {static_cast<int64_t>(rope->inverse_frequencies.size())};
    BlockScope block(graph_, "embed");
    inverse_frequencies_ =
        Constant(graph_, DType::kF32, dims, std::move(rope->inverse_frequencies));
  }
  return Rotary(graph_, x, positions_, inverse_frequencies_, /*interleaved=*/false, rotary_scale_);
}

ValueId ModelBuilder::InOrder(ValueId x) {
  const Dims dims = graph_.type(x).dims;
  if (dims.size() != 3) return x;  // an earlier error
  auto cut = [&](ValueId from, int64_t first, int64_t count) {
    return Slice(graph_, from, {0, first, 0}, {dims[0], first + count, dims[2]});
  };
  // Runs of neighbours: first token -> first position, and how many.
  std::map<int64_t, std::pair<int64_t, int64_t>> runs;
  const std::vector<int64_t>& order = options_.order;
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (i > 0 && order[i] != order[i - 1] + 1) first = i;
    runs[order[first]] = {static_cast<int64_t>(first), static_cast<int64_t>(i - first + 1)};
  }
  ValueIds parts;
  for (const auto& [token, run] : runs) parts.push_back(cut(x, run.first, run.second));
  if (parts.size() > 1) x = Concat(graph_, parts, 1);
  return options_.padding == 0 ? x : cut(x, 0, dims[1] - options_.padding);
}

void ModelBuilder::Head(ValueId x, ValueId weight) {
  const bool padded = Padded("vocab", config_.vocabulary) != config_.vocabulary;
  if (options_.loss) {
    LossOptions loss;
    loss.seed = loss_seed_;
    if (padded) loss.classes = config_.vocabulary;
    graph_.Output("loss_sum", LinearCrossEntropy(graph_, x, weight, labels_, loss));
  }
  if (options_.logits) {
    ValueId logits = Matmul(graph_, "b s c, v c -> b s v", x, weight, residual_);
    if (padded) {
      logits =
          Slice(graph_, logits, {0, 0, 0}, {options_.rows, options_.length, config_.vocabulary});
    }
    graph_.Output("logits", InOrder(logits));
  }
}

absl::StatusOr<Graph> ModelBuilder::Finish() && { return std::move(graph_).Build(); }

}  // namespace colossus
