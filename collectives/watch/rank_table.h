// RankTable: what every rank of a world last told about itself, and the first failure.
//
// Purpose: the memory of the watchdog. Each rank writes where it is (step, phase), signs of life,
// and the collectives it has finished and waits for; whoever sees that something is wrong reads it
// all and tells. The table is plain memory of rows, so ranks may be threads or, in shared memory,
// processes; nothing in it blocks.
// Thread-safe. Ownership: the rows are the creator's and outlive the table.
//
//   RankTable table(&head, rows, 4);
//   table.row(2).SetWhere(3, "load");
//   table.Fail(table.FailureOf(2, absl::DataLossError("a broken shard")));
//   table.failure().message;
//   // "rank 2 failed at step 3 in phase load: DATA_LOSS: a broken shard"
#ifndef COLOSSUS_COLLECTIVES_WATCH_RANK_TABLE_H_
#define COLOSSUS_COLLECTIVES_WATCH_RANK_TABLE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/watch/operation_record.h"
#include "collectives/watch/shared_value.h"

namespace colossus {

enum class RankLife : uint32_t {
  kAbsent,  // has not come
  kRunning,
  kLeft,    // has ended in good order
  kFailed,  // has ended with an error, or knows of the failure of another
  kLost,    // its process is gone
};

// One rank's row. Written by that rank (its life also by whoever sees it die), read by all.
class RankRow {
 public:
  void SetWhere(int64_t step, absl::string_view phase);
  // A sign of life.
  void Beat() { beats_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  // While it waits: it has looked whether waiting still makes sense.
  void Look() { looks_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  void SetLife(RankLife life) { life_.store(static_cast<uint32_t>(life)); }
  RankLife life() const { return static_cast<RankLife>(life_.load()); }

  // A collective begins; several may, on several threads. Returns its place for EndWait, which may
  // be -1.
  int BeginWait(const OperationRecord& record);
  // `finished`: the operation, if it has succeeded.
  void EndWait(int place, const OperationRecord* finished);
  bool waits() const { return waiting_count_.load() > 0; }

  // The whole row by value, to send to another machine, where Restore makes it appear.
  struct Snapshot;
  Snapshot Take() const;
  void Restore(const Snapshot& snapshot);

  // " at step 3 in phase load", or empty before the first SetWhere.
  std::string WhereText() const;
  // "step 3 in phase load; last finished operation 16 ...; waits in operation 17 ..."
  std::string Report() const;

 private:
  struct Where {
    int64_t step = 0;
    bool known = false;
    char phase[47] = {};
  };
  static constexpr int kWaits = 4;

  SharedValue<Where> where_;
  std::atomic<uint64_t> beats_{0}, looks_{0};
  std::atomic<uint32_t> life_{0};
  std::atomic<int32_t> waiting_count_{0};
  std::atomic<uint32_t> taken_[kWaits] = {};
  SharedValue<OperationRecord> waiting_[kWaits];
  std::atomic<uint32_t> finishing_{0};  // somebody stores `finished_`
  SharedValue<OperationRecord> finished_;
};

struct RankRow::Snapshot {
  Where where;
  uint64_t beats = 0, looks = 0;
  uint32_t life = 0;
  int32_t waiting_count = 0;
  uint32_t taken[kWaits] = {};
  OperationRecord waiting[kWaits];
  OperationRecord finished;
};

// The first failure of a world.
struct Failure {
  int32_t rank = -1;  // the first culprit
  int32_t code = 0;   // absl::StatusCode of its own error
  int32_t code_for_all = 0;
  char message[8000] = {};  // for everybody: rank, step, phase, error
};

// The head of the memory, before the rows.
struct RankTableHead {
  std::atomic<uint32_t> claimed{0};  // by the first who failed
  std::atomic<uint32_t> failed{0};   // `failure` is complete
  SharedValue<Failure> failure;
};

class RankTable {
 public:
  // `head` and `rows` are fresh, or those of other ranks of the same world.
  RankTable(RankTableHead* head, RankRow* rows, int ranks)
      : head_(head), rows_(rows), ranks_(ranks) {}

  int ranks() const { return ranks_; }
  RankRow& row(int rank) const { return rows_[rank]; }

  // Only the first failure counts; true if this is it.
  bool Fail(const Failure& failure);
  bool failed() const { return head_->failed.load(std::memory_order_seq_cst) != 0; }
  // REQUIRES: failed.
  Failure failure() const { return head_->failure.Load(); }
  // ok, or the failure as other ranks' operations report it.
  absl::Status StatusForAll() const;
  // The same with the code of the culprit's own error.
  absl::Status StatusOfCulprit() const;

  // An error of a rank, with its place.
  Failure FailureOf(int rank, const absl::Status& why) const;
  // One line for each rank, those in `first` first; at most 32 lines.
  std::string Report(absl::Span<const int> first) const;

 private:
  RankTableHead* const head_;
  RankRow* const rows_;
  const int ranks_;
};

Failure MakeFailure(int rank, absl::StatusCode code, absl::StatusCode code_for_all,
                    absl::string_view message);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_WATCH_RANK_TABLE_H_
