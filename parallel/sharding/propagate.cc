#include "parallel/sharding/propagate.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/convert.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/rotary.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/stack.h"

namespace colossus {
namespace {

// Ops that only move elements.
bool Moves(const Op& op) {
  return &op == &ReshapeOp() || &op == &TransposeOp() || &op == &SliceOp() || &op == &UnstackOp() ||
         &op == &StackOp() || &op == &ConcatOp();
}

bool IsAdd(const Op& op) { return &op == &PointwiseOp("add"); }

// Whether the node may be computed on summands: f(a) + f(b) = f(a + b), to the bit but for the
// order of additions. A conversion to more digits may, where the sum is left to others anyway.
bool PassesSums(const ShardRequest& request) {
  const Op& op = *request.node->op;
  if (Moves(op) || IsAdd(op)) return true;
  if (&op != &ConvertOp() || !request.results[0] || !request.results[0]->gradient) return false;
  absl::StatusOr<DType> to = ParseDType(request.node->attributes.String("dtype"));
  CHECK_OK(to.status());
  const DType from = request.operand_types[0].dtype;
  return IsFloat(from) && IsFloat(*to) && SizeOf(*to) > SizeOf(from);
}

// The sums that all operands wait for.
AxisNames CommonPartial(const ShardRequest& request) {
  if (request.operands.empty() || !PassesSums(request)) return {};
  AxisNames common = request.operands[0].partial;
  for (const Sharding& operand : request.operands) {
    AxisNames kept;
    for (const std::string& axis : common) {
      if (HasAxis(operand.partial, axis)) kept.push_back(axis);
    }
    common = std::move(kept);
  }
  return common;
}

// Who has which axis.
class FactorAxes {
 public:
  FactorAxes(const FactorRule& rule, const Mesh& mesh, AxisNames taken)
      : rule_(rule), mesh_(mesh), taken_(std::move(taken)), axes_(rule.factors.size()) {}

  // Gives the factors of a value the axes that its sharding has, as far as they are free. What
  // moves in an expand factor's lowering is the largest value that has it, so with `decided` a
  // value does not claim axes for such a factor when one before it had it.
  void Claim(const ValueFactors& dims, const Sharding& sharding, bool decided = false) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!(decided && SeenExpand(dims[d]))) ClaimDim(dims[d], sharding.dims[d]);
    }
    for (const DimFactors& factors : dims) seen_.insert(factors.begin(), factors.end());
  }
  // A minor factor of a dim is split only where the major ones are split down to single elements.
  void DropUnreachable();
  // Axes of a value's dims, as the factors are split.
  Sharding Of(const ValueFactors& dims) const;
  const std::vector<AxisNames>& axes() const { return axes_; }

 private:
  bool SeenExpand(const DimFactors& factors) const {
    return std::any_of(factors.begin(), factors.end(), [&](int f) {
      return rule_.factors[f].kind == FactorKind::kExpand && seen_.count(f) > 0;
    });
  }
  void ClaimDim(const DimFactors& factors, const AxisNames& wanted);
  // Whether `factor` may have `axis` beside those it has.
  bool MayTake(int factor, const std::string& axis) const;
  bool IsWhole(const DimFactors& factors, size_t i) const {
    return mesh_.SizeOf(axes_[factors[i]]) < rule_.factors[factors[i]].extent;
  }
  bool DropIn(const ValueFactors& dims);

  const FactorRule& rule_;
  const Mesh& mesh_;
  const AxisNames taken_;  // by sums that are passed on
  std::vector<AxisNames> axes_;
  std::set<int> seen_;  // factors of the values so far
};

bool FactorAxes::MayTake(int factor, const std::string& axis) const {
  if (rule_.factors[factor].kind == FactorKind::kWhole || HasAxis(taken_, axis)) return false;
  // An expand factor's lowering moves what it needs, so it may meet a parallel factor on one axis
  // (queries and keys on a ring); but not another expand factor.
  const bool expand = rule_.factors[factor].kind == FactorKind::kExpand;
  for (size_t f = 0; f < axes_.size(); ++f) {
    const bool meets = !expand || rule_.factors[f].kind == FactorKind::kExpand;
    if (meets && HasAxis(axes_[f], axis)) return false;
  }
  return true;
}

void FactorAxes::ClaimDim(const DimFactors& factors, const AxisNames& wanted) {
  size_t f = 0, held = 0;  // axes of factor f that were met already
  int64_t left = factors.empty() ? 1 : rule_.factors[factors[0]].extent;
  for (const std::string& axis : wanted) {
    while (left == 1) {
      if (f + 1 >= factors.size()) return;
      left = rule_.factors[factors[++f]].extent;
      held = 0;
    }
    const int64_t size = mesh_.SizeOf(axis);
    if (left % size != 0) return;
    AxisNames& has = axes_[factors[f]];
    if (held < has.size()) {
      if (has[held] != axis) return;
    } else {
      if (!MayTake(factors[f], axis)) return;
      has.push_back(axis);
    }
    ++held;
    left /= size;
  }
}

