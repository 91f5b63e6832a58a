#include "tensor/testing/collective_definition.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

HostTensor Reduced(const std::string& reduction, const std::vector<std::vector<HostTensor>>& x) {
  HostTensor y(x[0][0].type());
  for (int64_t i = 0; i < y.type().elements(); ++i) {
    double value = x[0][0].Get(i);
    for (size_t r = 1; r < x.size(); ++r) {
      const double next = x[r][0].Get(i);
      value = reduction == "max"   ? std::max(value, next)
              : reduction == "min" ? std::min(value, next)
                                   : value + next;
    }
    y.Set(i, value);
  }
  return y;
}

// Part `index` of `parts` equal ones along a dim.
HostTensor Part(const HostTensor& x, int64_t dim, int64_t index, int64_t parts) {
  Type type = x.type();
  type.dims[dim] /= parts;
  HostTensor y(type);
  int64_t at = 0;
  ForEachIndex(type.dims, [&](Dims i) {
    i[dim] += index * type.dims[dim];
    y.Set(at++, x.Get(OffsetOf(i, x.type().dims)));
  });
  return y;
}

HostTensor Beside(const std::vector<HostTensor>& parts, int64_t dim) {
  Type type = parts[0].type();
  const int64_t extent = type.dims[dim];
  type.dims[dim] *= static_cast<int64_t>(parts.size());
  HostTensor y(type);
  int64_t at = 0;
  ForEachIndex(type.dims, [&](Dims i) {
    const HostTensor& part = parts[i[dim] / extent];
    i[dim] %= extent;
    y.Set(at++, part.Get(OffsetOf(i, part.type().dims)));
  });
  return y;
}

}  // namespace

std::vector<std::vector<HostTensor>> DefineCollective(const Op& op, const Attributes& attributes,
                                                      std::vector<std::vector<HostTensor>> x) {
  CHECK(IsCollective(op));
  const int64_t parts = static_cast<int64_t>(x.size());
  std::vector<std::vector<HostTensor>> y(parts);
  for (int64_t rank = 0; rank < parts; ++rank) {
    std::vector<HostTensor> pieces;
    if (&op == &AllReduceOp()) {
      y[rank] = {Reduced(attributes.String("reduction"), x)};
    } else if (&op == &ReduceScatterOp()) {
      y[rank] = {Part(Reduced("sum", x), attributes.Int("dim"), rank, parts)};
    } else if (&op == &AllGatherOp()) {
      for (const auto& operands : x) pieces.push_back(operands[0]);
      y[rank] = {Beside(pieces, attributes.Int("dim"))};
    } else if (&op == &AllToAllOp()) {
      for (const auto& operands : x) {
        pieces.push_back(Part(operands[0], attributes.Int("split"), rank, parts));
      }
      y[rank] = {Beside(pieces, attributes.Int("join"))};
    } else {
      const int64_t from = (rank - attributes.Int("by")) % parts;
      y[rank] = x[from < 0 ? from + parts : from];
    }
  }
  return y;
}

}  // namespace colossus
