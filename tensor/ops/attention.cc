#include "tensor/ops/attention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/attention_expand.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// attention_c1: q, k, v are of one float dtype, 4 dims each.
// attention_c2: extents agree: q[b s h d], k[b t g d], v[b t g e], h a multiple of g.
// attention_c3: attributes are known, of their types, and scale is there.
// attention_c4: "with" agrees with the operands.
// attention_c5: q_segments and k_segments come together, i32[b s] and i32[b t].
// attention_c6: q_positions is i32[b s], k_positions i32[b t].
// attention_c7: kv_length is i32[b]; with causal, window or slopes it needs q_positions.
// attention_c8: slopes is f32[h].
// attention_c9: bias is a float type of dims [h s t] or [b h s t].
// attention_c10: dropout_key i64[2], first_row i64[] and a site are there exactly if
//                dropout_rate > 0; dropout_rate < 1.
// attention_c11: window >= 0, softcap >= 0.
// attention_c12: origin and global have 4 entries, the part lies inside; so do key_origin and
//                key_global; but where positions say where queries or keys are.
// attention_c13: (attention_grad) dout and out are as the result, lse as the statistics.
constexpr absl::string_view kRoles[] = {"q_segments",  "k_segments",  "q_positions",
                                        "k_positions", "kv_length",   "slopes",
                                        "bias",        "dropout_key", "first_row"};

absl::Status CheckExtents(const Type& q, const Type& k, const Type& v) {
  for (const Type* type : {&q, &k, &v}) {
    if (!IsFloat(type->dtype) || type->dtype != q.dtype || type->rank() != 4) {
      return Refuse("attention_c1", absl::StrCat("q, k, v are ", ToString(q), ", ", ToString(k),
                                                 ", ", ToString(v)));
    }
  }
  bool agree = k.dims[0] == q.dims[0] && v.dims[0] == q.dims[0] && k.dims[1] == v.dims[1] &&
               k.dims[2] == v.dims[2] && k.dims[3] == q.dims[3] && k.dims[2] > 0 &&
               q.dims[2] % k.dims[2] == 0;
  if (agree) return absl::OkStatus();
  return Refuse("attention_c2", absl::StrCat("extents do not agree: q ", ToString(q), ", k ",
                                             ToString(k), ", v ", ToString(v)));
}

absl::Status CheckAttributesOf(const OpCall& call) {
  using Kind = AttributeKind;
  RETURN_IF_ERROR(CheckAttributeTypes(call, "attention_c3",
                                      {{"scale", Kind::kFloat, true},
                                       {"causal", Kind::kBool},
                                       {"window", Kind::kInt},
                                       {"softcap", Kind::kFloat},
                                       {"dropout_rate", Kind::kFloat},
                                       {"site", Kind::kString},
                                       {"origin", Kind::kInts},
                                       {"global", Kind::kInts},
                                       {"key_origin", Kind::kInt},
                                       {"key_global", Kind::kInt},
                                       {"with", Kind::kStrings}}));
  if (call.attributes.IntOr("window", 0) < 0 || !(call.attributes.FloatOr("softcap", 0) >= 0)) {
    return Refuse("attention_c11", "window or softcap is negative");
  }
  return absl::OkStatus();
}

