#include "tensor/ops/op_list.h"

#include <algorithm>
#include <vector>

#include "tensor/ops/convert.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

std::vector<const Op*> MakeList() {
  std::vector<const Op*> ops = {
      &ConvertOp(),
      &MatmulOp(),
  };
  std::sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->name() < b->name(); });
  return ops;
}

}  // namespace

absl::Span<const Op* const> AllOps() {
  static const std::vector<const Op*>* const list = new std::vector<const Op*>(MakeList());
  return *list;
}

const Op* FindOp(absl::string_view name) {
  for (const Op* op : AllOps()) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

}  // namespace colossus
