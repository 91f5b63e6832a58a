#include "base/random.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void DropoutReference(const ReferenceCall& call) {
  const Attributes& a = call.attributes();
  const Dims& dims = call.x(0).dims();
  Dims origin(dims.size(), 0), global = dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (a.Has("origin")) origin[d] = a.IntList("origin")[d];
    if (a.Has("global")) global[d] = a.IntList("global")[d];
  }
  RandomKey key{static_cast<uint64_t>(call.x(1).GetInt(0)),
                static_cast<uint64_t>(call.x(1).GetInt(1))};
  uint64_t site = SiteId(a.String("site"));
  double rate = a.Float("rate");
  origin[0] += call.x(2).GetInt(0);
  int positions = OptionalOperand(a, 3, "positions");
  S scale(1 / (1 - rate));
  ForEachIndex(dims, [&](const Dims& index) {
    Dims place = index;
    for (size_t d = 0; d < dims.size(); ++d) place[d] += origin[d];
    if (positions >= 0) place[1] = call.x(positions).GetInt(index[0] * dims[1] + index[1]);
    bool keep = UniformFloat(key, site, static_cast<uint64_t>(OffsetOf(place, global))) >= rate;
    int64_t i = OffsetOf(index, dims);
    S kept = S(call.x(0).Get(i)) * scale;
    call.y(0).Set(i, keep ? ToDouble(kept) : 0);
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(DropoutReference)

}  // namespace colossus