absl::Status CheckSegmentsAndPositions(const OpCall& call, const AttentionProblem& p) {
  Type queries{DType::kI32, {p.b, p.s}}, keys{DType::kI32, {p.b, p.t}};
  if ((p.q_segments < 0) != (p.k_segments < 0)) {
    return Refuse("attention_c5", "q_segments and k_segments come together");
  }
  auto check = [&](int i, absl::string_view constraint, absl::string_view what, const Type& type) {
    return i < 0 ? absl::OkStatus() : CheckOperand(call, constraint, i, what, type);
  };
  RETURN_IF_ERROR(check(p.q_segments, "attention_c5", "q_segments", queries));
  RETURN_IF_ERROR(check(p.k_segments, "attention_c5", "k_segments", keys));
  RETURN_IF_ERROR(check(p.q_positions, "attention_c6", "q_positions", queries));
  RETURN_IF_ERROR(check(p.k_positions, "attention_c6", "k_positions", keys));
  RETURN_IF_ERROR(check(p.kv_length, "attention_c7", "kv_length", {DType::kI32, {p.b}}));
  bool uses_positions = p.causal || p.window > 0 || p.slopes >= 0;
  if (p.kv_length >= 0 && uses_positions && p.q_positions < 0) {
    return Refuse("attention_c7", "kv_length with causal, window or slopes needs q_positions");
  }
  return check(p.slopes, "attention_c8", "slopes", {DType::kF32, {p.h}});
}

absl::Status CheckBiasAndDropout(const OpCall& call, const AttentionProblem& p) {
  if (p.bias >= 0) {
    const Type& bias = call.operands[p.bias];
    bool fits = bias.dims == Dims{p.h, p.s, p.t} || bias.dims == Dims{p.b, p.h, p.s, p.t};
    if (!IsFloat(bias.dtype) || !fits) {
      return Refuse("attention_c9", absl::StrCat("bias is ", ToString(bias), ", needs [", p.h, ",",
                                                 p.s, ",", p.t, "], the batch dim optional"));
    }
  }
  if (!(p.dropout_rate >= 0 && p.dropout_rate < 1)) {
    return Refuse("attention_c10", "dropout_rate is not in [0, 1)");
  }
  bool wanted = p.dropout_rate > 0, site = !call.attributes.StringOr("site", "").empty();
  if ((p.dropout_key >= 0) != wanted || (p.first_row >= 0) != wanted || site != wanted) {
    return Refuse("attention_c10", "dropout_key, first_row and site go with dropout_rate > 0");
  }
  if (!wanted) return absl::OkStatus();
  RETURN_IF_ERROR(
      CheckOperand(call, "attention_c10", p.dropout_key, "dropout_key", {DType::kI64, {2}}));
  return CheckOperand(call, "attention_c10", p.first_row, "first_row", {DType::kI64, {}});
}

absl::Status CheckOrigins(const AttentionProblem& p) {
  auto lies = [](int64_t origin, int64_t extent, int64_t global, bool told) {
    return origin >= 0 && global >= 1 && (told || origin + extent <= global);
  };
  const bool inside = lies(p.key_origin, p.t, p.key_global, p.k_positions >= 0) &&
                      lies(p.origin[0], p.b, p.global[0], false) &&
                      lies(p.origin[1], p.s, p.global[1], p.q_positions >= 0) &&
                      lies(p.origin[2], p.h, p.global[2], false) &&
                      lies(p.origin[3], p.e, p.global[3], false);
  return inside ? absl::OkStatus() : Refuse("attention_c12", "the part lies outside the whole");
}

absl::Status CheckAttention(const OpCall& call, int fixed) {
  RETURN_IF_ERROR(CheckAttributesOf(call));
  RETURN_IF_ERROR(CheckRoles(call, "attention_c4", fixed,
                             {kRoles[0], kRoles[1], kRoles[2], kRoles[3], kRoles[4], kRoles[5],
                              kRoles[6], kRoles[7], kRoles[8]}));
  int q = fixed == 3 ? 0 : 1;
  RETURN_IF_ERROR(CheckExtents(call.operands[q], call.operands[q + 1], call.operands[q + 2]));
  for (absl::string_view name : {"origin", "global"}) {
    if (call.attributes.Has(name) && call.attributes.IntList(name).size() != 4) {
      return Refuse("attention_c12", absl::StrCat(name, " needs 4 entries"));
    }
  }
  AttentionProblem problem = DescribeAttention(call, fixed);
  RETURN_IF_ERROR(CheckSegmentsAndPositions(call, problem));
  RETURN_IF_ERROR(CheckBiasAndDropout(call, problem));
  return CheckOrigins(problem);
}

