#include "tensor/kernels/collective/collective_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

int64_t Outer(const Dims& dims, int64_t dim) {
  return ElementCount(absl::MakeSpan(dims.data(), static_cast<size_t>(dim)));
}
int64_t Inner(const Dims& dims, int64_t dim) {
  return ElementCount(absl::MakeSpan(dims.data() + dim, dims.size() - static_cast<size_t>(dim)));
}

// Rows of a part along a dim. Nothing at all is one row of nothing.
void SetRows(Collective& operation, const Type& part, int64_t dim) {
  operation.rows = std::max<int64_t>(1, Outer(part.dims, dim));
  operation.count = part.elements() == 0 ? 0 : Inner(part.dims, dim);
}

Collective Start(CollectiveKind kind, const KernelRequest& request) {
  Collective operation;
  operation.kind = kind;
  operation.dtype = request.operands[0].dtype;
  operation.site = request.attributes->StringOr("site", request.op->name());
  return operation;
}

PlannedKernel OneToOne(Communicator& group, Collective operation) {
  PlannedKernel planned;
  planned.try_run = [&group, operation](const KernelArgs& args) mutable {
    operation.src = args.operands[0];
    operation.dst = args.results[0];
    return group.Run(operation);
  };
  return planned;
}

PlannedKernel PlanAllReduce(Communicator& group, const KernelRequest& request) {
  Collective operation = Start(CollectiveKind::kAllReduce, request);
  const std::string& reduction = request.attributes->String("reduction");
  operation.reduction = reduction == "max"   ? Reduction::kMax
                        : reduction == "min" ? Reduction::kMin
                                             : Reduction::kSum;
  operation.count = request.operands[0].elements();
  return OneToOne(group, std::move(operation));
}

// One row per index of the dims before `dim`; of each row every rank has the small one's part.
PlannedKernel PlanRows(CollectiveKind kind, const Type& small, Communicator& group,
                       const KernelRequest& request) {
  Collective operation = Start(kind, request);
  const int64_t dim = request.attributes->Int("dim");
  SetRows(operation, small, dim);
  return OneToOne(group, std::move(operation));
}

// Part r of dim `split` of x, for all r one after another.
struct Packing {
  int64_t outer, parts, bytes;  // rows of x; of one part in one row

  void Run(const void* x, void* packed) const {
    ParallelFor(outer, 1 + (1 << 16) / (parts * bytes + 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        for (int64_t r = 0; r < parts; ++r) {
          std::memcpy(static_cast<char*>(packed) + (r * outer + o) * bytes,
                      static_cast<const char*>(x) + (o * parts + r) * bytes,
                      static_cast<size_t>(bytes));
        }
      }
    });
  }
};

PlannedKernel PlanAllToAll(Communicator& group, const KernelRequest& request) {
  const int64_t split = request.attributes->Int("split"), join = request.attributes->Int("join");
  const Type& x = request.operands[0];
  Type part = x;
  part.dims[split] /= group.size();
  Collective operation = Start(CollectiveKind::kAllToAll, request);
  SetRows(operation, part, join);
  const Packing packing{Outer(x.dims, split), group.size(),
                        Inner(part.dims, split) * SizeOf(x.dtype)};
  PlannedKernel planned = OneToOne(group, operation);
  if (packing.outer == 1 || x.elements() == 0) return planned;
  planned.workspace_bytes = x.bytes();
  planned.try_run = [&group, operation, packing](const KernelArgs& args) mutable {
    packing.Run(args.operands[0], args.workspace);
    operation.src = args.workspace;
    operation.dst = args.results[0];
    return group.Run(operation);
  };
  return planned;
}

PlannedKernel PlanShift(Communicator& group, const KernelRequest& request) {
  const int64_t size = group.size(), by = request.attributes->Int("by") % size;
  std::vector<Collective> operations;
  for (const Type& x : request.operands) {
    Collective operation = Start(CollectiveKind::kExchange, request);
    operation.dtype = x.dtype;
    operation.count = operation.receive_count = x.elements();
    operation.to = static_cast<int>((group.rank() + by + size) % size);
    operation.from = static_cast<int>((group.rank() - by + size) % size);
    operations.push_back(std::move(operation));
  }
  PlannedKernel planned;
  planned.try_run = [&group, operations](const KernelArgs& args) mutable {
    for (size_t i = 0; i < operations.size(); ++i) {
      operations[i].src = args.operands[i];
      operations[i].dst = args.results[i];
      RETURN_IF_ERROR(group.Run(operations[i]));
    }
    return absl::OkStatus();
  };
  return planned;
}

// `pair`: rank 0 of it sends.
PlannedKernel PlanSend(Communicator& pair, const KernelRequest& request) {
  Collective operation = Start(CollectiveKind::kExchange, request);
  operation.count = request.operands[0].elements();
  operation.to = 1;
  PlannedKernel planned;
  planned.try_run = [&pair, operation](const KernelArgs& args) mutable {
    operation.src = args.operands[0];
    return pair.Run(operation);
  };
  return planned;
}

