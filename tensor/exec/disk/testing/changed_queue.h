// ChangedQueue: a disk queue whose operations a test changes, or answers itself.
//
// Thread-safety: none; a tier has one queue each way, and calls them one at a time. Ownership: owns
// the queue below.
//
//   FileDiskTierOptions options;
//   options.wrap_queue = ChangeOperations([](DiskOperation& operation) -> std::optional<int64_t> {
//     if (operation.write) return -ENOSPC;   // the result, without doing anything
//     return std::nullopt;                   // done as it is now
//   });
#ifndef COLOSSUS_TENSOR_EXEC_DISK_TESTING_CHANGED_QUEUE_H_
#define COLOSSUS_TENSOR_EXEC_DISK_TESTING_CHANGED_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "tensor/exec/disk/disk_queue.h"

namespace colossus {

class ChangedQueue : public DiskQueue {
 public:
  using Change = std::function<std::optional<int64_t>(DiskOperation&)>;
  ChangedQueue(std::unique_ptr<DiskQueue> below, Change change)
      : below_(std::move(below)), change_(std::move(change)) {}

  absl::string_view name() const override { return below_->name(); }
  void Submit(size_t tag, const DiskOperation& operation) override {
    DiskOperation changed = operation;
    if (const std::optional<int64_t> result = change_(changed)) {
      made_up_.push_back({tag, *result});
    } else {
      below_->Submit(tag, changed);
    }
  }
  DiskDone Wait() override {
    if (made_up_.empty()) return below_->Wait();
    const DiskDone done = made_up_.front();
    made_up_.pop_front();
    return done;
  }

 private:
  const std::unique_ptr<DiskQueue> below_;
  const Change change_;
  std::deque<DiskDone> made_up_;
};

// For FileDiskTierOptions::wrap_queue.
inline std::function<std::unique_ptr<DiskQueue>(std::unique_ptr<DiskQueue>)> ChangeOperations(
    ChangedQueue::Change change) {
  return [change = std::move(change)](std::unique_ptr<DiskQueue> below) {
    return std::make_unique<ChangedQueue>(std::move(below), change);
  };
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_TESTING_CHANGED_QUEUE_H_
