#include "tensor/exec/interval_allocator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace colossus {
namespace {

// Largest first compares every buffer with those already placed; beyond this count it would take
// too long.
constexpr size_t kMostBuffersForLargestFirst = 8000;
// Of AssignOffsetsWithin.
constexpr int64_t kMostComparisons = 1'000'000'000;
constexpr int64_t kMostTries = 400;

// Free ranges of an address space that can grow at its end.
class FreeList {
 public:
  // Smallest free range that holds `bytes`; the end grows if there is none.
  int64_t Take(int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      auto [size, offset] = *fit;
      Remove(offset, size);
      if (size > bytes) Insert(offset + bytes, size - bytes);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        Remove(last->first, last->second);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      Remove(next->first, next->second);
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous->first, previous->second);
      }
    }
    Insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  void Insert(int64_t offset, int64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  int64_t end_ = 0;
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
};

std::vector<size_t> Indices(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

int64_t BestFitInTimeOrder(std::vector<LiveBuffer>& buffers) {
  std::vector<size_t> starts = Indices(buffers.size()), ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](size_t a, size_t b) {
    if (buffers[a].first != buffers[b].first) return buffers[a].first < buffers[b].first;
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](size_t a, size_t b) { return buffers[a].last < buffers[b].last; });
  FreeList memory;
  size_t next_end = 0;
  for (size_t b : starts) {
    while (next_end < ends.size() && buffers[ends[next_end]].last < buffers[b].first) {
      const LiveBuffer& dead = buffers[ends[next_end++]];
      if (dead.bytes > 0) memory.Give(dead.offset, dead.bytes);
    }
    buffers[b].offset = buffers[b].bytes > 0 ? memory.Take(buffers[b].bytes) : 0;
  }
  return memory.end();
}

std::vector<size_t> BySize(const std::vector<LiveBuffer>& buffers) {
  std::vector<size_t> order = Indices(buffers.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  return order;
}

// Each buffer goes to the lowest gap between the placed ones that are alive with it.
int64_t InOrder(const std::vector<size_t>& order, std::vector<LiveBuffer>& buffers) {
  std::vector<size_t> placed;  // by offset
  int64_t end = 0;
  for (size_t b : order) {
    LiveBuffer& buffer = buffers[b];
    int64_t offset = 0;
    for (size_t p : placed) {
      const LiveBuffer& other = buffers[p];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      if (other.offset >= offset + buffer.bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    buffer.offset = offset;
    end = std::max(end, offset + buffer.bytes);
    auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                               [&](int64_t o, size_t p) { return o < buffers[p].offset; });
    placed.insert(at, b);
  }
  return end;
}

// Buffers that live side by side lie side by side, so that what is large and lives for a moment
// between them finds room in one piece.
std::vector<size_t> ByFirst(const std::vector<LiveBuffer>& buffers) {
  std::vector<size_t> order = BySize(buffers);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
  return order;
}

std::vector<size_t> ByBytesTimesTime(const std::vector<LiveBuffer>& buffers) {
  std::vector<size_t> order = Indices(buffers.size());
  auto weight = [&](size_t b) {
    return static_cast<double>(buffers[b].bytes) *
           static_cast<double>(buffers[b].last - buffers[b].first + 1);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weight(a) > weight(b); });
  return order;
}

// What no placement can be below.
int64_t MostAlive(const std::vector<LiveBuffer>& buffers) {
  std::map<int64_t, int64_t> change;
  for (const LiveBuffer& buffer : buffers) {
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  int64_t alive = 0, most = 0;
  for (auto [t, bytes] : change) most = std::max(most, alive += bytes);
  return most;
}

}  // namespace

int64_t AssignOffsets(std::vector<LiveBuffer>& buffers) {
  int64_t peak = BestFitInTimeOrder(buffers);
  if (buffers.size() > kMostBuffersForLargestFirst) return peak;
  std::vector<LiveBuffer> other = buffers;
  int64_t other_peak = InOrder(BySize(other), other);
  if (other_peak < peak) {
    buffers = std::move(other);
    peak = other_peak;
  }
  return peak;
}

int64_t AssignOffsetsWithin(std::vector<LiveBuffer>& buffers, int64_t limit) {
  int64_t peak = AssignOffsets(buffers);
  const int64_t n = static_cast<int64_t>(buffers.size());
  if (peak <= limit || n == 0 || MostAlive(buffers) > limit) return peak;
  const int64_t tries = std::clamp(kMostComparisons / (n * n), int64_t{2}, kMostTries);
  for (const std::vector<size_t>& start :
       {ByFirst(buffers), BySize(buffers), ByBytesTimesTime(buffers)}) {
    std::vector<size_t> order = start;
    for (int64_t t = 0; t < tries; ++t) {
      std::vector<LiveBuffer> other = buffers;
      const int64_t end = InOrder(order, other);
      std::stable_partition(order.begin(), order.end(), [&](size_t b) {
        return other[b].bytes > 0 && other[b].offset + other[b].bytes > limit;
      });
      if (end >= peak) continue;
      buffers = std::move(other);
      peak = end;
      if (peak <= limit) return peak;
    }
  }
  return peak;
}

}  // namespace colossus
