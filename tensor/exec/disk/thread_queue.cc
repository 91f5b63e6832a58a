#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/exec/disk/disk_queue.h"

namespace colossus {
namespace {

int64_t Move(int file, const DiskOperation& operation) {
  const size_t bytes = static_cast<size_t>(operation.bytes);
  const off_t offset = static_cast<off_t>(operation.offset);
  const ssize_t moved = operation.write ? pwrite(file, operation.memory, bytes, offset)
                                        : pread(file, operation.memory, bytes, offset);
  return moved < 0 ? -errno : moved;
}

class ThreadQueue final : public DiskQueue {
 public:
  ThreadQueue(int file, int depth) : file_(file) {
    for (int t = 0; t < depth; ++t) threads_.emplace_back([this] { Work(); });
  }
  ~ThreadQueue() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    submitted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::string_view name() const override { return "threads"; }

  void Submit(size_t tag, const DiskOperation& operation) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.emplace_back(tag, operation);
    }
    submitted_.notify_one();
  }

  DiskDone Wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return !done_.empty(); });
    const DiskDone done = done_.front();
    done_.pop_front();
    return done;
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      submitted_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto [tag, operation] = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int64_t result = Move(file_, operation);
      lock.lock();
      done_.push_back({tag, result});
      ended_.notify_one();
    }
  }

  const int file_;
  std::mutex mutex_;  // guards all below but the threads
  std::condition_variable submitted_, ended_;
  std::deque<std::pair<size_t, DiskOperation>> waiting_;
  std::deque<DiskDone> done_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskQueue> NewThreadQueue(int file, int depth) {
  return std::make_unique<ThreadQueue>(file, depth);
}

}  // namespace colossus
