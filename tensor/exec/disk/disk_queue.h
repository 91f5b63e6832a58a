// DiskQueue: reads and writes of an open file, several under way at once.
//
// Purpose: the two ways a file disk tier has to move blocks, behind one face, so that what is done
// with their results (disk_lane.h) stands once; and the place where tests make a disk fail.
// Thread-safety: one thread. Ownership: the file stays the caller's and must outlive the queue, as
// must the memory of an operation until Wait has returned it. Destroy it with nothing under way.
//
//   std::unique_ptr<DiskQueue> queue = NewRingQueue(fd, 4);
//   if (queue == nullptr) queue = NewThreadQueue(fd, 4);
//   queue->Submit(0, {.write = true, .offset = 0, .memory = block, .bytes = 4096});
//   const DiskDone done = queue->Wait();   // tag 0, 4096 bytes
#ifndef COLOSSUS_TENSOR_EXEC_DISK_DISK_QUEUE_H_
#define COLOSSUS_TENSOR_EXEC_DISK_DISK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace colossus {

struct DiskOperation {
  bool write = false;
  int64_t offset = 0;  // in the file
  void* memory = nullptr;
  int64_t bytes = 0;
};

struct DiskDone {
  size_t tag = 0;      // of the operation
  int64_t result = 0;  // bytes moved, which may be fewer than asked; below 0: -errno
};

class DiskQueue {
 public:
  virtual ~DiskQueue() = default;
  // "io_uring" or "threads".
  virtual absl::string_view name() const = 0;
  // Starts an operation. REQUIRES: fewer than the queue's depth are under way.
  virtual void Submit(size_t tag, const DiskOperation& operation) = 0;
  // The next one that ended, in any order. REQUIRES: one is under way.
  virtual DiskDone Wait() = 0;
};

// Null where the kernel offers no io_uring or does not allow it.
std::unique_ptr<DiskQueue> NewRingQueue(int file, int depth);
// `depth` threads that call pread and pwrite.
std::unique_ptr<DiskQueue> NewThreadQueue(int file, int depth);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_DISK_QUEUE_H_
