// Monitor: the thread of an MPI process that sees other processes die and tells of failures.
//
// Purpose: internal to the mpi backend. It waits until a process of the same machine ends, and
// notes it as lost in the table unless it left in good order; prints the first failure once a
// machine; and, in the first rank of each machine, sends the machine's rows to those of the others
// and takes in theirs. When the launcher ends this process by SIGTERM because another one has died,
// the thread first tells which; a handler of the program's own is left alone.
// Thread-safety: made and destroyed by one thread. Ownership: the table and the links outlive it.
#ifndef COLOSSUS_COLLECTIVES_MPI_MONITOR_H_
#define COLOSSUS_COLLECTIVES_MPI_MONITOR_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/watch/rank_table.h"

namespace colossus {

class Monitor {
 public:
  struct Peer {
    int rank = 0;
    pid_t pid = 0;
  };
  // `peers`: the other ranks of this machine. `relay`: called a few times a second, or empty.
  // `printed`: of the machine's shared memory; nonzero once the failure has been printed.
  Monitor(RankTable& table, int rank, std::vector<Peer> peers, std::atomic<uint32_t>& printed,
          std::function<void()> relay);
  ~Monitor();

  // Prints the failure if nobody on this machine has.
  void TellOfFailure();

 private:
  void Loop();
  void NoteEnded(int rank);
  void HandleTermination();

  RankTable& table_;
  const int rank_;
  const std::vector<Peer> peers_;
  std::vector<int> ends_;  // file descriptors that become readable when a peer ends; -1: unknown
  std::atomic<uint32_t>& printed_;
  const std::function<void()> relay_;
  int wake_ = -1;  // an eventfd: the thread shall look up
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MPI_MONITOR_H_
