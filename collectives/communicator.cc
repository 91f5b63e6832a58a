#include "collectives/communicator.h"

#include <utility>

#include "base/check.h"

namespace colossus {
namespace {

absl::Status AllReduceInPlace(Communicator& communicator, void* values, DType dtype, int64_t count,
                              absl::string_view site, Reduction reduction) {
  Collective operation;
  operation.kind = CollectiveKind::kAllReduce;
  operation.dtype = dtype;
  operation.reduction = reduction;
  operation.src = operation.dst = values;
  operation.count = count;
  operation.site = std::string(site);
  return communicator.Run(operation);
}

}  // namespace

absl::string_view Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kExchange:
      return "exchange";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  CHECK(false) << "unknown collective";
  return "";
}

void Communicator::Launch(Stream& stream, Collective operation) {
  stream.Launch([this, operation = std::move(operation)] { return Run(operation); });
}

absl::Status Communicator::WorldStatus() const { return absl::OkStatus(); }
void Communicator::SetWhere(int64_t, absl::string_view) {}
void Communicator::Beat() {}
bool Communicator::waits() const { return false; }

absl::Status Barrier(Communicator& communicator, absl::string_view site) {
  Collective operation;
  operation.site = std::string(site);
  return communicator.Run(operation);
}

absl::Status AllReduce(Communicator& communicator, double* values, int64_t count,
                       absl::string_view site, Reduction reduction) {
  return AllReduceInPlace(communicator, values, DType::kF64, count, site, reduction);
}

absl::Status AllReduce(Communicator& communicator, int64_t* values, int64_t count,
                       absl::string_view site, Reduction reduction) {
  return AllReduceInPlace(communicator, values, DType::kI64, count, site, reduction);
}

}  // namespace colossus
