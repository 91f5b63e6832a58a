#include <liburing.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/check.h"
#include "tensor/exec/disk/disk_queue.h"

namespace colossus {
namespace {

class RingQueue final : public DiskQueue {
 public:
  explicit RingQueue(int file) : file_(file) {}
  ~RingQueue() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  // Kernels before 5.6 have rings without plain reads and writes.
  bool Open(int depth) {
    open_ = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0) == 0;
    if (!open_) return false;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return false;
    const bool supported = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                           io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
    io_uring_free_probe(probe);
    return supported;
  }

  absl::string_view name() const override { return "io_uring"; }

  void Submit(size_t tag, const DiskOperation& operation) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    CHECK(entry != nullptr) << "more operations than the queue is deep";
    const unsigned bytes = static_cast<unsigned>(operation.bytes);
    const uint64_t offset = static_cast<uint64_t>(operation.offset);
    if (operation.write) {
      io_uring_prep_write(entry, file_, operation.memory, bytes, offset);
    } else {
      io_uring_prep_read(entry, file_, operation.memory, bytes, offset);
    }
    entry->user_data = tag;
    const int submitted = SubmitEntry();
    if (submitted < 0) refused_.push_back({tag, submitted});
  }

  DiskDone Wait() override {
    if (!refused_.empty()) {
      const DiskDone done = refused_.front();
      refused_.pop_front();
      return done;
    }
    io_uring_cqe* entry = nullptr;
    int error;
    do {
      error = io_uring_wait_cqe(&ring_, &entry);
    } while (error == -EINTR || error == -EAGAIN);
    // Operations are under way in memory that others own: no error may leave them there.
    CHECK_EQ(error, 0) << "io_uring_wait_cqe";
    const DiskDone done = {static_cast<size_t>(entry->user_data), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

 private:
  int SubmitEntry() {
    int submitted;
    do {
      submitted = io_uring_submit(&ring_);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    return submitted;
  }

  const int file_;
  io_uring ring_;
  bool open_ = false;
  std::deque<DiskDone> refused_;  // never started
};

}  // namespace

std::unique_ptr<DiskQueue> NewRingQueue(int file, int depth) {
  auto queue = std::make_unique<RingQueue>(file);
  if (!queue->Open(depth)) return nullptr;
  return queue;
}

}  // namespace colossus
