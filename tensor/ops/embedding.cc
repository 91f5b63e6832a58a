#include "tensor/ops/embedding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// embedding_c1: two operands: a float type (table[v c], or dy[.. c]) and ids, i32 or i64.
// embedding_c2: table has two dims; dy has the dims of ids and one more.
// embedding_c3: attributes are known and of their types; rows and dtype are there for the gradient.
// embedding_c4: dtype names a float type.
// embedding_c5: origin >= 0, rows >= 0.

// Attributes of a part of the table: the id of its first row.
Attributes WithOrigin(const OpCall& call, const FactorRule& rule,
                      absl::Span<const FactorPart> parts) {
  Attributes local = call.attributes;
  const int v = rule.Find("v");
  if (parts[v].extent != rule.factors[v].extent) {
    local.Set("origin", call.attributes.IntOr("origin", 0) + parts[v].origin);
  }
  if (local.Has("rows")) local.Set("rows", parts[v].extent);
  return local;
}

absl::Status CheckCommon(const OpCall& call) {
  bool ids = call.operands.size() == 2 && (call.operands[1].dtype == DType::kI32 ||
                                           call.operands[1].dtype == DType::kI64);
  if (!ids || !IsFloat(call.operands[0].dtype)) {
    return Refuse("embedding_c1", "needs a float operand and ids, i32 or i64");
  }
  if (call.attributes.IntOr("origin", 0) < 0 || call.attributes.IntOr("rows", 0) < 0) {
    return Refuse("embedding_c5", "origin or rows is negative");
  }
  return absl::OkStatus();
}

class EmbeddingDefinition final : public Op {
 public:
  absl::string_view name() const override { return "embedding"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(
        call, "embedding_c3",
        {{"dtype", AttributeKind::kString}, {"origin", AttributeKind::kInt}}));
    RETURN_IF_ERROR(CheckCommon(call));
    const Type& table = call.operands[0];
    if (table.rank() != 2) {
      return Refuse("embedding_c2", absl::StrCat("table is ", ToString(table)));
    }
    ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "embedding_c4", "dtype", table.dtype));
    Type result{dtype, call.operands[1].dims};
    result.dims.push_back(table.dims[1]);
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    Attributes attributes{{"rows", g.x_type(0).dims[0]}, {"dtype", Name(g.gradient_dtype(0))}};
    if (g.attributes().Has("origin")) attributes.Set("origin", g.attributes().Int("origin"));
    g.Add(0, g.graph().Apply1(EmbeddingGradOp(), {g.dy(0), g.x(1)}, std::move(attributes)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string ids = LeadingLabels(call.operands[1].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat("v c, ", ids, " -> ", ids, " c"), call.operands, *results)
        .Set("v", FactorKind::kIndexed);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    return WithOrigin(call, Factors(call), parts);
  }

  // Reads the rows used, not the table.
  Cost CostOf(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    int64_t rows_read = (*results)[0].elements() * SizeOf(call.operands[0].dtype);
    return {0, static_cast<double>(rows_read + call.operands[1].bytes() + (*results)[0].bytes())};
  }
};

class EmbeddingGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "embedding_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "embedding_c3",
                                        {{"rows", AttributeKind::kInt, true},
                                         {"dtype", AttributeKind::kString, true},
                                         {"origin", AttributeKind::kInt}}));
    RETURN_IF_ERROR(CheckCommon(call));
    const Type& dy = call.operands[0];
    Dims ids_dims = dy.dims;
    if (!ids_dims.empty()) ids_dims.pop_back();
    if (dy.rank() < 1 || ids_dims != call.operands[1].dims) {
      return Refuse("embedding_c2", absl::StrCat("dy is ", ToString(dy), ", ids ",
                                                 ToString(call.operands[1])));
    }
    ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "embedding_c4", "dtype", dy.dtype));
    return Types{{dtype, {call.attributes.Int("rows"), dy.dims.back()}}};
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string ids = LeadingLabels(call.operands[1].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat(ids, " c, ", ids, " -> v c"), call.operands, *results)
        .Set("v", FactorKind::kIndexed);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    return WithOrigin(call, Factors(call), parts);
  }

  Cost CostOf(const OpCall& call) const override {
    return {static_cast<double>(call.operands[0].elements()), BytesOf(call)};
  }
};

}  // namespace

const Op& EmbeddingOp() {
  static const EmbeddingDefinition* const op = new EmbeddingDefinition();
  return *op;
}

const Op& EmbeddingGradOp() {
  static const EmbeddingGradDefinition* const op = new EmbeddingGradDefinition();
  return *op;
}

ValueId Embedding(GraphBuilder& graph, ValueId table, ValueId ids, std::optional<DType> result,
                  absl::string_view name) {
  Attributes attributes;
  if (result.has_value() && *result != graph.type(table).dtype) {
    attributes.Set("dtype", Name(*result));
  }
  return graph.Apply1(EmbeddingOp(), {table, ids}, std::move(attributes), name);
}

}  // namespace colossus
