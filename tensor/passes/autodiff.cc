#include "tensor/passes/autodiff.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/block.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

bool IsTrainable(const State& state, const Graph& graph) {
  return state.info.role == Role::kParameter && state.info.trainable &&
         IsFloat(graph.value(state.in).type.dtype);
}

class Differentiation {
 public:
  explicit Differentiation(const Graph& graph)
      : old_(graph),
        rewriter_(graph),
        cotangents_(graph.values().size(), kNoValue),
        needed_(graph.values().size(), false),
        parameter_(graph.values().size(), false) {}

  absl::StatusOr<Differentiated> Run(ValueId loss, ValueId seed);

 private:
  // One read of a trainable parameter with its gradient.
  struct Use {
    NodeId node;
    int operand;
    ValueId parameter;  // old id
    ValueId gradient;   // new id
  };

  absl::Status CheckEnds(ValueId loss, ValueId seed) const;
  // Marks values that depend on a trainable parameter through floats.
  void MarkNeeded();
  absl::Status GradientOf(NodeId n);
  // Names the finished cotangent of an old value, if autodiff made it and has not named it yet, and
  // gives it the value's sharding.
  void NameCotangent(ValueId old_value, ValueId cotangent);
  std::vector<ParameterGradients> AddOutputs();

  ValueIds Mapped(const ValueIds& old_values) const {
    ValueIds mapped;
    for (ValueId v : old_values) mapped.push_back(rewriter_.Map(v));
    return mapped;
  }

  const Graph& old_;
  GraphRewriter rewriter_;
  ValueIds cotangents_;  // by old value, ids in the new graph
  std::vector<bool> needed_, parameter_;
  std::vector<Use> uses_;
  ValueId first_gradient_ = 0;  // new ids from here on are autodiff's
  std::vector<bool> named_;     // by new id - first_gradient_
};

absl::Status Differentiation::CheckEnds(ValueId loss, ValueId seed) const {
  auto exists = [&](ValueId v) {
    return v >= 0 && v < static_cast<ValueId>(old_.values().size());
  };
  if (!exists(loss) || !exists(seed)) {
    return absl::InvalidArgumentError("autodiff: loss or seed is not a value of the graph");
  }
  const Value& value = old_.value(loss);
  if (value.type.rank() != 0 || !IsFloat(value.type.dtype) || value.producer == kNoNode) {
    return absl::InvalidArgumentError(absl::StrCat(
        "autodiff: loss '", value.name, "' of type ", ToString(value.type),
        " is not a computed float scalar"));
  }
  if (old_.value(seed).type != value.type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "autodiff: seed '", old_.value(seed).name, "' of type ", ToString(old_.value(seed).type),
        " for a loss of type ", ToString(value.type)));
  }
  if (!needed_[loss]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "autodiff: no trainable parameter reaches loss '", value.name,
        "'; make one trainable or run the forward graph alone"));
  }
  return absl::OkStatus();
}

void Differentiation::MarkNeeded() {
  for (const State& state : old_.states()) {
    needed_[state.in] = parameter_[state.in] = IsTrainable(state, old_);
  }
  for (const Node& node : old_.nodes()) {
    bool any = std::any_of(node.operands.begin(), node.operands.end(),
                           [&](ValueId v) { return needed_[v]; });
    for (ValueId v : node.results) needed_[v] = any && IsFloat(old_.value(v).type.dtype);
  }
}

void Differentiation::NameCotangent(ValueId old_value, ValueId cotangent) {
  if (cotangent < first_gradient_) return;
  const std::optional<Sharding>& sharding = old_.value(old_value).sharding;
  if (sharding && !rewriter_.builder().graph().value(cotangent).sharding) {
    rewriter_.builder().Annotate(cotangent, sharding, std::nullopt);
  }
  size_t index = cotangent - first_gradient_;
  if (index >= named_.size()) named_.resize(index + 1, false);
  if (named_[index]) return;
  named_[index] = true;
  rewriter_.builder().Rename(cotangent, absl::StrCat("d.", old_.value(old_value).name));
}