PlannedKernel PlanReceive(Communicator& pair, const KernelRequest& request) {
  Collective operation;
  operation.kind = CollectiveKind::kExchange;
  operation.dtype = request.results[0].dtype;
  operation.site = request.attributes->StringOr("site", request.op->name());
  operation.receive_count = request.results[0].elements();
  operation.from = 0;
  PlannedKernel planned;
  planned.try_run = [&pair, operation](const KernelArgs& args) mutable {
    operation.dst = args.results[0];
    return pair.Run(operation);
  };
  return planned;
}

bool IsMessage(const Op* op) { return op == &SendOp() || op == &ReceiveOp(); }

PlannedKernel PlanOn(Communicator& group, const KernelRequest& request) {
  const Op* op = request.op;
  if (op == &AllReduceOp()) return PlanAllReduce(group, request);
  if (op == &AllGatherOp()) {
    return PlanRows(CollectiveKind::kAllGather, request.operands[0], group, request);
  }
  if (op == &ReduceScatterOp()) {
    return PlanRows(CollectiveKind::kReduceScatter, request.results[0], group, request);
  }
  if (op == &AllToAllOp()) return PlanAllToAll(group, request);
  CHECK(op == &ShiftOp()) << op->name();
  return PlanShift(group, request);
}

CollectiveKind KindOf(const Op& op) {
  if (&op == &AllReduceOp()) return CollectiveKind::kAllReduce;
  if (&op == &AllGatherOp()) return CollectiveKind::kAllGather;
  if (&op == &ReduceScatterOp()) return CollectiveKind::kReduceScatter;
  if (&op == &AllToAllOp()) return CollectiveKind::kAllToAll;
  return CollectiveKind::kExchange;
}

double SecondsOf(const KernelRequest& request, int parts, const LinkRates& rates) {
  if (IsMessage(request.op)) {
    const Type& sent = request.op == &SendOp() ? request.operands[0] : request.results[0];
    return CollectiveSeconds(CollectiveKind::kExchange, sent.dtype, sent.elements(), 2, rates);
  }
  double seconds = 0;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const int64_t elements =
        std::max(request.operands[i].elements(), request.results[i].elements());
    seconds +=
        CollectiveSeconds(KindOf(*request.op), request.operands[i].dtype, elements, parts, rates);
  }
  return seconds;
}

class CollectiveKernel final : public Kernel {
 public:
  CollectiveKernel(const Mesh& mesh, MeshCommunicators* communicators, absl::string_view channel,
                   const LinkRates& rates)
      : mesh_(mesh), communicators_(communicators), channel_(channel), rates_(rates) {}

  absl::string_view name() const override { return "collective"; }

  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    if (!IsCollective(*request.op)) return absl::UnimplementedError("not a collective");
    const AxisNames& axes = request.attributes->StringList("axes");
    const int64_t parts = request.attributes->Int("parts");
    PlannedKernel planned;
    if (communicators_ != nullptr && IsMessage(request.op)) {
      ASSIGN_OR_RETURN(planned, PlanMessage(request));
    } else if (communicators_ != nullptr) {
      ASSIGN_OR_RETURN(Communicator * group, communicators_->On(axes, channel_));
      RETURN_IF_ERROR(CheckParts(parts, group->size()));
      planned = PlanOn(*group, request);
    } else if (axes != AxisNames{kWorldAxis}) {  // a mesh does not know how many there are
      RETURN_IF_ERROR(CheckParts(parts, mesh_.SizeOf(axes)));
    }
    planned.name = std::string(name());
    planned.seconds = SecondsOf(request, static_cast<int>(parts), rates_);
    return planned;
  }

 private:
  absl::StatusOr<PlannedKernel> PlanMessage(const KernelRequest& request) const {
    const AxisNames& axes = request.attributes->StringList("axes");
    RETURN_IF_ERROR(CheckParts(request.attributes->Int("parts"), communicators_->SizeOf(axes)));
    const bool sends = request.op == &SendOp();
    const int own = communicators_->IndexIn(axes);
    const int other = static_cast<int>(request.attributes->Int(sends ? "to" : "from"));
    if (own == other) return absl::InvalidArgumentError("a message to oneself");
    ASSIGN_OR_RETURN(Communicator * pair, communicators_->Pair(axes, sends ? own : other,
                                                               sends ? other : own, channel_));
    return sends ? PlanSend(*pair, request) : PlanReceive(*pair, request);
  }

  static absl::Status CheckParts(int64_t parts, int64_t ranks) {
    if (parts == ranks) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("planned for ", parts, " ranks, the group has ", ranks));
  }

  const Mesh mesh_;
  MeshCommunicators* const communicators_;  // nullptr: there are no ranks
  const std::string channel_;
  const LinkRates rates_;
};

}  // namespace

CollectiveKernels::CollectiveKernels(MeshCommunicators& communicators, KernelList device,
                                     absl::string_view channel, const LinkRates& rates)
    : collective_(std::make_unique<CollectiveKernel>(communicators.mesh(), &communicators, channel,
                                                     rates)) {
  list_.push_back(collective_.get());
  list_.insert(list_.end(), device.begin(), device.end());
}

CollectiveKernels::CollectiveKernels(const Mesh& mesh, KernelList device, const LinkRates& rates)
    : collective_(std::make_unique<CollectiveKernel>(mesh, nullptr, "", rates)) {
  list_.push_back(collective_.get());
  list_.insert(list_.end(), device.begin(), device.end());
}

CollectiveKernels::~CollectiveKernels() = default;

}  // namespace colossus
