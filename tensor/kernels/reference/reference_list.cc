// The list of reference kernels: one line per op.
#include "tensor/kernels/reference/reference.h"

namespace colossus {

void ConvertReference(const ReferenceCall& call);
void MatmulReference(const ReferenceCall& call);

ReferenceFunction FindReference(absl::string_view op_name) {
  static constexpr struct {
    absl::string_view name;
    ReferenceFunction function;
  } kList[] = {
      {"convert", ConvertReference},
      {"matmul", MatmulReference},
  };
  for (const auto& entry : kList) {
    if (entry.name == op_name) return entry.function;
  }
  return nullptr;
}

}  // namespace colossus