bool FactorAxes::DropIn(const ValueFactors& dims) {
  bool dropped = false;
  for (const DimFactors& factors : dims) {
    bool whole = false;
    for (size_t i = 0; i < factors.size(); ++i) {
      AxisNames& axes = axes_[factors[i]];
      if (whole && !axes.empty()) {
        axes.clear();
        dropped = true;
      }
      whole = whole || IsWhole(factors, i);
    }
  }
  return dropped;
}

void FactorAxes::DropUnreachable() {
  for (bool again = true; again;) {
    again = false;
    for (const ValueFactors& dims : rule_.operands) again = DropIn(dims) || again;
    for (const ValueFactors& dims : rule_.results) again = DropIn(dims) || again;
  }
}

Sharding FactorAxes::Of(const ValueFactors& dims) const {
  AxisNames taken;
  for (const DimFactors& factors : dims) {
    for (int f : factors) {
      if (rule_.factors[f].kind == FactorKind::kExpand) continue;
      taken.insert(taken.end(), axes_[f].begin(), axes_[f].end());
    }
  }
  Sharding sharding;
  for (const DimFactors& factors : dims) {
    AxisNames axes;
    for (int f : factors) {
      const bool expand = rule_.factors[f].kind == FactorKind::kExpand;
      for (const std::string& axis : axes_[f]) {
        // In a value that has both, the expand factor's dim is whole.
        if (!expand || !HasAxis(taken, axis)) axes.push_back(axis);
      }
    }
    sharding.dims.push_back(std::move(axes));
  }
  return sharding;
}

// Operands by size, the largest first; equal ones in order.
std::vector<size_t> BySize(const Types& types) {
  std::vector<size_t> order(types.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return types[a].bytes() > types[b].bytes(); });
  return order;
}

// Who claims first after states and gradients: an operand, or the results.
constexpr int kLargestFirst = -1, kResultsFirst = -2;

void ClaimAll(const ShardRequest& request, int first, FactorAxes& factors) {
  const FactorRule& rule = *request.rule;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    if (request.states[i]) factors.Claim(rule.operands[i], request.operands[i]);
  }
  auto claim_results = [&](bool gradients) {
    for (size_t i = 0; i < request.results.size(); ++i) {
      const std::optional<Want>& want = request.results[i];
      if (want && (!gradients || want->gradient)) factors.Claim(rule.results[i], want->sharding);
    }
  };
  claim_results(/*gradients=*/true);
  if (first == kResultsFirst) claim_results(/*gradients=*/false);
  if (first >= 0) factors.Claim(rule.operands[first], request.operands[first]);
  for (size_t i : BySize(request.operand_types)) {
    if (!request.states[i]) factors.Claim(rule.operands[i], request.operands[i], true);
  }
  claim_results(/*gradients=*/false);
}

// Axes of split factors that a result does not have: each rank has a summand.
AxisNames PendingSum(const FactorRule& rule, const ValueFactors& result,
                     const std::vector<AxisNames>& axes, const AxisNames& passed) {
  std::vector<bool> there(rule.factors.size(), false);
  for (const DimFactors& dim : result) {
    for (int f : dim) there[f] = true;
  }
  AxisNames partial = passed;
  for (size_t f = 0; f < axes.size(); ++f) {
    if (!there[f]) partial.insert(partial.end(), axes[f].begin(), axes[f].end());
  }
  return partial;
}

// Ops whose operands may take a wish for the result: element for element or row for row the same.
bool KeepsShape(const Op& op) {
  return Moves(op) || IsPointwise(op) || &op == &ConvertOp() || &op == &DropoutOp() ||
         &op == &RotaryOp() || &op == &RmsNormGradOp() || &op == &LayerNormGradOp();
}

// What a wish for the result says about an operand, by the factors they share; none: nothing.
std::optional<Sharding> WishOf(const ValueFactors& operand, const ValueFactors& result,
                               const Sharding& wanted) {
  Sharding wish;
  bool says = false;
  for (const DimFactors& factors : operand) {
    wish.dims.emplace_back();
    for (size_t d = 0; d < result.size(); ++d) {
      if (factors.empty() || result[d] != factors) continue;
      wish.dims.back() = wanted.dims[d];
      says = says || !wanted.dims[d].empty();
    }
  }
  return says ? std::optional<Sharding>(std::move(wish)) : std::nullopt;
}

NodeSharding Decide(const ShardRequest& request, int first) {
  const FactorRule& rule = *request.rule;
  const AxisNames passed = CommonPartial(request);
  FactorAxes factors(rule, *request.mesh, passed);
  ClaimAll(request, first, factors);
  factors.DropUnreachable();
  NodeSharding node;
  node.factors = factors.axes();
  for (size_t f = 0; f < node.factors.size(); ++f) {
    const bool expand = rule.factors[f].kind == FactorKind::kExpand;
    node.expands = node.expands || (expand && !node.factors[f].empty());
  }
  for (const ValueFactors& dims : rule.operands) {
    node.operands.push_back(factors.Of(dims));
    node.operands.back().partial = InMeshOrder(passed, *request.mesh);
  }
  for (const ValueFactors& dims : rule.results) {
    node.results.push_back(factors.Of(dims));
    node.results.back().partial =
        InMeshOrder(PendingSum(rule, dims, node.factors, passed), *request.mesh);
  }
  return node;
}

