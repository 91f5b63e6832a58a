#include "tensor/optim/update.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tensor/ops/optimizer.h"

namespace colossus {

DType MasterDType(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

std::string StateName(Role role, absl::string_view name) {
  if (role == Role::kParameter) return std::string(name);
  return absl::StrCat(Name(role), "/", name);
}

std::vector<Role> StateRoles(const Optimizer& optimizer, DType compute) {
  std::vector<Role> roles = {Role::kParameter};
  if (MasterDType(compute) != compute) roles.push_back(Role::kMaster);
  roles.push_back(Role::kMoment1);
  if (optimizer.kind == Optimizer::Kind::kAdamw) roles.push_back(Role::kMoment2);
  return roles;
}

void AddUpdate(GraphBuilder& graph, const Optimizer& optimizer, const StateInfo& parameter,
               DType compute, ValueId gradient, const UpdateScalars& scalars) {
  const DType master_dtype = MasterDType(compute);
  std::map<Role, ValueId> before;
  for (Role role : StateRoles(optimizer, compute)) {
    StateInfo info = parameter;
    info.role = role;
    info.name = StateName(role, parameter.name);
    DType dtype = role == Role::kParameter ? compute : master_dtype;
    before[role] = graph.AddState(info, {dtype, info.global_dims});
  }
  const bool narrow = compute != master_dtype;
  const std::optional<DType> copy = narrow ? std::optional<DType>(compute) : std::nullopt;
  const ValueId master = narrow ? before[Role::kMaster] : before[Role::kParameter];
  const double decay = parameter.decayed ? optimizer.weight_decay : 0;
  std::map<Role, ValueId> after;
  ValueId compute_copy;
  if (optimizer.kind == Optimizer::Kind::kAdamw) {
    AdamwResults results = Adamw(
        graph, master, gradient, before[Role::kMoment1], before[Role::kMoment2],
        {scalars.learning_rate, scalars.grad_scale, scalars.correction1, scalars.correction2},
        {optimizer.beta1, optimizer.beta2, optimizer.epsilon, decay, copy});
    after = {{Role::kMaster, results.master}, {Role::kMoment1, results.m},
             {Role::kMoment2, results.v}};
    compute_copy = results.compute;
  } else {
    SgdResults results = Sgd(graph, master, gradient, before[Role::kMoment1],
                             scalars.learning_rate, scalars.grad_scale,
                             {optimizer.momentum, decay, copy});
    after = {{Role::kMaster, results.master}, {Role::kMoment1, results.momentum}};
    compute_copy = results.compute;
  }
  graph.UpdateState(master, after[Role::kMaster]);
  if (narrow) graph.UpdateState(before[Role::kParameter], compute_copy);
  graph.UpdateState(before[Role::kMoment1], after[Role::kMoment1]);
  if (optimizer.kind == Optimizer::Kind::kAdamw) {
    graph.UpdateState(before[Role::kMoment2], after[Role::kMoment2]);
  }
}

}  // namespace colossus
