#include "collectives/reference.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/operation.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

using Bytes = std::vector<char>;

// One element of the sum over ranks lo .. hi - 1, by the words of communicator.h.
template <class A, class Leaf>
A TreeOf(Reduction reduction, int lo, int hi, const Leaf& leaf) {
  if (hi - lo == 1) return leaf(lo);
  const int mid = TreeMiddle(lo, hi);
  const A a = TreeOf<A>(reduction, lo, mid, leaf), b = TreeOf<A>(reduction, mid, hi, leaf);
  switch (reduction) {
    case Reduction::kMax:
      return a > b || a != a ? a : b;
    case Reduction::kMin:
      return a < b || a != a ? a : b;
    default:
      break;
  }
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class T>
T ReducedElement(absl::Span<const Collective> ops, int64_t i) {
  const int ranks = static_cast<int>(ops.size());
  const auto src = [&](int rank) { return static_cast<const T*>(ops[rank].src)[i]; };
  if constexpr (std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
    if (ranks == 1) return src(0);
    return T::From(
        TreeOf<float>(ops[0].reduction, 0, ranks, [&](int rank) { return src(rank).F(); }));
  } else {
    return TreeOf<T>(ops[0].reduction, 0, ranks, src);
  }
}

// The reduction of all ranks' whole src.
Bytes Reduced(absl::Span<const Collective> ops) {
  const int64_t n = SourceElements(ops[0], 0, static_cast<int>(ops.size()));
  Bytes result(static_cast<size_t>(n * SizeOf(ops[0].dtype)));
  DispatchDType(ops[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>) {
      CHECK(false) << "this type is not reduced";
    } else {
      T* out = reinterpret_cast<T*>(result.data());
      for (int64_t i = 0; i < n; ++i) out[i] = ReducedElement<T>(ops, i);
    }
  });
  return result;
}

class Copier {
 public:
  Copier(DType dtype, Bytes& result) : size_(SizeOf(dtype)), result_(result) {}
  // `count` elements of src from `from` on go to the result from `to` on.
  void operator()(const void* src, int64_t from, int64_t to, int64_t count) const {
    if (count == 0) return;
    std::memcpy(result_.data() + to * size_, static_cast<const char*>(src) + from * size_,
                static_cast<size_t>(count * size_));
  }

 private:
  int64_t size_;
  Bytes& result_;
};

// What `rank` gets. `reduced` is the reduction of all srcs where there is one.
Bytes ResultOf(absl::Span<const Collective> ops, int rank, const Bytes& reduced) {
  const int size = static_cast<int>(ops.size());
  const Collective& own = ops[rank];
  Bytes result(static_cast<size_t>(DestinationElements(own, rank, size) * SizeOf(own.dtype)));
  const Copier copy(own.dtype, result);
  switch (own.kind) {
    case CollectiveKind::kAllReduce:
      return reduced;
    case CollectiveKind::kAllGather:
      for (int64_t row = 0; row < own.rows; ++row) {
        for (int p = 0; p < size; ++p) {
          const PartRange part = PartOf(own, p);
          copy(ops[p].src, row * part.count, row * size * own.count + part.first, part.count);
        }
      }
      break;
    case CollectiveKind::kReduceScatter:
      for (int64_t row = 0; row < own.rows; ++row) {
        const PartRange part = PartOf(own, rank);
        copy(reduced.data(), row * size * own.count + part.first, row * part.count, part.count);
      }
      break;
    case CollectiveKind::kAllToAll:
      for (int64_t row = 0; row < own.rows; ++row) {
        for (int p = 0; p < size; ++p) {
          const PartRange sent = PartOf(ops[p], rank), received = ReceivedPartOf(own, p);
          copy(ops[p].src, sent.first * own.rows + row * sent.count,
               row * size * own.count + received.first, received.count);
        }
      }
      break;
    case CollectiveKind::kBroadcast:
      copy(ops[own.root].src, 0, 0, own.count);
      break;
    case CollectiveKind::kExchange:
      if (own.from >= 0) copy(ops[own.from].src, 0, 0, own.receive_count);
      break;
    case CollectiveKind::kBarrier:
      break;
  }
  return result;
}

