#include "parallel/plan_rules.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace colossus {
namespace {

// The axis, or what it is made of.
AxisNames PartsOf(absl::string_view axis, const Mesh& mesh) {
  AxisNames parts;
  for (const MeshAxis& a : mesh.axes()) {
    if (a.name == axis || absl::StartsWith(a.name, absl::StrCat(axis, "."))) {
      parts.push_back(a.name);
    }
  }
  return parts;
}

// The part of an axis that splits `heads` key/value heads; the rest of it repeats them.
AxisNames GroupOf(absl::string_view axis, int64_t heads, const Mesh& mesh) {
  const std::string group = absl::StrCat(axis, ".group");
  if (mesh.SizeOf(group) > 1) return {group};
  return heads > 1 ? PartsOf(axis, mesh) : AxisNames{};
}

AxisNames Joined(AxisNames a, const AxisNames& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool SplitsNorms(const Plan& plan, const Mesh& mesh, const AxisNames& axes, int64_t length) {
  switch (plan.norms) {
    case NormLayout::kReplicated: return false;
    case NormLayout::kSharded: return true;
    case NormLayout::kAuto: break;
  }
  return length % mesh.SizeOf(axes) == 0;
}

}  // namespace

ShardingRules PlanRules(const Plan& plan, const ModelConfig& config, const Mesh& mesh,
                        int64_t length) {
  const AxisNames tensor = PartsOf("tensor", mesh), sequence = PartsOf("sequence", mesh);
  const AxisNames kv_tensor = GroupOf("tensor", config.kv_heads, mesh);
  ShardingRules rules;
  rules.overrides = plan.overrides;
  for (const char* name : {"heads", "mlp", "vocab"}) rules.parameters[name] = tensor;
  rules.parameters["kv_heads"] = kv_tensor;
  rules.activations = rules.parameters;
  rules.activations["batch"] = PartsOf("data", mesh);
  rules.activations["seq"] = sequence;
  rules.activations["attention_seq"] = sequence;
  const AxisNames all = Joined(sequence, tensor);
  rules.activations["residual"] = SplitsNorms(plan, mesh, all, length) ? all : sequence;
  if (plan.sequence == SequenceParallelism::kAllToAll) {
    const int64_t kv_left = config.kv_heads / mesh.SizeOf(kv_tensor);
    rules.activations["attention_seq"] = {};
    rules.activations["heads"] = Joined(tensor, sequence);
    rules.activations["kv_heads"] = Joined(kv_tensor, GroupOf("sequence", kv_left, mesh));
  }
  return rules;
}

}  // namespace colossus
