// The optimizer's part of a graph: states and update nodes of parameters.
//
// Purpose: says which states an optimizer keeps beside a parameter, under which names, and adds
// the nodes that update those of several parameters. A parameter narrower than fp32 has a master;
// parameter, master and moments are updated in place. In one model some parameters may be narrow
// and others fp32.
// Thread-safety: plain functions.
//
//   AddUpdate(builder, optimizer, {{info, DType::kBF16, gradient}}, scalars);
//   // states: info.name, "master/<name>", "moment1/<name>", "moment2/<name>"
#ifndef COLOSSUS_TENSOR_OPTIM_UPDATE_H_
#define COLOSSUS_TENSOR_OPTIM_UPDATE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/state.h"
#include "tensor/graph/types.h"
#include "tensor/ops/element_segments.h"

namespace colossus {

struct Optimizer {
  enum class Kind : uint8_t { kAdamw, kSgd };
  Kind kind = Kind::kAdamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double momentum = 0.9;                             // sgd
  double weight_decay = 0.1;                         // of decayed parameters
  // Moments are kept in bf16, stochastically rounded by (seed, update, parameter, element). Not
  // beside f64 masters.
  bool narrow_moments = false;
};

// The dtype in which a parameter of `dtype` is updated: f64 for f64, else f32.
DType MasterDType(DType dtype);

// Name of the state of `role` that belongs to parameter `name`; for kParameter the name itself.
std::string StateName(Role role, absl::string_view name);
// The parameter to which the state of `role` and that name belongs; a view of the name.
absl::string_view ParameterName(Role role, absl::string_view state_name);

// The states that are updated with a parameter, itself first. The master is the parameter itself
// unless its `dtype` is narrower than fp32.
std::vector<Role> StateRoles(const Optimizer& optimizer, DType dtype);

// The dtype of the state of `role` of a parameter of `dtype`.
DType StateDType(const Optimizer& optimizer, Role role, DType dtype);

// 0-d values in MasterDType. Adamw reads all, sgd the first two.
struct UpdateScalars {
  ValueId learning_rate = kNoValue;
  ValueId grad_scale = kNoValue;   // clip factor / (seed × tokens): makes the sum a clipped mean
  ValueId correction1 = kNoValue;  // 1 − beta1^n, n = applied updates including this one
  ValueId correction2 = kNoValue;
  ValueId rounding_key = kNoValue;  // i64[2], seed and update: of narrow moments
};

// Values of a parameter's states by role.
using StateValues = std::map<Role, ValueId>;

// What is updated: any flat or shaped part of a parameter, of several, or of a chunk of them.
struct UpdateOperands {
  StateValues states;           // StateRoles; of a narrow parameter only the type is read
  ValueId gradient = kNoValue;  // with the dims of the states
  double weight_decay = 0;
  // Which elements of which parameters these are: of narrow moments.
  std::vector<ElementSegment> elements = {};
};

// One node for all whose parameters have the same dtype; their states afterwards, of all
// StateRoles. REQUIRES: 1 to kMaxUpdated (tensor/ops/optimizer.h).
std::vector<StateValues> ApplyUpdate(GraphBuilder& graph, const Optimizer& optimizer,
                                     absl::Span<const UpdateOperands> operands,
                                     const UpdateScalars& scalars);

struct UpdatedParameter {
  StateInfo info;
  DType dtype = DType::kF32;
  ValueId gradient = kNoValue;  // with the dims of this rank's part of the parameter
  // Where the part begins in the whole; empty: it is the whole.
  Dims origin = {};
};

// The same with states that it adds and updates.
void AddUpdate(GraphBuilder& graph, const Optimizer& optimizer,
               absl::Span<const UpdatedParameter> parameters, const UpdateScalars& scalars);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPTIM_UPDATE_H_
