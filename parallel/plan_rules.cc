#include "parallel/plan_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "parallel/sharding/axes.h"

namespace colossus {
namespace {

// The part of an axis that splits `heads` key/value heads; the rest of it repeats them.
AxisNames GroupOf(absl::string_view axis, int64_t heads, const Mesh& mesh) {
  const std::string group = absl::StrCat(axis, ".group");
  if (mesh.SizeOf(group) > 1) return {group};
  return heads > 1 ? PiecesOf(axis, mesh) : AxisNames{};
}

AxisNames Joined(AxisNames a, const AxisNames& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

ShardingRules PlanRules(const Plan& plan, const ModelConfig& config, const Mesh& mesh) {
  const bool panels = plan.tensor_layout == TensorLayout::k2d && plan.AxisSize("tensor") > 1;
  const AxisNames sequence = PiecesOf("sequence", mesh);
  // Products are split over rows (none in a 1-D layout) and columns.
  const AxisNames rows = panels ? AxisNames{"tensor.row"} : AxisNames{};
  const std::string column = panels ? "tensor.column" : "tensor";
  const AxisNames columns = PiecesOf(column, mesh);
  const AxisNames kv_columns = GroupOf(column, config.kv_heads, mesh);
  ShardingRules rules;
  rules.overrides = plan.overrides;
  for (const char* name : {"heads", "mlp"}) rules.parameters[name] = columns;
  rules.parameters["vocab"] = panels ? rows : columns;
  rules.parameters["kv_heads"] = kv_columns;
  rules.activations = rules.parameters;
  rules.activations["batch"] = PiecesOf("data", mesh);
  rules.activations["seq"] = sequence;
  const AxisNames product = Joined(sequence, rows);
  rules.activations["attention_seq"] = product;
  rules.activations["residual"] =
      plan.norms == NormLayout::kReplicated ? product : Joined(product, columns);
  if (panels) {
    rules.activations["product_seq"] = product;
    rules.activations["product_embed"] = columns;
    rules.weight_rows = rows;
    rules.weight_columns = columns;
    rules.weight_dims = {"embed", "heads", "kv_heads", "mlp"};
  }
  if (plan.sequence == SequenceParallelism::kAllToAll) {
    const int64_t kv_left = config.kv_heads / mesh.SizeOf(kv_columns);
    rules.activations["attention_seq"] = rows;
    rules.activations["heads"] = Joined(columns, sequence);
    rules.activations["kv_heads"] = Joined(kv_columns, GroupOf("sequence", kv_left, mesh));
  }
  return rules;
}

}  // namespace colossus
