#include "tensor/optim/update.h"

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensor/ops/optimizer.h"

namespace colossus {

DType MasterDType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

std::string StateName(Role role, absl::string_view name) {
  if (role == Role::kParameter) return std::string(name);
  return absl::StrCat(Name(role), "/", name);
}

absl::string_view ParameterName(Role role, absl::string_view state_name) {
  if (role == Role::kParameter) return state_name;
  return absl::StripPrefix(state_name, absl::StrCat(Name(role), "/"));
}

std::vector<Role> StateRoles(const Optimizer& optimizer, DType dtype) {
  std::vector<Role> roles = {Role::kParameter};
  if (MasterDType(dtype) != dtype) roles.push_back(Role::kMaster);
  roles.push_back(Role::kMoment1);
  if (optimizer.kind == Optimizer::Kind::kAdamw) roles.push_back(Role::kMoment2);
  return roles;
}

DType StateDType(const Optimizer& optimizer, Role role, DType dtype) {
  if (role == Role::kParameter) return dtype;
  const bool moment = role == Role::kMoment1 || role == Role::kMoment2;
  return moment && optimizer.narrow_moments ? DType::kBF16 : MasterDType(dtype);
}

namespace {

StateValues AddStates(GraphBuilder& graph, const Optimizer& optimizer, const StateInfo& parameter,
                      const Dims& dims, DType dtype) {
  StateValues values;
  for (Role role : StateRoles(optimizer, dtype)) {
    StateInfo info = parameter;
    info.role = role;
    info.name = StateName(role, parameter.name);
    values[role] = graph.AddState(info, {StateDType(optimizer, role, dtype), dims});
  }
  return values;
}

// One node: the parameters `members` of `operands`, all of `dtype`.
void UpdateThose(GraphBuilder& graph, const Optimizer& optimizer,
                 absl::Span<const UpdateOperands> operands, const std::vector<size_t>& members,
                 DType dtype, const UpdateScalars& scalars, std::vector<StateValues>& after) {
  const bool narrow = dtype != MasterDType(dtype);
  const Role master = narrow ? Role::kMaster : Role::kParameter;
  const std::optional<DType> copy = narrow ? std::optional<DType>(dtype) : std::nullopt;
  std::vector<AdamwParameter> adamw;
  std::vector<SgdParameter> sgd;
  for (size_t i : members) {
    const UpdateOperands& own = operands[i];
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
    for (size_t k = 0; k < results.size(); ++k) {
      StateValues& own = after[members[k]];
      own = {{Role::kMoment1, results[k].m}, {Role::kMoment2, results[k].v}};
      if (narrow) own[Role::kParameter] = results[k].compute;
      own[master] = results[k].master;
    }
  } else {
    const std::vector<SgdResults> results =
        Sgd(graph, sgd, scalars.learning_rate, scalars.grad_scale, {optimizer.momentum, copy}, "",
            scalars.rounding_key);
    for (size_t k = 0; k < results.size(); ++k) {
      StateValues& own = after[members[k]];
      own = {{Role::kMoment1, results[k].momentum}};
      if (narrow) own[Role::kParameter] = results[k].compute;
      own[master] = results[k].master;
    }
  }
}

}  // namespace

std::vector<StateValues> ApplyUpdate(GraphBuilder& graph, const Optimizer& optimizer,
                                     absl::Span<const UpdateOperands> operands,
                                     const UpdateScalars& scalars) {
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < operands.size(); ++i) {
    by_dtype[graph.type(operands[i].states.at(Role::kParameter)).dtype].push_back(i);
  }
  std::vector<StateValues> after(operands.size());
  for (const auto& [dtype, members] : by_dtype) {
    UpdateThose(graph, optimizer, operands, members, dtype, scalars, after);
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
               absl::Span<const UpdatedParameter> parameters, const UpdateScalars& scalars) {
  std::vector<UpdateOperands> operands;
  for (const UpdatedParameter& parameter : parameters) {
    const Dims dims = graph.type(parameter.gradient).dims;
    operands.push_back({AddStates(graph, optimizer, parameter.info, dims, parameter.dtype),
                        parameter.gradient,
                        parameter.info.decayed ? optimizer.weight_decay : 0,
                        {SegmentOf(parameter, dims)}});
  }
  const std::vector<StateValues> after = ApplyUpdate(graph, optimizer, operands, scalars);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const auto& [role, value] : operands[i].states) {
      graph.UpdateState(value, after[i].at(role));
    }
  }
}

}  // namespace colossus
