#include "tensor/exec/disk/disk_lane.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

int64_t BlockOf(int64_t offset) { return offset / kDiskBlock * kDiskBlock; }

bool IsAligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(kDiskBlock) == 0;
}

char* NewMemory(int64_t bytes) {
  void* memory = std::aligned_alloc(kDiskBlock, static_cast<size_t>(bytes));
  CHECK(memory != nullptr) << "no memory for a staging buffer of " << bytes << " bytes";
  return static_cast<char*>(memory);
}

}  // namespace

int64_t FileBytes(int64_t bytes, int64_t piece_bytes) {
  return bytes / piece_bytes * WholeBlocks(piece_bytes) + WholeBlocks(bytes % piece_bytes);
}

DiskLane::DiskLane(const DiskFile& file, std::unique_ptr<DiskQueue> queue, int64_t piece_bytes,
                   int in_flight)
    : file_(file),
      queue_(std::move(queue)),
      piece_bytes_(piece_bytes),
      stride_(WholeBlocks(piece_bytes)),
      slots_(static_cast<size_t>(in_flight)),
      staging_(slots_.size()) {}

absl::Status DiskLane::Read(int64_t offset, void* dst, int64_t bytes) {
  return Move(/*write=*/false, offset, static_cast<char*>(dst), bytes);
}

absl::Status DiskLane::Write(int64_t offset, const void* src, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  // A write beyond the end would make a file that was cut look whole again.
  RETURN_IF_ERROR(file_.CheckWhole());
  char* memory = const_cast<char*>(static_cast<const char*>(src));  // only read from
  const int64_t last_bytes = std::min(bytes, (offset + bytes - 1) % piece_bytes_ + 1);
  const int64_t last = offset + bytes - last_bytes;
  RETURN_IF_ERROR(ReadEdges(PieceAt(offset, memory, bytes), PieceAt(last, memory, last_bytes)));
  return Move(/*write=*/true, offset, memory, bytes);
}

DiskLane::Piece DiskLane::PieceAt(int64_t offset, char* memory, int64_t bytes) const {
  const int64_t within = offset % piece_bytes_;
  Piece piece;
  piece.bytes = std::min(bytes, piece_bytes_ - within);
  piece.head = within - BlockOf(within);
  piece.at = offset / piece_bytes_ * stride_ + BlockOf(within);
  piece.span = WholeBlocks(piece.head + piece.bytes);
  piece.memory = memory;
  piece.staged = piece.head > 0 || piece.bytes < piece.span || !IsAligned(memory);
  return piece;
}

// Whether more of the tier's bytes follow in the last block of a piece.
bool DiskLane::EndsInsideBlock(const Piece& piece) const {
  const bool fills = (piece.head + piece.bytes) % kDiskBlock == 0;
  const bool ends = piece.at % stride_ + piece.head + piece.bytes == piece_bytes_;
  return !fills && !ends;
}

absl::Status DiskLane::ReadEdges(const Piece& first, const Piece& last) {
  if (first.head > 0) RETURN_IF_ERROR(ReadBlock(first.at, first_block_));
  if (!EndsInsideBlock(last)) return absl::OkStatus();
  return ReadBlock(last.at + last.span - kDiskBlock, last_block_);
}

absl::Status DiskLane::ReadBlock(int64_t at, Memory& block) {
  if (block == nullptr) block.reset(NewMemory(kDiskBlock));
  slots_[0] = {.at = at, .span = kDiskBlock, .bytes = kDiskBlock, .memory = block.get()};
  for (;;) {
    Submit(/*write=*/false, 0);
    ASSIGN_OR_RETURN(const bool through, Take(/*write=*/false, 0, queue_->Wait().result));
    if (through) return absl::OkStatus();
  }
}

absl::Status DiskLane::Move(bool write, int64_t offset, char* memory, int64_t bytes) {
  std::vector<size_t> free;
  for (size_t s = slots_.size(); s-- > 0;) free.push_back(s);
  absl::Status status;
  int64_t moved = 0;
  while (true) {
    while (status.ok() && moved < bytes && !free.empty()) {
      const size_t slot = free.back();
      free.pop_back();
      slots_[slot] = PieceAt(offset + moved, memory + moved, bytes - moved);
      moved += slots_[slot].bytes;
      Start(write, slot);
    }
    // After an error, too, the queue must give the memory back.
    if (free.size() == slots_.size()) return status;
    const DiskDone done = queue_->Wait();
    absl::StatusOr<bool> through = Take(write, done.tag, done.result);
    if (!through.ok() && status.ok()) status = through.status();
    if (through.ok() && !*through && status.ok()) {
      Submit(write, done.tag);
    } else {
      free.push_back(done.tag);
    }
  }
}

char* DiskLane::Staging(size_t slot) {
  if (staging_[slot] == nullptr) staging_[slot].reset(NewMemory(stride_));
  return staging_[slot].get();
}

char* DiskLane::Source(size_t slot) {
  return slots_[slot].staged ? Staging(slot) : slots_[slot].memory;
}

void DiskLane::Start(bool write, size_t slot) {
  const Piece& piece = slots_[slot];
  if (write && piece.staged) {
    char* staging = Staging(slot);
    const size_t block = static_cast<size_t>(kDiskBlock);
    char* last = staging + piece.span - kDiskBlock;
    if (EndsInsideBlock(piece)) {
      std::memcpy(last, last_block_.get(), block);
    } else {
      std::memset(last, 0, block);
    }
    if (piece.head > 0) std::memcpy(staging, first_block_.get(), block);
    std::memcpy(staging + piece.head, piece.memory, static_cast<size_t>(piece.bytes));
  }
  Submit(write, slot);
}

void DiskLane::Submit(bool write, size_t slot) {
  const Piece& piece = slots_[slot];
  queue_->Submit(slot, {.write = write,
                        .offset = piece.at + piece.done,
                        .memory = Source(slot) + piece.done,
                        .bytes = piece.span - piece.done});
}

absl::StatusOr<bool> DiskLane::Take(bool write, size_t slot, int64_t result) {
  Piece& piece = slots_[slot];
  const char* operation = write ? "write" : "read";
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result < 0) return DiskError(operation, file_.folder(), static_cast<int>(-result));
  // Direct I/O goes on at a block.
  const int64_t blocks = BlockOf(std::min(result, piece.span - piece.done));
  if (blocks == 0) {
    RETURN_IF_ERROR(file_.CheckWhole());
    return absl::DataLossError(absl::StrCat(operation, " of the offload file in ", file_.folder(),
                                            ": ", result, " of ", piece.span - piece.done,
                                            " bytes at ", piece.at + piece.done, " moved"));
  }
  (write ? traffic_.written_bytes : traffic_.read_bytes) += blocks;
  piece.done += blocks;
  if (piece.done < piece.span) return false;
  if (!write && piece.staged) {
    std::memcpy(piece.memory, Staging(slot) + piece.head, static_cast<size_t>(piece.bytes));
  }
  return true;
}

}  // namespace colossus
