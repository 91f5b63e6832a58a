#include "parallel/pipeline/transfers.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// The ranks of a stage that hold the same part of a value. (Slice is an op here too.)
struct Copies {
  struct Slice slice;
  std::vector<int> ranks;  // of the mesh
};

absl::StatusOr<std::vector<Copies>> CopiesOf(const Dims& dims, const StageLayout& layout) {
  std::map<Dims, Copies> by_origin;
  for (int rank = 0; rank < layout.mesh.ranks(); ++rank) {
    ASSIGN_OR_RETURN(struct Slice slice, SliceOf(dims, layout.sharding, layout.mesh, rank));
    Copies& copies = by_origin[slice.origin];
    copies.slice = std::move(slice);
    copies.ranks.push_back(rank);
  }
  std::vector<Copies> all;
  for (auto& item : by_origin) all.push_back(std::move(item.second));
  return all;
}

// What both have; false: nothing.
bool Intersect(const struct Slice& a, const struct Slice& b, Transfer& transfer) {
  transfer.origin.clear();
  transfer.extent.clear();
  for (size_t d = 0; d < a.origin.size(); ++d) {
    const int64_t low = std::max(a.origin[d], b.origin[d]);
    const int64_t high = std::min(a.origin[d] + a.extent[d], b.origin[d] + b.extent[d]);
    if (low >= high) return false;
    transfer.origin.push_back(low);
    transfer.extent.push_back(high - low);
  }
  return true;
}

// Elements of the part, all of them: the part itself.
ValueId CutOutOf(GraphBuilder& builder, ValueId part, const struct Slice& slice,
                 const Transfer& transfer) {
  if (transfer.extent == slice.extent) return part;
  Ints starts, limits;
  for (size_t d = 0; d < transfer.extent.size(); ++d) {
    starts.push_back(transfer.origin[d] - slice.origin[d]);
    limits.push_back(starts.back() + transfer.extent[d]);
  }
  return Slice(builder, part, std::move(starts), std::move(limits));
}

// Boxes of a grid, by origin, into one.
ValueId Join(GraphBuilder& builder, std::map<Dims, ValueId> boxes, size_t dims) {
  for (size_t d = dims; d-- > 0;) {
    std::map<Dims, ValueIds> rows;  // by origin without dim d; in its order
    for (const auto& [origin, box] : boxes) {
      Dims row = origin;
      row[d] = 0;
      rows[row].push_back(box);
    }
    boxes.clear();
    for (const auto& [row, parts] : rows) {
      boxes[row] = parts.size() == 1 ? parts[0] : Concat(builder, parts, static_cast<int>(d));
    }
  }
  CHECK_EQ(boxes.size(), 1u);
  return boxes.begin()->second;
}

}  // namespace

absl::StatusOr<Transfers> PlanTransfers(const Dims& dims, const StageLayout& from,
                                        const StageLayout& to) {
  Transfers transfers;
  ASSIGN_OR_RETURN(const std::vector<Copies> senders, CopiesOf(dims, from));
  for (const Copies& copies : senders) {
    for (int rank : copies.ranks) transfers.parts[from.first + rank] = copies.slice;
  }
  for (int rank = 0; rank < to.mesh.ranks(); ++rank) {
    ASSIGN_OR_RETURN(const struct Slice slice, SliceOf(dims, to.sharding, to.mesh, rank));
    transfers.parts[to.first + rank] = slice;
    if (to.mesh.IndexIn(rank, to.sharding.partial) != 0) continue;
    for (const Copies& copies : senders) {
      Transfer transfer;
      if (!Intersect(copies.slice, slice, transfer)) continue;
      const size_t copy = static_cast<size_t>(rank) % copies.ranks.size();
      transfer.from = from.first + copies.ranks[copy];
      transfer.to = to.first + rank;
      transfers.list.push_back(std::move(transfer));
    }
  }
  return transfers;
}

int AddSends(GraphBuilder& builder, ValueId part, const Transfers& transfers, int rank, int ranks,
             absl::string_view site) {
  int sends = 0;
  for (const Transfer& transfer : transfers.list) {
    if (transfer.from != rank) continue;
    const std::string own = absl::StrCat(site, "/", transfer.to);
    const ValueId sent = CutOutOf(builder, part, transfers.parts.at(rank), transfer);
    builder.Output(own, Send(builder, sent, {kWorldAxis}, ranks, transfer.to, own));
    ++sends;
  }
  return sends;
}

ValueId AddReceives(GraphBuilder& builder, DType dtype, const Transfers& transfers, int rank,
                    int ranks, absl::string_view site) {
  const struct Slice& part = transfers.parts.at(rank);
  std::map<Dims, ValueId> boxes;
  for (const Transfer& transfer : transfers.list) {
    if (transfer.to != rank) continue;
    boxes[transfer.origin] =
        Receive(builder, {dtype, transfer.extent}, {kWorldAxis}, ranks, transfer.from,
                absl::StrCat(site, "/", transfer.from));
  }
  if (boxes.empty()) return Constant(builder, dtype, part.extent, {0});
  return Join(builder, std::move(boxes), part.extent.size());
}

}  // namespace colossus
