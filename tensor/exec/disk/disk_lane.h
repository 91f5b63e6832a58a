// DiskLane: moves ranges between memory and a DiskFile in pieces, several at once, one way.
//
// Purpose: where pieces, whole blocks, staging buffers and results of the system meet. The range's
// bytes are cut at multiples of the piece size; a piece takes whole blocks in the file. Pieces of
// whole blocks in aligned memory move directly, others through a staging buffer; blocks that are
// written in part are read first.
// Thread-safety: none; one range at a time. Ownership: owns queue and staging, the file must
// outlive it.
//
//   DiskLane lane(*file, std::move(queue), /*piece_bytes=*/4 << 20, /*in_flight=*/4);
//   RETURN_IF_ERROR(lane.Write(0, values, bytes));
#ifndef COLOSSUS_TENSOR_EXEC_DISK_DISK_LANE_H_
#define COLOSSUS_TENSOR_EXEC_DISK_DISK_LANE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/exec/disk/disk_file.h"
#include "tensor/exec/disk/disk_queue.h"
#include "tensor/exec/disk_tier.h"

namespace colossus {

// Bytes that a range from 0 takes in the file.
int64_t FileBytes(int64_t bytes, int64_t piece_bytes);

class DiskLane {
 public:
  DiskLane(const DiskFile& file, std::unique_ptr<DiskQueue> queue, int64_t piece_bytes,
           int in_flight);

  absl::Status Read(int64_t offset, void* dst, int64_t bytes);
  absl::Status Write(int64_t offset, const void* src, int64_t bytes);

  DiskTraffic traffic() const { return traffic_; }

 private:
  // A piece on its way. In the file it takes [at, at + span); the range's bytes begin `head` after.
  struct Piece {
    int64_t at = 0, span = 0, head = 0, bytes = 0;
    char* memory = nullptr;  // the caller's
    bool staged = false;
    int64_t done = 0;  // of span
  };
  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<char, FreeMemory>;

  absl::Status Move(bool write, int64_t offset, char* memory, int64_t bytes);
  Piece PieceAt(int64_t offset, char* memory, int64_t bytes) const;
  bool EndsInsideBlock(const Piece& piece) const;
  absl::Status ReadEdges(const Piece& first, const Piece& last);
  absl::Status ReadBlock(int64_t at, Memory& block);
  void Start(bool write, size_t slot);
  void Submit(bool write, size_t slot);
  // Takes the result of a slot's operation. True: the piece is through; false: it goes on.
  absl::StatusOr<bool> Take(bool write, size_t slot, int64_t result);
  char* Source(size_t slot);
  char* Staging(size_t slot);

  const DiskFile& file_;
  const std::unique_ptr<DiskQueue> queue_;
  const int64_t piece_bytes_, stride_;  // stride_: whole blocks of a piece
  std::vector<Piece> slots_;
  std::vector<Memory> staging_;  // by slot; null until it is needed
  // What stands around the range in the blocks of its ends, while it is written.
  Memory first_block_, last_block_;
  DiskTraffic traffic_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_DISK_LANE_H_