Types ForwardTypes(const OpCall& call, const AttentionProblem& p, int q) {
  DType dtype = call.operands[q].dtype;
  return {{dtype, {p.b, p.s, p.h, p.e}}, {StatisticsDType(dtype), {p.b, p.h, p.s}}};
}

// Labels of the optional operands present.
std::string RoleLabels(const OpCall& call, const AttentionProblem& p) {
  std::string text;
  for (const std::string& role : call.attributes.StringListOr("with", {})) {
    absl::string_view labels = "";
    if (role == "q_segments" || role == "q_positions") labels = "b s";
    if (role == "k_segments" || role == "k_positions") labels = "b t";
    if (role == "kv_length") labels = "b";
    if (role == "slopes") labels = "(g r)";
    if (role == "bias") labels = p.bias_per_batch ? "b (g r) s t" : "(g r) s t";
    if (role == "dropout_key") labels = "key";
    absl::StrAppend(&text, ", ", labels);
  }
  return text;
}

// Heads are split by group first: the grouped-query rule. Keys are split with collectives inside.
void SetKinds(const AttentionProblem& p, FactorRule& rule) {
  // lse does not have e and would be the same in all parts, not a partial sum.
  rule.Set("d", FactorKind::kWhole).Set("e", FactorKind::kWhole).Set("t", FactorKind::kExpand);
  bool uses_positions = p.causal || p.window > 0 || p.slopes >= 0;
  bool dropout = p.dropout_rate > 0;
  if (dropout || (uses_positions && p.q_positions < 0)) rule.Set("s", FactorKind::kIndexed);
  if (!dropout) return;
  for (absl::string_view label : {"b", "g", "r"}) rule.Set(label, FactorKind::kIndexed);
  rule.Set("key", FactorKind::kWhole);
}

// Default positions and dropout are functions of the global index, which origin and global tell.
Attributes LocalAttributes(const OpCall& call, const AttentionProblem& p, const FactorRule& rule,
                           const ValueFactors& out_dims, absl::Span<const FactorPart> parts) {
  Attributes local = call.attributes;
  bool indexed = false;
  for (const Factor& factor : rule.factors) {
    indexed = indexed || factor.kind == FactorKind::kIndexed;
  }
  if (indexed) SetPart(rule, out_dims, {p.b, p.s, p.h, p.e}, parts, local);
  return local;
}

// Operations on a score: product, scale, softcap, slopes, bias.
double ScoreFlops(const AttentionProblem& p) {
  return 2.0 * static_cast<double>(p.d) + 1 + 3 * (p.softcap > 0) + 2 * (p.slopes >= 0) +
         (p.bias >= 0);
}

