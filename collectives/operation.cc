#include "collectives/operation.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

bool HasParts(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllToAll;
}

bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

int64_t Sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

absl::Status Refuse(const Collective& operation, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(operation), ": ", why));
}

absl::Status ValidateParts(const Collective& op, int size) {
  if (!HasParts(op.kind) && (op.rows != 1 || !op.counts.empty())) {
    return Refuse(op, "rows and counts are for all_gather, reduce_scatter and all_to_all only");
  }
  if (op.rows < 1) return Refuse(op, absl::StrCat(op.rows, " rows; at least 1"));
  if (op.rows != 1 && !op.counts.empty()) return Refuse(op, "rows need equal parts");
  const bool all_to_all = op.kind == CollectiveKind::kAllToAll;
  if (op.counts.empty() != op.receive_counts.empty() && all_to_all) {
    return Refuse(op, "counts and receive_counts come together");
  }
  if (!all_to_all && !op.receive_counts.empty()) {
    return Refuse(op, "receive_counts are for all_to_all only");
  }
  for (const std::vector<int64_t>* counts : {&op.counts, &op.receive_counts}) {
    if (counts->empty()) continue;
    if (static_cast<int>(counts->size()) != size) {
      return Refuse(op, absl::StrCat(counts->size(), " counts for ", size, " ranks"));
    }
    for (int64_t count : *counts) {
      if (count < 0) return Refuse(op, absl::StrCat("a count of ", count));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePeers(const Collective& op, int rank, int size) {
  if (op.kind == CollectiveKind::kBroadcast && (op.root < 0 || op.root >= size)) {
    return Refuse(op, absl::StrCat("root ", op.root, " is not in 0..", size - 1));
  }
  if (op.kind != CollectiveKind::kExchange) return absl::OkStatus();
  for (int peer : {op.to, op.from}) {
    if (peer < -1 || peer >= size) {
      return Refuse(op, absl::StrCat("peer ", peer, " is not in -1..", size - 1));
    }
  }
  if ((op.to == rank) != (op.from == rank) || (op.to == rank && op.count != op.receive_count)) {
    return Refuse(op, "what is sent to oneself is not what is received");
  }
  return absl::OkStatus();
}

// Where src and dst may be the same memory.
bool IsInPlace(const Collective& op, int rank) {
  const char* src = static_cast<const char*>(op.src);
  const char* dst = static_cast<const char*>(op.dst);
  switch (op.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return src == dst;
    case CollectiveKind::kAllGather:
      return op.rows == 1 && src == dst + PartOf(op, rank).first * SizeOf(op.dtype);
    case CollectiveKind::kReduceScatter:
      return op.rows == 1 && dst == src + PartOf(op, rank).first * SizeOf(op.dtype);
    default:
      return false;
  }
}

absl::Status ValidateBuffers(const Collective& op, int rank, int size) {
  const int64_t src_bytes = SourceElements(op, rank, size) * SizeOf(op.dtype);
  const int64_t dst_bytes = DestinationElements(op, rank, size) * SizeOf(op.dtype);
  if (src_bytes > 0 && op.src == nullptr) return Refuse(op, "no src");
  if (dst_bytes > 0 && op.dst == nullptr) return Refuse(op, "no dst");
  if (src_bytes == 0 || dst_bytes == 0 || IsInPlace(op, rank)) return absl::OkStatus();
  const auto src = reinterpret_cast<uintptr_t>(op.src);
  const auto dst = reinterpret_cast<uintptr_t>(op.dst);
  if (src < dst + static_cast<uintptr_t>(dst_bytes) &&
      dst < src + static_cast<uintptr_t>(src_bytes)) {
    return Refuse(op, "src and dst overlap");
  }
  return absl::OkStatus();
}

absl::string_view Name(Reduction reduction) {
  return reduction == Reduction::kSum ? "sum" : reduction == Reduction::kMax ? "max" : "min";
}

}  // namespace

absl::Status Validate(const Collective& op, int rank, int size) {
  if (op.count < 0 || op.receive_count < 0) return Refuse(op, "a count below 0");
  RETURN_IF_ERROR(ValidateParts(op, size));
  RETURN_IF_ERROR(ValidatePeers(op, rank, size));
  if (Reduces(op.kind) && (op.dtype == DType::kU8 || op.dtype == DType::kBool)) {
    return Refuse(op, "this type is not reduced; convert it to i32 first");
  }
  return ValidateBuffers(op, rank, size);
}

absl::Status ValidateMembers(const std::vector<int>& members, int rank, int size) {
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int member : members) {
    if (member < 0 || member >= size || seen[static_cast<size_t>(member)]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "subgroup of ranks ", absl::StrJoin(members, ","), ": not distinct ranks of ", size));
    }
    seen[static_cast<size_t>(member)] = true;
  }
  if (IndexOf(members, rank) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("subgroup of ranks ", absl::StrJoin(members, ","),
                                                 ": rank ", rank, " is not a member"));
}

int IndexOf(const std::vector<int>& members, int rank) {
  const auto it = std::find(members.begin(), members.end(), rank);
  return it == members.end() ? -1 : static_cast<int>(it - members.begin());
}

