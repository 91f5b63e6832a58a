#include "tensor/ops/cache_append.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// cache_append_c1: three operands; cache[b t g d] and rows[b s g d] of one dtype.
// cache_append_c2: length is i32[b].
// cache_append_c3: no attributes.
class CacheAppendDefinition final : public Op {
 public:
  absl::string_view name() const override { return "cache_append"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "cache_append_c3", {}));
    if (call.operands.size() != 3) {
      return Refuse("cache_append_c1", "needs cache, rows and length");
    }
    const Type& cache = call.operands[0];
    const Type& rows = call.operands[1];
    bool fits = cache.rank() == 4 && rows.rank() == 4 && cache.dtype == rows.dtype &&
                cache.dims[0] == rows.dims[0] && cache.dims[2] == rows.dims[2] &&
                cache.dims[3] == rows.dims[3];
    if (!fits) {
      return Refuse("cache_append_c1", absl::StrCat("cache is ", ToString(cache), ", rows ",
                                                    ToString(rows)));
    }
    RETURN_IF_ERROR(CheckOperand(call, "cache_append_c2", 2, "length",
                                 {DType::kI32, {cache.dims[0]}}));
    return Types{cache};
  }

  FactorRule Factors(const OpCall& call) const override {
    return BoundRule("b t g d, b s g d, b -> b t g d", call.operands, {call.operands[0]})
        .Set("t", FactorKind::kWhole)
        .Set("s", FactorKind::kWhole);
  }

  // In place only the new rows move.
  Cost CostOf(const OpCall& call) const override {
    return {0, static_cast<double>(2 * call.operands[1].bytes() + call.operands[2].bytes())};
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }
};

}  // namespace

const Op& CacheAppendOp() {
  static const CacheAppendDefinition* const op = new CacheAppendDefinition();
  return *op;
}

ValueId CacheAppend(GraphBuilder& graph, ValueId cache, ValueId rows, ValueId length,
                    absl::string_view name) {
  return graph.Apply1(CacheAppendOp(), {cache, rows, length}, {}, name);
}

}  // namespace colossus
