#include "collectives/watch/operation_record.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/operation.h"

namespace colossus {
namespace {

uint64_t HashOf(const std::vector<int64_t>& counts) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t count : counts) {
    hash ^= static_cast<uint64_t>(count);
    hash *= 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

template <size_t kSize>
void CopyText(absl::string_view text, char (&to)[kSize]) {
  std::memcpy(to, text.data(), std::min(text.size(), kSize - 1));
}

// The operation without its buffers, for Describe and MismatchOf.
Collective OperationOf(const OperationRecord& record) {
  Collective op;
  op.kind = record.kind;
  op.dtype = record.dtype;
  op.reduction = record.reduction;
  op.count = record.count;
  op.rows = record.rows;
  op.receive_count = record.receive_count;
  op.root = record.root;
  op.to = record.to;
  op.from = record.from;
  op.site = record.site;
  if (record.uneven) op.counts = {record.count};
  return op;
}

}  // namespace

OperationRecord RecordOf(const Collective& op, absl::string_view group_name, uint64_t group,
                         int rank, int size, uint64_t turn) {
  OperationRecord record;
  record.turn = turn;
  record.group = group;
  record.count = op.count;
  record.receive_count = op.receive_count;
  record.rows = op.rows;
  record.rank = rank;
  record.size = size;
  record.root = op.root;
  record.to = op.to;
  record.from = op.from;
  record.kind = op.kind;
  record.dtype = op.dtype;
  record.reduction = op.reduction;
  if (!op.counts.empty()) {
    record.uneven = true;
    record.count = std::accumulate(op.counts.begin(), op.counts.end(), int64_t{0});
    if (op.kind != CollectiveKind::kAllToAll) record.counts_hash = HashOf(op.counts);
  }
  CopyText(group_name, record.group_name);
  absl::string_view site = op.site;
  if (site.size() >= sizeof(record.site)) site.remove_prefix(site.size() - sizeof(record.site) + 1);
  CopyText(site, record.site);
  return record;
}

std::string Describe(const OperationRecord& record) {
  if (record.turn == 0) return "nothing";
  return absl::StrCat("operation ", record.turn, " of group ", record.group_name, ", ",
                      Describe(OperationOf(record)));
}

std::string MismatchText(absl::Span<const int> members, absl::string_view what,
                         const OperationRecord& a, const OperationRecord& b) {
  if (a.rank > b.rank) return MismatchText(members, what, b, a);
  const auto world_rank = [&](const OperationRecord& record) {
    return members[static_cast<size_t>(record.rank)];
  };
  return absl::StrCat("collectives of group ", a.group_name, " [", absl::StrJoin(members, ","),
                      "] do not match: ", what, "; rank ", world_rank(a), ": ", Describe(a),
                      "; rank ", world_rank(b), ": ", Describe(b));
}

std::string MismatchOf(const OperationRecord& a, const OperationRecord& b) {
  if (a.group != b.group) return "groups";
  if (a.turn != b.turn) return "operation numbers";
  Collective left = OperationOf(a), right = OperationOf(b);
  if (a.uneven && b.uneven) {
    if (a.counts_hash != b.counts_hash) return "counts";
    left.counts = right.counts = {};
    left.count = right.count = 0;
  }
  return MismatchOf(left, a.rank, right, b.rank);
}

}  // namespace colossus
