#include "tensor/testing/random_graph.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/softmax.h"

namespace colossus {
namespace {

constexpr int64_t kIdLimit = 5;
constexpr int64_t kMaxValueElements = 2000;

class RandomGraphMaker {
 public:
  RandomGraphMaker(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options), b_("random") {}

  Graph Make();

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  int64_t Extent() {
    static constexpr int64_t kExtents[] = {1, 2, 3, 4, 5, 7};
    return kExtents[Below(6)];
  }
  const Dims& dims(ValueId v) const { return b_.type(v).dims; }
  int rank(ValueId v) const { return b_.type(v).rank(); }

  // A float value of the pool, more often a recent one.
  ValueId Pick() {
    int64_t n = static_cast<int64_t>(pool_.size());
    return pool_[Chance(60) ? n - 1 - Below(std::min<int64_t>(n, 4)) : Below(n)];
  }
  // One with these dims, or kNoValue.
  ValueId PickWith(const Dims& dims);
  // A parameter: new, or one of these dims made before.
  ValueId Parameter(const Dims& dims);
  // Keeps values within [-1, 1] after growth.
  ValueId Tame(ValueId v) { return Tanh(b_, Scale(b_, v, 0.75)); }

  // Each makes one value (or returns kNoValue if x does not suit).
  ValueId Unary(ValueId x);
  ValueId Binary(ValueId x);
  ValueId Product(ValueId x);
  ValueId Reduction(ValueId x);
  ValueId Permuted(ValueId x);
  ValueId Reshaped(ValueId x);
  ValueId Sliced(ValueId x);
  ValueId Joined(ValueId x);
  ValueId Normalized(ValueId x);
  ValueId Narrowed(ValueId x);
  ValueId Gated(ValueId x);
  ValueId Masked(ValueId x);
  ValueId Attended(ValueId x);
  ValueId LookedUp(ValueId x);

  // A scalar of the loss' dtype.
  ValueId LossTerm(ValueId v, DType dtype);
  ValueId FusedLoss();

  void AddFeeds();
  void AddLoss();
  void AddUpdates();