absl::Status Differentiation::GradientOf(NodeId n) {
  const Node& node = old_.node(n);
  std::vector<bool> needed, to_parameter;
  for (ValueId v : node.operands) {
    needed.push_back(needed_[v]);
    to_parameter.push_back(parameter_[v]);
  }
  ValueIds dy;
  for (ValueId v : node.results) {
    dy.push_back(cotangents_[v]);
    if (cotangents_[v] != kNoValue) NameCotangent(v, cotangents_[v]);
  }
  GraphBuilder& builder = rewriter_.builder();
  BlockScope scope(builder, GradientBlock(node.block));
  GradientBuilder gradient(builder, node.attributes, Mapped(node.operands), Mapped(node.results),
                           std::move(dy), std::move(needed), std::move(to_parameter));
  absl::Status status = node.op->Gradient(gradient);
  if (status.ok()) status = builder.status();
  RETURN_IF_ERROR(Annotate(status, absl::StrCat("autodiff: gradient of '",
                                                old_.value(node.results[0]).name, "'")));
  for (int i = 0; i < gradient.x_count(); ++i) {
    ValueId v = node.operands[i], dx = gradient.dx(i);
    if (dx == kNoValue) continue;
    if (parameter_[v]) {
      uses_.push_back({n, i, v, dx});
    } else {
      cotangents_[v] = cotangents_[v] == kNoValue ? dx : Add(builder, cotangents_[v], dx);
    }
  }
  return builder.status();
}

std::vector<ParameterGradients> Differentiation::AddOutputs() {
  std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) {
    return std::pair(a.node, a.operand) < std::pair(b.node, b.operand);
  });
  GraphBuilder& builder = rewriter_.builder();
  rewriter_.KeepOutputs();
  std::vector<ParameterGradients> parameters;
  auto add = [&](ValueId parameter) {
    ParameterGradients gradients;
    gradients.state = old_.value(parameter).name;
    for (const Use& use : uses_) {
      if (use.parameter != parameter) continue;
      NameCotangent(parameter, use.gradient);
      // Parameter names may end in numbers themselves, so the name is searched, not assumed free.
      std::string name = absl::StrCat("d.", gradients.state);
      for (int i = 1; builder.graph().FindOutput(name) != kNoValue; ++i) {
        name = absl::StrCat("d.", gradients.state, ".", i);
      }
      builder.Output(name, use.gradient);
      gradients.outputs.push_back(std::move(name));
    }
    if (!gradients.outputs.empty()) parameters.push_back(std::move(gradients));
  };
  std::vector<bool> seen(old_.values().size(), false);
  for (const Node& node : old_.nodes()) {
    for (ValueId v : node.operands) {
      if (parameter_[v] && !seen[v]) add(v);
      seen[v] = true;
    }
  }
  return parameters;
}

absl::StatusOr<Differentiated> Differentiation::Run(ValueId loss, ValueId seed) {
  MarkNeeded();
  RETURN_IF_ERROR(CheckEnds(loss, seed));
  for (size_t n = 0; n < old_.nodes().size(); ++n) rewriter_.Keep(static_cast<NodeId>(n));
  first_gradient_ = static_cast<ValueId>(rewriter_.builder().graph().values().size());
  cotangents_[loss] = rewriter_.Map(seed);
  for (NodeId n = old_.value(loss).producer; n >= 0; --n) {
    const Node& node = old_.node(n);
    bool wanted = std::any_of(node.operands.begin(), node.operands.end(),
                              [&](ValueId v) { return needed_[v]; });
    bool reached = std::any_of(node.results.begin(), node.results.end(),
                               [&](ValueId v) { return cotangents_[v] != kNoValue; });
    if (wanted && reached) RETURN_IF_ERROR(GradientOf(n));
  }
  std::vector<ParameterGradients> parameters = AddOutputs();
  ASSIGN_OR_RETURN(Rewritten result, std::move(rewriter_).Finish());
  return Differentiated{std::move(result.graph), std::move(parameters)};
}

}  // namespace

absl::StatusOr<Differentiated> Autodiff(const Graph& graph, ValueId loss, ValueId seed) {
  return Differentiation(graph).Run(loss, seed);
}

}  // namespace colossus
