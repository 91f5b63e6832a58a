// MpiLink: messages among the ranks of one group, by MPI.
//
// Purpose: internal to the mpi backend: the ground of the algorithms (point_to_point.h), with
// checking and an end to waiting. Of each message a head goes first that tells what operation its
// sender does; short messages follow it in one piece. The receiver compares, and takes the message
// only if it does the same. Heads do not count as messages. Long messages go in pieces, so that
// their progress can be seen; each is a sign of life.
// Thread-safety: one thread. Ownership: the process outlives it.
#ifndef COLOSSUS_COLLECTIVES_MPI_MPI_LINK_H_
#define COLOSSUS_COLLECTIVES_MPI_MPI_LINK_H_

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"
#include "collectives/mpi/mpi_process.h"
#include "collectives/watch/operation_record.h"

namespace colossus {

class MpiLink final : public PointToPoint {
 public:
  // `members`: the group's ranks in the world; `tag` and the next one are the group's.
  MpiLink(MpiProcess& process, std::vector<int> members, int rank, int tag)
      : process_(process), members_(std::move(members)), rank_(rank), tag_(tag) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }

  // All messages from here on are of this operation.
  void Begin(const OperationRecord& record) {
    record_ = record;
    sent_ = {};
  }
  // Since Begin.
  const CollectiveCounts& sent() const { return sent_; }

  void Send(int to, const ConstBlock& block, DType dtype) override;
  void Receive(int from, const Block& block) override;
  absl::Status Wait() override;
  char* Scratch(int64_t bytes) override;

 private:
  struct Head {
    OperationRecord record;
    int64_t bytes = 0;
  };
  static constexpr int64_t kShort = 8192;  // bytes that go with their head

  struct Incoming {
    int from = 0;
    Block block;
    bool has_head = false;
    std::vector<char> head;             // and a short message
    std::vector<MPI_Request> requests;  // of the stage: head, then data
  };

  absl::Status StartData(int to, const ConstBlock& block);
  absl::Status StartReceivingData(Incoming& incoming);
  absl::Status TakeHead(Incoming& incoming);
  absl::Status Progress(bool& moved);
  absl::Status Fail(const absl::Status& status);
  void GiveUp();
  void Note(const absl::Status& status);
  bool Done(std::vector<MPI_Request>& requests, bool& moved);

  MpiProcess& process_;
  const std::vector<int> members_;
  const int rank_;
  const int tag_;
  OperationRecord record_;
  CollectiveCounts sent_;
  absl::Status status_;  // the first error since the last Wait
  std::vector<MPI_Request> sends_;
  std::deque<std::vector<char>> heads_;  // being sent
  std::deque<Incoming> incoming_;
  std::vector<char> scratch_;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MPI_MPI_LINK_H_