std::string Describe(const Collective& op) {
  std::string text(Name(op.kind));
  if (Reduces(op.kind)) absl::StrAppend(&text, " ", Name(op.reduction));
  if (op.kind != CollectiveKind::kBarrier) {
    absl::StrAppend(&text, " ", Name(op.dtype), ", ");
    if (op.rows != 1) absl::StrAppend(&text, op.rows, " rows of ");
    absl::StrAppend(&text, op.counts.empty() ? op.count : Sum(op.counts), " elements");
    if (HasParts(op.kind)) absl::StrAppend(&text, op.counts.empty() ? " a part" : " in all");
  }
  if (op.kind == CollectiveKind::kBroadcast) absl::StrAppend(&text, " from rank ", op.root);
  if (op.kind == CollectiveKind::kExchange) {
    if (op.to >= 0) absl::StrAppend(&text, " to rank ", op.to);
    if (op.from >= 0) {
      absl::StrAppend(&text, op.to >= 0 ? " and " : " ", op.receive_count, " from rank ", op.from);
    }
  }
  absl::StrAppend(&text, ", at ", op.site.empty() ? "a place without a name" : op.site);
  return text;
}

std::string MismatchOf(const Collective& a, int rank_a, const Collective& b, int rank_b) {
  const auto differ = [&](absl::string_view what) { return std::string(what); };
  if (a.kind != b.kind) return differ("operations");
  if (a.kind == CollectiveKind::kExchange) {
    if (a.to == rank_b && (b.from != rank_a || b.receive_count != a.count)) return differ("ends");
    if (a.from == rank_b && (b.to != rank_a || b.count != a.receive_count)) return differ("ends");
    if (b.to == rank_a && a.from != rank_b) return differ("ends");
    if (b.from == rank_a && a.to != rank_b) return differ("ends");
    const bool paired = a.to == rank_b || a.from == rank_b;
    return paired && a.dtype != b.dtype ? differ("types") : "";
  }
  if (!a.site.empty() && !b.site.empty() && a.site != b.site) return differ("call sites");
  if (a.kind == CollectiveKind::kBarrier) return "";
  if (a.dtype != b.dtype) return differ("types");
  if (Reduces(a.kind) && a.reduction != b.reduction) return differ("reductions");
  if (a.kind == CollectiveKind::kBroadcast && a.root != b.root) return differ("roots");
  if (a.rows != b.rows) return differ("rows");
  if (a.counts.empty() != b.counts.empty()) return differ("counts");
  if (a.counts.empty()) return a.count != b.count ? differ("element counts") : "";
  if (a.kind != CollectiveKind::kAllToAll) return a.counts != b.counts ? differ("counts") : "";
  const bool agree =
      a.counts[static_cast<size_t>(rank_b)] == b.receive_counts[static_cast<size_t>(rank_a)] &&
      b.counts[static_cast<size_t>(rank_a)] == a.receive_counts[static_cast<size_t>(rank_b)];
  return agree ? "" : differ("counts of what is sent and received");
}

int64_t SourceElements(const Collective& op, int rank, int size) {
  switch (op.kind) {
    case CollectiveKind::kAllReduce:
      return op.count;
    case CollectiveKind::kAllGather:
      return op.rows * PartOf(op, rank).count;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return op.counts.empty() ? op.rows * op.count * size : Sum(op.counts);
    case CollectiveKind::kBroadcast:
      return op.root == rank ? op.count : 0;
    case CollectiveKind::kExchange:
      return op.to >= 0 ? op.count : 0;
    case CollectiveKind::kBarrier:
      return 0;
  }
  CHECK(false);
  return 0;
}

int64_t DestinationElements(const Collective& op, int rank, int size) {
  switch (op.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return op.count;
    case CollectiveKind::kAllGather:
      return op.counts.empty() ? op.rows * op.count * size : Sum(op.counts);
    case CollectiveKind::kReduceScatter:
      return op.rows * PartOf(op, rank).count;
    case CollectiveKind::kAllToAll:
      return op.counts.empty() ? op.rows * op.count * size : Sum(op.receive_counts);
    case CollectiveKind::kExchange:
      return op.from >= 0 ? op.receive_count : 0;
    case CollectiveKind::kBarrier:
      return 0;
  }
  CHECK(false);
  return 0;
}

namespace {

PartRange Part(const std::vector<int64_t>& counts, int64_t count, int part) {
  if (counts.empty()) return {part * count, count};
  PartRange range{0, counts[static_cast<size_t>(part)]};
  for (int i = 0; i < part; ++i) range.first += counts[static_cast<size_t>(i)];
  return range;
}

}  // namespace

PartRange PartOf(const Collective& op, int part) { return Part(op.counts, op.count, part); }

PartRange ReceivedPartOf(const Collective& op, int part) {
  return Part(op.receive_counts, op.count, part);
}

PartRange EvenPart(int64_t count, int size, int part) {
  const int64_t length = (count + size - 1) / size;
  const int64_t first = std::min(count, part * length);
  return {first, std::min(count - first, length)};
}

}  // namespace colossus
