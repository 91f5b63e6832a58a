// What collectives compute, over the values of all ranks: their reference.
//
// Thread-safety: a pure function. Ownership: returns new tensors.
//
//   std::vector<std::vector<HostTensor>> y = DefineCollective(AllReduceOp(), attributes, x);
#ifndef COLOSSUS_TENSOR_TESTING_COLLECTIVE_DEFINITION_H_
#define COLOSSUS_TENSOR_TESTING_COLLECTIVE_DEFINITION_H_

#include <vector>

#include "tensor/graph/attributes.h"
#include "tensor/host_tensor.h"
#include "tensor/ops/op.h"

namespace colossus {

// x[r]: the operands of rank r of the group; the same for the results. Sums are made in fp64 in the
// order of the ranks and rounded once: exact where the values are small integers.
// REQUIRES: a collective that accepts each rank's operands.
std::vector<std::vector<HostTensor>> DefineCollective(const Op& op, const Attributes& attributes,
                                                      std::vector<std::vector<HostTensor>> x);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_COLLECTIVE_DEFINITION_H_
