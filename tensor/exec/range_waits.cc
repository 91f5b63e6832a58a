#include "tensor/exec/range_waits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace colossus {
namespace {

// Per stream the latest instruction; -1: none of this phase.
using Latest = std::array<int, kStepStreams>;

constexpr Latest kNone = [] {
  Latest none{};
  for (int& t : none) t = -1;
  return none;
}();

void Join(Latest& into, const Latest& from) {
  for (size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], from[s]);
}

struct Piece {
  int writer = -1;
  size_t writer_stream = 0;
  Latest readers = kNone;  // since it was written
};

// Who touched each byte of a tier's arena last.
class History {
 public:
  // What must have finished before instruction `t` of `stream` touches the range, beside the
  // stream's own; and notes that it does.
  void Touch(const BufferRange& range, bool writes, size_t stream, int t, Latest& needed) {
    if (range.bytes == 0) return;
    const int64_t end = range.offset + range.bytes;
    auto piece = Cut(range.offset);
    Cut(end);
    for (; piece->first < end; ++piece) {
      Piece& p = piece->second;
      if (p.writer >= 0) needed[p.writer_stream] = std::max(needed[p.writer_stream], p.writer);
      if (writes) {
        Join(needed, p.readers);
        p.readers = kNone;
        p.writer = t;
        p.writer_stream = stream;
      } else {
        p.readers[stream] = t;
      }
    }
  }

 private:
  // Makes a piece begin at `offset`.
  std::map<int64_t, Piece>::iterator Cut(int64_t offset) {
    auto next = pieces_.upper_bound(offset);
    auto piece = std::prev(next);
    if (piece->first == offset) return piece;
    return pieces_.emplace_hint(next, offset, piece->second);
  }

  // By first byte; a piece ends where the next begins.
  std::map<int64_t, Piece> pieces_ = {{INT64_MIN, Piece{}}};
};

class WaitFinder {
 public:
  explicit WaitFinder(MemoryPlan& plan) : plan_(plan), finished_(plan.instructions.size()) {}

  void Run() {
    size_t t = 0;
    for (size_t p = 0; p < plan_.phase_end.size(); ++p) {
      if (plan_.follows[p]) {
        GoOn();
      } else {
        history_ = std::vector<History>(3);
        known_.fill(kNone);
      }
      for (; t < plan_.phase_end[p]; ++t) Add(static_cast<int>(t));
    }
  }

 private:
  // Between phases that follow each other all have waited for all but some.
  void GoOn() {
    Latest idle = kNone;
    for (size_t s = 0; s < known_.size(); ++s) {
      if (!OutlastsPhase(static_cast<StepStream>(s))) Join(idle, known_[s]);
    }
    for (Latest& known : known_) Join(known, idle);
  }

  void Add(int t) {
    Instruction& instruction = plan_.instructions[static_cast<size_t>(t)];
    const size_t stream = static_cast<size_t>(StreamOf(instruction));
    Latest needed = kNone;
    auto touch = [&](const BufferRange& range, bool writes) {
      history_[static_cast<size_t>(range.tier)].Touch(range, writes, stream, t, needed);
    };
    for (const BufferRange& range : instruction.operands) touch(range, false);
    for (const BufferRange& range : instruction.results) touch(range, true);
    touch(instruction.workspace, true);
    // The latest first: what it waited for may cover the others.
    Latest& known = known_[stream];
    std::vector<int> waits;
    for (size_t s = 0; s < needed.size(); ++s) {
      if (s != stream && needed[s] > known[s]) waits.push_back(needed[s]);
    }
    std::sort(waits.rbegin(), waits.rend());
    for (int wait : waits) {
      const Instruction& awaited = plan_.instructions[static_cast<size_t>(wait)];
      if (known[static_cast<size_t>(StreamOf(awaited))] >= wait) continue;
      instruction.waits.push_back(wait);
      Join(known, finished_[static_cast<size_t>(wait)]);
    }
    known[stream] = t;
    finished_[static_cast<size_t>(t)] = known;
  }

  MemoryPlan& plan_;
  std::vector<Latest> finished_;            // by instruction: what has finished when it has
  std::array<Latest, kStepStreams> known_;  // by stream: the same, of its latest instruction
  std::vector<History> history_;            // by tier
};

}  // namespace

void AddRangeWaits(MemoryPlan& plan) { WaitFinder(plan).Run(); }

}  // namespace colossus
