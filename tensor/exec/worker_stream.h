// WorkerStream: a stream whose work runs on a thread of its own.
//
// Thread-safety: as base/stream.h. Ownership: the thread ends with the stream, after all work.
//
//   WorkerStream stream(/*threads=*/2);
//   stream.Launch([] { return absl::OkStatus(); });
#ifndef COLOSSUS_TENSOR_EXEC_WORKER_STREAM_H_
#define COLOSSUS_TENSOR_EXEC_WORKER_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "base/stream.h"

namespace colossus {

class WorkerStream final : public Stream {
 public:
  // `threads`: the team of the worker (SetThreads). REQUIRES: threads >= 1.
  explicit WorkerStream(int threads);
  ~WorkerStream() override;

  void Launch(std::function<absl::Status()> work) override;
  std::shared_ptr<Event> Record() override;
  void WaitFor(std::shared_ptr<Event> event) override;  // blocks the worker, not the caller
  absl::Status Synchronize() override;

 private:
  void Push(std::function<void()> item);
  void Work(int threads);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> items_;  // guarded by mutex_
  bool closing_ = false;                     // guarded by mutex_
  absl::Status status_;                      // the worker's alone
  std::jthread worker_;                      // last: starts when the rest is there
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_WORKER_STREAM_H_
