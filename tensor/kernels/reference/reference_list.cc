// The list of reference kernels: two lines per op.
#include "tensor/kernels/reference/reference.h"

namespace colossus {

#define COLOSSUS_REFERENCES(X) \
  X("convert", ConvertReference) \
  X("matmul", MatmulReference)

#define COLOSSUS_DECLARE(op, function) \
  template <class S>                   \
  void function(const ReferenceCall& call);
COLOSSUS_REFERENCES(COLOSSUS_DECLARE)
#undef COLOSSUS_DECLARE

const Reference* FindReference(absl::string_view op_name) {
#define COLOSSUS_ROW(op, function) {op, &function<double>, &function<Counted>},
  static constexpr Reference kList[] = {COLOSSUS_REFERENCES(COLOSSUS_ROW)};
#undef COLOSSUS_ROW
  for (const Reference& reference : kList) {
    if (reference.op == op_name) return &reference;
  }
  return nullptr;
}

}  // namespace colossus