  std::mt19937_64 random_;
  RandomGraphOptions options_;
  GraphBuilder b_;
  ValueIds pool_;        // float values of options_.dtype
  ValueIds parameters_;
  int sites_ = 0;
};

ValueId RandomGraphMaker::PickWith(const Dims& wanted) {
  ValueIds fitting;
  for (ValueId v : pool_) {
    if (dims(v) == wanted) fitting.push_back(v);
  }
  return fitting.empty() ? kNoValue : fitting[Below(static_cast<int64_t>(fitting.size()))];
}

ValueId RandomGraphMaker::Parameter(const Dims& wanted) {
  for (ValueId v : parameters_) {
    if (dims(v) == wanted && Chance(60)) return v;
  }
  StateInfo info;
  info.name = absl::StrCat("w", parameters_.size());
  info.global_dims = info.disk_dims = wanted;
  info.axes.assign(wanted.size(), "");
  if (!wanted.empty()) info.axes[0] = "embed";
  // The first one trains, so that there always is a gradient.
  info.trainable = parameters_.empty() || Chance(75);
  info.decayed = Chance(50);
  info.init = Chance(50) ? Initializer::Normal(0.02) : Initializer::Constant(1);
  ValueId v = b_.AddState(std::move(info), {options_.dtype, wanted});
  parameters_.push_back(v);
  return v;
}

ValueId RandomGraphMaker::Unary(ValueId x) {
  switch (Below(9)) {
    case 0: return Tanh(b_, x);
    case 1: return Sigmoid(b_, x);
    case 2: return Sin(b_, x);
    case 3: return Gelu(b_, x);
    case 4: return Silu(b_, x);
    case 5: return GeluTanh(b_, x);
    case 6: return Scale(b_, x, 0.5 + static_cast<double>(Below(4)) * 0.25);
    case 7: return Neg(b_, x);
    default: return Tame(Exp(b_, x));
  }
}

ValueId RandomGraphMaker::Binary(ValueId x) {
  ValueId y = Chance(50) ? PickWith(dims(x)) : kNoValue;
  if (y == kNoValue) {
    // A broadcast operand: trailing dims of x, some of them 1.
    Dims small(dims(x).begin() + Below(rank(x) + 1), dims(x).end());
    for (int64_t& extent : small) extent = Chance(30) ? 1 : extent;
    y = Parameter(small);
  }
  if (Chance(50)) std::swap(x, y);
  switch (Below(3)) {
    case 0: return Tame(Add(b_, x, y));
    case 1: return Tame(Sub(b_, x, y));
    default: return Mul(b_, x, y);
  }
}

ValueId RandomGraphMaker::Product(ValueId x) {
  if (rank(x) == 0 || rank(x) > 4) return kNoValue;
  static constexpr absl::string_view kLeft[] = {"", "", "a ", "a b ", "a b e "};
  absl::string_view left = kLeft[rank(x)];
  ValueId w = Parameter({dims(x).back(), Extent()});
  return Tame(Matmul(b_, absl::StrCat(left, "c, c d -> ", left, "d"), x, w));
}

ValueId RandomGraphMaker::Reduction(ValueId x) {
  if (rank(x) == 0) return kNoValue;
  return Tame(ReduceSum(b_, x, {Below(rank(x))}, Chance(50)));
}

ValueId RandomGraphMaker::Permuted(ValueId x) {
  if (rank(x) < 2) return kNoValue;
  Ints perm;
  for (int d = 0; d < rank(x); ++d) perm.push_back(d);
  std::swap(perm[Below(rank(x))], perm[rank(x) - 1]);
  return Transpose(b_, x, perm);
}

ValueId RandomGraphMaker::Reshaped(ValueId x) {
  if (rank(x) == 2) {
    return Reshape(b_, x, "a b -> (a b)", {dims(x)[0] * dims(x)[1]});
  }
  if (rank(x) == 3) {
    return Reshape(b_, x, "a b c -> a (b c)", {dims(x)[0], dims(x)[1] * dims(x)[2]});
  }
  if (rank(x) != 1) return kNoValue;
  int64_t n = dims(x)[0];
  return n % 2 == 0 ? Reshape(b_, x, "(a b) -> a b", {2, n / 2})
                    : Reshape(b_, x, "a -> a 1", {n, 1});
}

ValueId RandomGraphMaker::Sliced(ValueId x) {
  if (rank(x) == 0) return kNoValue;
  Ints low(rank(x), 0), high(rank(x), 0), limits(dims(x).begin(), dims(x).end());
  int64_t d = Below(rank(x));
  if (Chance(50)) {
    low[d] = Below(2);
    high[d] = Below(3);
    return Pad(b_, x, low, high, 0.25);
  }
  low[d] = Below(limits[d]);
  limits[d] = low[d] + 1 + Below(limits[d] - low[d]);
  return Slice(b_, x, low, limits);
}

ValueId RandomGraphMaker::Joined(ValueId x) {
  if (rank(x) == 0) return kNoValue;
  if (Chance(30)) {
    Dims wide = dims(x);
    wide.insert(wide.begin(), Extent());
    return Broadcast(b_, x, wide);
  }
  ValueId other = PickWith(dims(x));
  return Concat(b_, ValueIds{x, other}, static_cast<int>(Below(rank(x))));
}

ValueId RandomGraphMaker::Normalized(ValueId x) {
  if (rank(x) == 0) return kNoValue;
  // A large epsilon: rows of one element or of equal ones have no steep gradient.
  Dims last = {dims(x).back()};
  switch (Below(3)) {
    case 0: return Softmax(b_, x);
    case 1: return Tame(RmsNorm(b_, x, Parameter(last), 0.25, static_cast<int>(Below(2))));
    default: return Tame(LayerNorm(b_, x, Parameter(last), Parameter(last), 0.25));
  }
}

ValueId RandomGraphMaker::Masked(ValueId x) {
  if (rank(x) == 0) return kNoValue;
  return Dropout(b_, x, b_.graph().FindValue("key"), b_.graph().FindValue("first_row"), 0.25,
                 absl::StrCat("site", sites_++));
}

ValueId RandomGraphMaker::Attended(ValueId x) {
  if (rank(x) != 3) return kNoValue;
  int64_t c = dims(x)[2], heads = c % 2 == 0 ? 2 : 1;
  Dims split = {dims(x)[0], dims(x)[1], heads, c / heads};
  ValueId q = Reshape(b_, x, "b s (h d) -> b s h d", split);
  ValueId k = Chance(50) ? q : Sin(b_, q);
  AttentionOptions options;
  options.scale = 0.5;
  options.causal = Chance(50);
  if (Chance(30)) {
    options.dropout_rate = 0.25;
    options.site = absl::StrCat("site", sites_++);
    options.dropout_key = b_.graph().FindValue("key");
    options.first_row = b_.graph().FindValue("first_row");
  }
  return Reshape(b_, Attention(b_, q, k, Chance(50) ? k : q, options), "b s h d -> b s (h d)",
                 dims(x));
}

ValueId RandomGraphMaker::LookedUp(ValueId) {
  return Embedding(b_, Parameter({kIdLimit, Extent()}), b_.graph().FindValue("ids"));
}

ValueId RandomGraphMaker::LossTerm(ValueId v, DType dtype) {
  Ints all;
  for (int d = 0; d < rank(v); ++d) all.push_back(d);
  if (rank(v) == 0 || !Chance(30)) {
    return Convert(b_, ReduceSum(b_, Sin(b_, v), all, false), dtype);
  }
  Dims rows(dims(v).begin(), dims(v).end() - 1);
  ValueId labels = ConstantInts(b_, DType::kI32, rows, {Below(dims(v).back())});
  return Convert(b_, CrossEntropy(b_, v, labels), dtype);
}

// Its gradients are results of the forward node.
ValueId RandomGraphMaker::FusedLoss() {
  LossOptions options;
  options.seed = b_.graph().FindValue("seed");
  ValueId ids = b_.graph().FindValue("ids");
  ValueId x = Tame(Embedding(b_, Parameter({kIdLimit, 3}), ids));
  return LinearCrossEntropy(b_, x, Parameter({kIdLimit, 3}), ids, options);
}

ValueId RandomGraphMaker::Narrowed(ValueId x) {
  if (options_.dtype == DType::kF64) return kNoValue;
  return Convert(b_, Sin(b_, Convert(b_, x, DType::kBF16)), options_.dtype);
}

// A smooth use of a comparison: both branches meet nowhere near the border for most elements, and
// the condition takes no gradient.
ValueId RandomGraphMaker::Gated(ValueId x) {
  ValueId mask = b_.graph().FindValue("mask");
  return Select(b_, Broadcast(b_, mask, dims(x)), x, Scale(b_, x, 0.5));
}

void RandomGraphMaker::AddFeeds() {
  DType dtype = options_.dtype;
  Dims whole = {Extent(), Extent(), 1 + Extent()};
  pool_.push_back(b_.Feed("x", {dtype, whole}));
  pool_.push_back(b_.Feed("x1", {dtype, {whole[2]}}));
  b_.Feed("mask", {DType::kBool, {}});
  b_.Feed("seed", {dtype == DType::kF64 ? dtype : DType::kF32, {}});
  b_.Feed("key", {DType::kI64, {2}});
  b_.Feed("first_row", {DType::kI64, {}});
  b_.Feed("ids", {DType::kI32, {whole[0], whole[1]}});
  pool_.push_back(Mul(b_, pool_[0], Parameter({whole[2]})));
}

void RandomGraphMaker::AddLoss() {
  BlockScope scope(b_, "loss");
  DType dtype = options_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  ValueId loss = kNoValue;
  std::vector<std::vector<NodeId>> uses = b_.graph().Uses();
  for (ValueId v : pool_) {
    if (!uses[v].empty() && !Chance(15)) continue;
    ValueId term = LossTerm(v, dtype);
    loss = loss == kNoValue ? term : Add(b_, loss, term);
    // A few leaves stay outside: dead code.
    if (Chance(10)) break;
  }
  // Whatever was left out, the first parameter counts.
  ValueId first = Convert(b_, Tanh(b_, parameters_[0]), dtype);
  loss = Add(b_, loss, ReduceSum(b_, first, {0}, false));
  if (options_.dtype == DType::kF32 && Chance(30)) loss = Add(b_, loss, FusedLoss());
  b_.Output("loss", loss);
  b_.Output("some", Pick());
}

void RandomGraphMaker::AddUpdates() {
  BlockScope scope(b_, "update");
  for (int i = 0; i < 2; ++i) {
    ValueId x = Pick();
    StateInfo info;
    info.name = absl::StrCat("m", i);
    info.role = i == 0 ? Role::kBuffer : Role::kMoment1;
    info.trainable = false;
    info.global_dims = dims(x);
    ValueId m = b_.AddState(std::move(info), b_.type(x));
    if (i == 0 || Chance(50)) b_.UpdateState(m, Add(b_, Scale(b_, m, 0.5), x));
  }
}

Graph RandomGraphMaker::Make() {
  AddFeeds();
  using Maker = ValueId (RandomGraphMaker::*)(ValueId);
  static constexpr Maker kMakers[] = {
      &RandomGraphMaker::Unary,    &RandomGraphMaker::Unary,    &RandomGraphMaker::Binary,
      &RandomGraphMaker::Binary,   &RandomGraphMaker::Product,  &RandomGraphMaker::Reduction,
      &RandomGraphMaker::Permuted, &RandomGraphMaker::Reshaped, &RandomGraphMaker::Sliced,
      &RandomGraphMaker::Joined,   &RandomGraphMaker::Gated,    &RandomGraphMaker::Narrowed,
      &RandomGraphMaker::Masked,   &RandomGraphMaker::Attended, &RandomGraphMaker::Attended,
      &RandomGraphMaker::LookedUp, &RandomGraphMaker::Normalized, &RandomGraphMaker::Normalized};
  for (int step = 0; step < options_.steps; ++step) {
    BlockScope scope(b_, absl::StrCat("b.", step * options_.blocks / options_.steps));
    ValueId v = (this->*kMakers[Below(std::size(kMakers))])(Pick());
    CHECK_OK(b_.status());
    if (v == kNoValue || rank(v) > 4 || b_.type(v).elements() > kMaxValueElements) continue;
    pool_.push_back(v);
  }
  AddUpdates();
  AddLoss();
  absl::StatusOr<Graph> graph = std::move(b_).Build();
  CHECK_OK(graph.status());
  return *std::move(graph);
}

}  // namespace

Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return RandomGraphMaker(seed, options).Make();
}

std::vector<std::string> RandomGraphBlocks(const RandomGraphOptions& options) {
  std::vector<std::string> blocks;
  for (int i = 0; i < options.blocks; ++i) blocks.push_back(absl::StrCat("b.", i));
  return blocks;
}

HostTensors RandomInputs(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensors inputs;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    HostTensor tensor(value.type);
    for (int64_t i = 0; i < value.type.elements(); ++i) {
      double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      if (value.type.dtype == DType::kBool) tensor.Set(i, unit < 0.5 ? 0 : 1);
      else if (IsFloat(value.type.dtype)) tensor.Set(i, 2 * unit - 1);
      else tensor.Set(i, static_cast<double>(static_cast<int64_t>(unit * kIdLimit)));
    }
    inputs[value.name] = std::move(tensor);
  }
  return inputs;
}

}  // namespace colossus