// One group of ranks: gathers the operations, does them, lets all go.
struct Group {
  explicit Group(int ranks) : pending(static_cast<size_t>(ranks)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Collective> pending;  // guarded by mutex, as all below
  int arrived = 0;
  int64_t finished = 0;  // operations
  absl::Status status;   // the first error; stays
};

struct World {
  std::mutex mutex;
  std::map<std::string, std::vector<std::shared_ptr<Group>>> groups;  // guarded by mutex
  absl::Status status;                                                // guarded by mutex; aborted
};

absl::Status MatchAll(absl::Span<const Collective> ops) {
  const int size = static_cast<int>(ops.size());
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      const std::string what = MismatchOf(ops[a], a, ops[b], b);
      if (what.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat("collectives do not match: ", what, "; rank ",
                                                     a, ": ", Describe(ops[a]), "; rank ", b, ": ",
                                                     Describe(ops[b])));
    }
  }
  return absl::OkStatus();
}

class ReferenceCommunicator final : public Communicator {
 public:
  ReferenceCommunicator(std::shared_ptr<World> world, std::shared_ptr<Group> group, int rank,
                        std::string name)
      : world_(std::move(world)), group_(std::move(group)), rank_(rank), name_(std::move(name)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->pending.size()); }
  CollectiveCounts counts() const override { return counts_; }

  absl::Status Run(const Collective& operation) override {
    const absl::Status valid = Validate(operation, rank_, size());
    std::unique_lock<std::mutex> lock(group_->mutex);
    if (!valid.ok() && group_->status.ok()) group_->status = valid;
    group_->pending[static_cast<size_t>(rank_)] = operation;
    const int64_t turn = group_->finished;
    if (++group_->arrived == size()) {
      if (group_->status.ok()) group_->status = MatchAll(group_->pending);
      if (group_->status.ok()) RunReference(group_->pending);
      group_->arrived = 0;
      ++group_->finished;
    }
    group_->changed.notify_all();
    group_->changed.wait(lock, [&] { return group_->finished > turn || !group_->status.ok(); });
    ++counts_.operations;
    return group_->status;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view name) override {
    RETURN_IF_ERROR(ValidateMembers(members, rank_, size()));
    const std::string path = absl::StrCat(name_, "/", name, ":", absl::StrJoin(members, ","));
    const size_t nth = made_[path]++;
    std::lock_guard<std::mutex> lock(world_->mutex);
    std::vector<std::shared_ptr<Group>>& groups = world_->groups[path];
    if (groups.size() == nth) {
      groups.push_back(std::make_shared<Group>(static_cast<int>(members.size())));
      groups.back()->status = world_->status;
    }
    const int rank = IndexOf(members, rank_);
    return std::make_unique<ReferenceCommunicator>(world_, groups[nth], rank,
                                                   absl::StrCat(path, "#", nth));
  }

  void Abort(const absl::Status& why) override {
    std::lock_guard<std::mutex> lock(world_->mutex);
    if (!world_->status.ok()) return;
    world_->status = absl::AbortedError(why.message());
    for (auto& [path, groups] : world_->groups) {
      for (const std::shared_ptr<Group>& group : groups) {
        std::lock_guard<std::mutex> group_lock(group->mutex);
        if (group->status.ok()) group->status = world_->status;
        group->changed.notify_all();
      }
    }
  }

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<Group> group_;
  const int rank_;
  const std::string name_;
  std::map<std::string, size_t> made_;  // subgroups, by path
  CollectiveCounts counts_;
};

}  // namespace

void RunReference(absl::Span<const Collective> operations) {
  const CollectiveKind kind = operations[0].kind;
  const int size = static_cast<int>(operations.size());
  Bytes reduced;
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
    reduced = Reduced(operations);
  }
  // All results before the first is written: buffers may be in place.
  std::vector<Bytes> results;
  for (int rank = 0; rank < size; ++rank) results.push_back(ResultOf(operations, rank, reduced));
  for (int rank = 0; rank < size; ++rank) {
    const Bytes& result = results[static_cast<size_t>(rank)];
    if (!result.empty()) std::memcpy(operations[rank].dst, result.data(), result.size());
  }
}

std::vector<std::unique_ptr<Communicator>> NewReferenceWorld(int ranks) {
  CHECK_GE(ranks, 1);
  auto world = std::make_shared<World>();
  auto group = std::make_shared<Group>(ranks);
  world->groups["world"] = {group};
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank) {
    communicators.push_back(std::make_unique<ReferenceCommunicator>(world, group, rank, "world"));
  }
  return communicators;
}

}  // namespace colossus