class AttentionDefinition final : public Op {
 public:
  absl::string_view name() const override { return "attention"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttention(call, 3));
    return ForwardTypes(call, DescribeAttention(call, 3), 0);
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    if (g.has_dy(1)) return absl::InvalidArgumentError("attention: lse has no gradient");
    int bias = OptionalOperand(g.attributes(), 3, "bias");
    int slopes = OptionalOperand(g.attributes(), 3, "slopes");
    if (slopes >= 0 && g.needs(slopes)) {
      return absl::InvalidArgumentError("attention: slopes have no gradient");
    }
    ValueIds operands{g.dy(0), g.x(0), g.x(1), g.x(2), g.y(0), g.y(1)};
    for (int i = 3; i < g.x_count(); ++i) operands.push_back(g.x(i));
    ValueIds results = g.graph().Apply(AttentionGradOp(), std::move(operands), g.attributes());
    for (int i = 0; i < 3; ++i) g.Add(i, Convert(g.graph(), results[i], g.gradient_dtype(i)));
    if (bias >= 0) g.Add(bias, Convert(g.graph(), results[3], g.gradient_dtype(bias)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    AttentionProblem p = DescribeAttention(call, 3);
    FactorRule rule = BoundRule(absl::StrCat("b s (g r) d, b t g d, b t g e", RoleLabels(call, p),
                                             " -> b s (g r) e, b (g r) s"),
                                call.operands, ForwardTypes(call, p, 0));
    SetKinds(p, rule);
    return rule;
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    FactorRule rule = Factors(call);
    return LocalAttributes(call, DescribeAttention(call, 3), rule, rule.results[0], parts);
  }

  absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const override {
    return ExpandAttention(call, graph);
  }

  // Per pair: score, maximum, exp of difference, sum, division, dropout, product with v; per query
  // two for lse.
  Cost CostOf(const OpCall& call) const override {
    AttentionProblem p = DescribeAttention(call, 3);
    double pair = ScoreFlops(p) + 5 + (p.dropout_rate > 0) + 2 * static_cast<double>(p.e);
    double heads = static_cast<double>(p.b * p.h);
    return {heads * (static_cast<double>(AttentionPairs(p)) * pair + 2 * static_cast<double>(p.s)),
            BytesOf(call)};
  }
};

class AttentionGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "attention_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    if (call.operands.size() < 6) return Refuse("attention_c4", "needs at least 6 operands");
    RETURN_IF_ERROR(CheckAttention(call, 6));
    AttentionProblem p = DescribeAttention(call, 6);
    Types forward = ForwardTypes(call, p, 1);
    RETURN_IF_ERROR(CheckOperand(call, "attention_c13", 0, "dout", forward[0]));
    RETURN_IF_ERROR(CheckOperand(call, "attention_c13", 4, "out", forward[0]));
    RETURN_IF_ERROR(CheckOperand(call, "attention_c13", 5, "lse", forward[1]));
    Types results(call.operands.begin() + 1, call.operands.begin() + 4);
    if (p.bias >= 0) results.push_back(call.operands[p.bias]);
    return results;
  }

  FactorRule Factors(const OpCall& call) const override {
    AttentionProblem p = DescribeAttention(call, 6);
    std::string bias = p.bias_per_batch ? ", b (g r) s t" : ", (g r) s t";
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    FactorRule rule =
        BoundRule(absl::StrCat("b s (g r) e, b s (g r) d, b t g d, b t g e, b s (g r) e, b (g r) s",
                               RoleLabels(call, p), " -> b s (g r) d, b t g d, b t g e",
                               p.bias >= 0 ? bias : ""),
                  call.operands, *results);
    SetKinds(p, rule);
    return rule;
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    FactorRule rule = Factors(call);
    return LocalAttributes(call, DescribeAttention(call, 6), rule, rule.operands[0], parts);
  }

  absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const override {
    return ExpandAttentionGrad(call, graph);
  }

  // Per query: dout.out. Per pair: score, probability 2, dout.v, dropout 2, its gradient 2, bias,
  // softcap 3, scale, and the products for dq, dk, dv.
  Cost CostOf(const OpCall& call) const override {
    AttentionProblem p = DescribeAttention(call, 6);
    double d = static_cast<double>(p.d), e = static_cast<double>(p.e);
    double pair = ScoreFlops(p) + 5 + 4 * e + 4 * d + 2 * (p.dropout_rate > 0) + (p.bias >= 0) +
                  3 * (p.softcap > 0);
    double heads = static_cast<double>(p.b * p.h);
    double queries = 2 * e * static_cast<double>(p.s);
    return {heads * (static_cast<double>(AttentionPairs(p)) * pair + queries), BytesOf(call)};
  }
};

}  // namespace

