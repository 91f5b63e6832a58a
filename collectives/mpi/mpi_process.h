// MpiProcess: what the communicators of one MPI process share: MPI's lock, the table of ranks, and
// the thread that watches over both.
//
// Purpose: internal to the mpi backend (mpi_world.h).
// Thread-safety: all public methods, after Start. Ownership: one in a process.
#ifndef COLOSSUS_COLLECTIVES_MPI_MPI_PROCESS_H_
#define COLOSSUS_COLLECTIVES_MPI_MPI_PROCESS_H_

#include <mpi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "collectives/mpi/monitor.h"
#include "collectives/mpi/mpi_world.h"
#include "collectives/watch/rank_table.h"

namespace colossus {

// Ok, or Unavailable with MPI's text.
absl::Status MpiStatus(int code, absl::string_view call);

class MpiProcess {
 public:
  static absl::StatusOr<std::unique_ptr<MpiProcess>> Start(const MpiOptions& options);
  ~MpiProcess();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const MpiOptions& options() const { return options_; }
  // Held around every call of MPI.
  std::mutex& lock() { return lock_; }
  MPI_Comm data() const { return data_; }
  RankTable& table() { return *table_; }
  RankRow& row() { return table_->row(rank_); }
  Clock& clock() { return clock_; }
  bool spins() const { return spins_; }

  // The tags of a group's messages are TagOf and TagOf + 1; the world's are 0 and 1. AlreadyExists
  // if another group of this rank has the same tag.
  absl::StatusOr<int> TagOf(const std::string& group);

  // Ends MPI after all ranks have left, or, after a failure, the process.
  void EndInOrder();
  [[noreturn]] void EndFailed();

 private:
  explicit MpiProcess(const MpiOptions& options) : options_(options) {}
  absl::Status Connect();
  absl::Status ShareTable();

  const MpiOptions options_;
  RealClock clock_;
  std::mutex lock_;
  int rank_ = 0, size_ = 1;
  MPI_Comm data_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL, machine_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<int> machine_ranks_;  // of the world, on this machine
  bool spins_ = false;
  int most_tag_ = 32767;
  std::unique_ptr<RankTable> table_;
  std::unique_ptr<Monitor> monitor_;
  std::mutex tags_mutex_;
  std::map<int, std::string> tags_;  // guarded by tags_mutex_
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MPI_MPI_PROCESS_H_
