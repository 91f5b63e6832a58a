#include "tensor/optim/update.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensor/ops/optimizer.h"

namespace colossus {

DType MasterDType(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

std::string StateName(Role role, absl::string_view name) {
  if (role == Role::kParameter) return std::string(name);
  return absl::StrCat(Name(role), "/", name);
}

absl::string_view ParameterName(Role role, absl::string_view state_name) {
  if (role == Role::kParameter) return state_name;
  return absl::StripPrefix(state_name, absl::StrCat(Name(role), "/"));
}

std::vector<Role> StateRoles(const Optimizer& optimizer, DType compute) {
  std::vector<Role> roles = {Role::kParameter};
  if (MasterDType(compute) != compute) roles.push_back(Role::kMaster);
  roles.push_back(Role::kMoment1);
  if (optimizer.kind == Optimizer::Kind::kAdamw) roles.push_back(Role::kMoment2);
  return roles;
}

DType StateDType(const Optimizer& optimizer, Role role, DType compute) {
  if (role == Role::kParameter) return compute;
  const bool moment = role == Role::kMoment1 || role == Role::kMoment2;
  return moment && optimizer.narrow_moments ? DType::kBF16 : MasterDType(compute);
}

namespace {

StateValues AddStates(GraphBuilder& graph, const Optimizer& optimizer, const StateInfo& parameter,
                      const Dims& dims, DType compute) {
  StateValues values;
  for (Role role : StateRoles(optimizer, compute)) {
    StateInfo info = parameter;
    info.role = role;
    info.name = StateName(role, parameter.name);
    values[role] = graph.AddState(info, {StateDType(optimizer, role, compute), dims});
  }
  return values;
}

}  // namespace

std::vector<StateValues> ApplyUpdate(GraphBuilder& graph, const Optimizer& optimizer,
                                     absl::Span<const UpdateOperands> operands, DType compute,
                                     const UpdateScalars& scalars) {
  const bool narrow = compute != MasterDType(compute);
  const Role master = narrow ? Role::kMaster : Role::kParameter;
  const std::optional<DType> copy = narrow ? std::optional<DType>(compute) : std::nullopt;
  std::vector<StateValues> after(operands.size());
  std::vector<AdamwParameter> adamw;
  std::vector<SgdParameter> sgd;
  for (const UpdateOperands& own : operands) {
    const ValueId p = own.states.at(master), m = own.states.at(Role::kMoment1);
    if (optimizer.kind == Optimizer::Kind::kAdamw) {
      adamw.push_back(
          {p, own.gradient, m, own.states.at(Role::kMoment2), own.weight_decay, own.elements});
    } else {
      sgd.push_back({p, own.gradient, m, own.weight_decay, own.elements});
    }
  }
  if (optimizer.kind == Optimizer::Kind::kAdamw) {
    const std::vector<AdamwResults> results =
        Adamw(graph, adamw,
              {scalars.learning_rate, scalars.grad_scale, scalars.correction1, scalars.correction2,
               scalars.rounding_key},
              {optimizer.beta1, optimizer.beta2, optimizer.epsilon, copy});
    for (size_t i = 0; i < results.size(); ++i) {
      after[i] = {{Role::kMoment1, results[i].m}, {Role::kMoment2, results[i].v}};
      if (narrow) after[i][Role::kParameter] = results[i].compute;
      after[i][master] = results[i].master;
    }
  } else {
    const std::vector<SgdResults> results =
        Sgd(graph, sgd, scalars.learning_rate, scalars.grad_scale, {optimizer.momentum, copy}, "",
            scalars.rounding_key);
    for (size_t i = 0; i < results.size(); ++i) {
      after[i] = {{Role::kMoment1, results[i].momentum}};
      if (narrow) after[i][Role::kParameter] = results[i].compute;
      after[i][master] = results[i].master;
    }
  }
  return after;
}

namespace {

ElementSegment SegmentOf(const UpdatedParameter& parameter, const Dims& dims) {
  if (parameter.origin.empty()) return WholeSegment(parameter.info.name, dims);
  ElementSegment segment;
  segment.site = parameter.info.name;
  segment.count = ElementCount(dims);
  segment.dims = dims;
  segment.origin = parameter.origin;
  segment.global = parameter.info.global_dims;
  return segment;
}

}  // namespace

void AddUpdate(GraphBuilder& graph, const Optimizer& optimizer,
               absl::Span<const UpdatedParameter> parameters, DType compute,
               const UpdateScalars& scalars) {
  std::vector<UpdateOperands> operands;
  for (const UpdatedParameter& parameter : parameters) {
    const Dims dims = graph.type(parameter.gradient).dims;
    operands.push_back({AddStates(graph, optimizer, parameter.info, dims, compute),
                        parameter.gradient,
                        parameter.info.decayed ? optimizer.weight_decay : 0,
                        {SegmentOf(parameter, dims)}});
  }
  const std::vector<StateValues> after = ApplyUpdate(graph, optimizer, operands, compute, scalars);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const auto& [role, value] : operands[i].states) {
      graph.UpdateState(value, after[i].at(role));
    }
  }
}

}  // namespace colossus
