// First values of parameters that no file gives.
//
// Purpose: values are a function of (seed, tensor name, element), so they do not depend on layout,
// order or threads.
// Thread-safety: a plain function.
//
//   HostTensor w = InitialValue(info, DType::kF32, /*seed=*/1);
#ifndef COLOSSUS_SHARDFORMER_INITIALIZE_H_
#define COLOSSUS_SHARDFORMER_INITIALIZE_H_

#include <cstdint>

#include "base/dtype.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"

namespace colossus {

// [global_dims] of `dtype`. REQUIRES: the parameter has an initializer.
HostTensor InitialValue(const StateInfo& parameter, DType dtype, uint64_t seed);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_INITIALIZE_H_
