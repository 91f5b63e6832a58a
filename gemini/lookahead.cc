#include "gemini/lookahead.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace colossus {
namespace {

class Lengthener {
 public:
  Lengthener(const TierObjects& objects, const StepTime& time, const LookAheadOptions& options,
             std::vector<TierStay>& stays)
      : objects_(objects),
        time_(time),
        options_(options),
        stays_(stays),
        free_(time.start.size() + 1, options.capacity) {}

  void Run() {
    CountFree();
    KeepUntilStored();
    LoadEarly();
    for (TierStay& stay : stays_) stay.kept = stay.last;
  }

 private:
  int64_t instructions() const { return static_cast<int64_t>(time_.start.size()); }
  int64_t BytesOf(const TierStay& stay) const { return objects_.objects[stay.object].bytes; }
  double SecondsOf(const TierStay& stay) const {
    if (options_.bytes_per_second <= 0) return 0;
    return BytesOf(stay) * options_.margin / options_.bytes_per_second;
  }

  void CountFree() {
    std::vector<int64_t> change(instructions() + 1, 0);
    for (const TierStay& stay : stays_) {
      change[stay.first] -= BytesOf(stay);
      change[stay.last + 1] += BytesOf(stay);
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    for (int64_t i = 0; i < instructions(); ++i) free_[i] += change[i];
  }

  // The first and last instruction that stay `s` may reach: its object's, and those between the
  // stays beside it.
  int64_t Earliest(size_t s) const {
    const TierStay& stay = stays_[s];
    int64_t from = objects_.from[stay.object];
    if (s == 0) return from;
    const TierStay& before = stays_[s - 1];
    if (objects_.buffer[before.object] != objects_.buffer[stay.object]) return from;
    return std::max(from, before.last + 1);
  }
  int64_t Latest(size_t s) const {
    const TierStay& stay = stays_[s];
    int64_t to = objects_.to[stay.object];
    if (s + 1 == stays_.size()) return to;
    const TierStay& after = stays_[s + 1];
    if (objects_.buffer[after.object] != objects_.buffer[stay.object]) return to;
    return std::min(to, after.first - 1);
  }

  template <typename Key>
  std::vector<size_t> Sorted(bool (*wanted)(const TierStay&), Key key) const {
    std::vector<size_t> order;
    for (size_t s = 0; s < stays_.size(); ++s) {
      if (wanted(stays_[s])) order.push_back(s);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(stays_[a]) < key(stays_[b]); });
    return order;
  }

  void KeepUntilStored() {
    double ready = 0;
    for (size_t s : Sorted([](const TierStay& stay) { return stay.store_after >= 0; },
                           [](const TierStay& stay) { return stay.store_after; })) {
      TierStay& stay = stays_[s];
      ready = std::max(ready, time_.end[stay.store_after]) + SecondsOf(stay);
      const int64_t latest = Latest(s);
      const int64_t bytes = BytesOf(stay);
      while (stay.last < latest && time_.start[stay.last + 1] < ready &&
             free_[stay.last + 1] >= bytes) {
        free_[++stay.last] -= bytes;
      }
    }
  }

  // The latest starts at which no load keeps compute waiting, were there memory enough.
  std::vector<double> LatestStarts(const std::vector<size_t>& order) const {
    std::vector<double> starts(order.size());
    double next = std::numeric_limits<double>::infinity();
    for (size_t k = order.size(); k-- > 0;) {
      const TierStay& stay = stays_[order[k]];
      next = std::min(next, time_.start[stay.first]) - SecondsOf(stay);
      starts[k] = next;
    }
    return starts;
  }

  // The last instruction that starts at `seconds` or before.
  int64_t InstructionAt(double seconds) const {
    auto after = std::upper_bound(begun_.begin(), begun_.end(), seconds);
    return std::max<int64_t>(0, after - begun_.begin() - 1);
  }

  void LoadEarly() {
    // Streams make starts not quite ascending; what counts is when all before have begun.
    begun_ = time_.start;
    for (size_t i = 1; i < begun_.size(); ++i) begun_[i] = std::max(begun_[i], begun_[i - 1]);
    const std::vector<size_t> order = Sorted([](const TierStay& stay) { return stay.load; },
                                             [](const TierStay& stay) { return stay.first; });
    const std::vector<double> starts = LatestStarts(order);
    double ready = 0;  // when the loads so far are done
    double late = 0;   // how much compute has waited for loads so far
    int64_t before = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      TierStay& stay = stays_[order[k]];
      const int64_t need = stay.first, bytes = BytesOf(stay);
      // Before its turn a load would only hold memory.
      const double start = std::max(starts[k], ready - late);
      const int64_t begin =
          std::min(need, std::max({Earliest(order[k]), before, InstructionAt(start)}));
      while (stay.first > begin && free_[stay.first - 1] >= bytes) free_[--stay.first] -= bytes;
      before = stay.first;
      ready = std::max(ready, begun_[stay.first] + late) + SecondsOf(stay);
      late = std::max(late, ready - begun_[need]);
    }
  }

  const TierObjects& objects_;
  const StepTime& time_;
  const LookAheadOptions& options_;
  std::vector<TierStay>& stays_;
  std::vector<int64_t> free_;  // per instruction: bytes
  std::vector<double> begun_;  // per instruction: when it and all before it have begun
};

}  // namespace

void LookAhead(const TierObjects& objects, const StepTime& time, const LookAheadOptions& options,
               std::vector<TierStay>& stays) {
  if (time.start.empty()) return;
  Lengthener(objects, time, options, stays).Run();
}

}  // namespace colossus