AttentionProblem DescribeAttention(const OpCall& call, int fixed) {
  AttentionProblem p{};
  int first = fixed == 3 ? 0 : 1;
  const Dims& q = call.operands[first].dims;
  const Dims& k = call.operands[first + 1].dims;
  p.b = q[0], p.s = q[1], p.h = q[2], p.d = q[3], p.t = k[1], p.g = k[2];
  p.e = call.operands[first + 2].dims[3];
  int* indices[] = {&p.q_segments, &p.k_segments, &p.q_positions, &p.k_positions, &p.kv_length,
                    &p.slopes,     &p.bias,       &p.dropout_key, &p.first_row};
  for (int i = 0; i < 9; ++i) *indices[i] = OptionalOperand(call.attributes, fixed, kRoles[i]);
  p.bias_per_batch = p.bias >= 0 && call.operands[p.bias].rank() == 4;
  p.scale = call.attributes.Float("scale");
  p.softcap = call.attributes.FloatOr("softcap", 0);
  p.dropout_rate = call.attributes.FloatOr("dropout_rate", 0);
  p.causal = call.attributes.BoolOr("causal", false);
  p.window = call.attributes.IntOr("window", 0);
  p.origin = {0, 0, 0, 0};
  p.global = {p.b, p.s, p.h, p.e};
  if (call.attributes.Has("origin")) {
    std::copy_n(call.attributes.IntList("origin").begin(), 4, p.origin.begin());
  }
  if (call.attributes.Has("global")) {
    std::copy_n(call.attributes.IntList("global").begin(), 4, p.global.begin());
  }
  p.key_origin = call.attributes.IntOr("key_origin", 0);
  p.key_global = call.attributes.IntOr("key_global", p.t);
  return p;
}

int64_t AttentionPairs(const AttentionProblem& p) {
  bool explicit_positions = p.q_positions >= 0 || p.k_positions >= 0;
  if (explicit_positions && p.s != p.t) return p.s * p.t;
  // A block of a ring: on average half of the pairs if causal.
  if (explicit_positions && p.key_global != p.t) return p.s * p.t / (p.causal ? 2 : 1);
  int64_t pairs = 0;
  for (int64_t i = 0; i < p.s; ++i) {
    int64_t query = p.origin[1] + i, begin = 0, end = p.t;
    if (p.causal) end = std::clamp<int64_t>(query + 1 - p.key_origin, 0, p.t);
    if (p.window > 0) begin = std::clamp<int64_t>(query - p.window + 1 - p.key_origin, 0, p.t);
    pairs += std::max<int64_t>(0, end - begin);
  }
  return pairs;
}

const Op& AttentionOp() {
  static const AttentionDefinition* const op = new AttentionDefinition();
  return *op;
}

const Op& AttentionGradOp() {
  static const AttentionGradDefinition* const op = new AttentionGradDefinition();
  return *op;
}

ValueId Attention(GraphBuilder& graph, ValueId q, ValueId k, ValueId v,
                  const AttentionOptions& options, absl::string_view name) {
  ValueIds operands{q, k, v};
  Strings with;
  const ValueId values[] = {options.q_segments,  options.k_segments,  options.q_positions,
                            options.k_positions, options.kv_length,   options.slopes,
                            options.bias,        options.dropout_key, options.first_row};
  for (int i = 0; i < 9; ++i) AddOptionalOperand(kRoles[i], values[i], operands, with);
  Attributes attributes{{"scale", options.scale}};
  if (options.causal) attributes.Set("causal", true);
  if (options.window != 0) attributes.Set("window", options.window);
  if (options.softcap != 0) attributes.Set("softcap", options.softcap);
  if (options.dropout_rate != 0) attributes.Set("dropout_rate", options.dropout_rate);
  if (!options.site.empty()) attributes.Set("site", options.site);
  const Dims& dims = graph.type(q).dims;
  if (options.row_length > 0 && dims.size() == 4 && graph.type(v).rank() == 4) {
    attributes.Set("global", Ints{dims[0], options.row_length, dims[2], graph.type(v).dims[3]});
    attributes.Set("key_global", options.row_length);
  }
  if (!with.empty()) attributes.Set("with", std::move(with));
  return graph.Apply(AttentionOp(), std::move(operands), std::move(attributes), name)[0];
}

}  // namespace colossus