// As the rule tells; the dtype, which only costs need, is taken from the operands.
Type ResultType(const ShardRequest& request, size_t i) {
  Type type{request.operand_types.empty() ? DType::kF32 : request.operand_types[0].dtype, {}};
  for (const DimFactors& dim : request.rule->results[i]) {
    type.dims.push_back(1);
    for (int f : dim) type.dims.back() *= request.rule->factors[f].extent;
  }
  return type;
}

double LocalBytes(const Type& global, const Sharding& sharding, const Mesh& mesh) {
  double bytes = static_cast<double>(global.bytes());
  for (const AxisNames& axes : sharding.dims) bytes /= static_cast<double>(mesh.SizeOf(axes));
  return bytes;
}

// What a rank sends in the conversions that a decision asks for: of operands before, and of results
// to where they are wanted (a pending sum that nobody speaks of is scattered). Not in seconds, so
// that small models are split like large ones. Infinite where a conversion is not possible.
double ConversionBytes(const ShardRequest& request, const NodeSharding& node) {
  double bytes = 0;
  auto add = [&](const Type& type, const Sharding& from, const Sharding& to) {
    absl::StatusOr<Conversion> conversion = PlanConversion(type, from, to, *request.mesh);
    bytes += conversion.ok() ? conversion->bytes : std::numeric_limits<double>::infinity();
  };
  for (size_t i = 0; i < node.operands.size(); ++i) {
    add(request.operand_types[i], request.operands[i], node.operands[i]);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Sharding& made = node.results[i];
    const std::optional<Want>& want = request.results[i];
    if (want) {
      Sharding to = want->sharding;
      to.partial = want->gradient ? made.partial : AxisNames{};
      add(ResultType(request, i), made, to);
    } else if (!made.partial.empty()) {
      const double ranks = static_cast<double>(request.mesh->SizeOf(made.partial));
      bytes += LocalBytes(ResultType(request, i), made, *request.mesh) * (ranks - 1) / ranks;
    }
  }
  return bytes;
}

// How many ranks share the work.
int64_t Shares(const NodeSharding& node, const Mesh& mesh) {
  int64_t shares = 1;
  for (const AxisNames& axes : node.factors) shares *= mesh.SizeOf(axes);
  return shares;
}

}  // namespace

NodeSharding ShardNode(const ShardRequest& request) {
  NodeSharding best = Decide(request, kLargestFirst);
  std::vector<int> others = {kResultsFirst};
  for (size_t i = 0; i < request.operands.size(); ++i) {
    if (!request.states[i]) others.push_back(static_cast<int>(i));
  }
  std::optional<double> least;
  for (int first : others) {
    NodeSharding other = Decide(request, first);
    if (other.factors == best.factors || other.expands != best.expands ||
        Shares(other, *request.mesh) < Shares(best, *request.mesh)) {
      continue;
    }
    if (!least) least = ConversionBytes(request, best);
    const double bytes = ConversionBytes(request, other);
    if (bytes >= *least) continue;
    least = bytes;
    best = std::move(other);
  }
  return best;
}

std::vector<std::optional<Want>> WantsOf(const Graph& annotated,
                                         const std::map<std::string, Sharding>& gradients) {
  std::vector<std::optional<Want>> wants(annotated.values().size());
  for (size_t v = 0; v < wants.size(); ++v) {
    const std::optional<Sharding>& pin = annotated.values()[v].sharding;
    if (pin) wants[v] = Want{*pin, /*pinned=*/true, /*gradient=*/false};
  }
  for (const Output& output : annotated.outputs()) {
    auto found = gradients.find(output.name);
    if (found == gradients.end() || wants[output.value]) continue;
    wants[output.value] = Want{found->second, /*pinned=*/true, /*gradient=*/true};
  }
  // From the last node to the first, so that the first reader's wish is the one that stays.
  for (size_t n = annotated.nodes().size(); n-- > 0;) {
    const Node& node = annotated.nodes()[n];
    if (!KeepsShape(*node.op)) continue;
    const Types operands = annotated.OperandTypes(node);
    const FactorRule rule = node.op->Factors({operands, node.attributes});
    for (size_t i = 0; i < node.operands.size(); ++i) {
      std::optional<Want>& want = wants[node.operands[i]];
      if (annotated.value(node.operands[i]).producer == kNoNode || (want && want->pinned)) continue;
      for (size_t r = 0; r < node.results.size(); ++r) {
        const std::optional<Want>& wanted = wants[node.results[r]];
        if (!wanted) continue;
        const bool gradient = wanted->gradient;
        std::optional<Sharding> wish = WishOf(rule.operands[i], rule.results[r], wanted->sharding);
        if (!wish && !gradient) continue;
        if (!wish) wish = Replicated(static_cast<int>(rule.operands[i].size()));
        want = Want{*std::move(wish), /*pinned=*/false, gradient};
        break;
      }
    }
  }
  return wants;
}

}  // namespace colossus
