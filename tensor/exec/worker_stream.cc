#include "tensor/exec/worker_stream.h"

#include <utility>

#include "base/check.h"
#include "base/parallel_for.h"

namespace colossus {
namespace {

class WorkerEvent final : public Event {
 public:
  bool Done() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }
  absl::Status Wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return status_;
  }
  void Finish(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;    // guarded by mutex_
  absl::Status status_;  // guarded by mutex_
};

}  // namespace

WorkerStream::WorkerStream(int threads) : worker_([this, threads] { Work(threads); }) {}

WorkerStream::~WorkerStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  worker_.join();
}

void WorkerStream::Push(std::function<void()> item) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_one();
}

void WorkerStream::Work(int threads) {
  SetThreads(threads);
  for (;;) {
    std::function<void()> item;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !items_.empty(); });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    item();
  }
}

void WorkerStream::Launch(std::function<absl::Status()> work) {
  Push([this, work = std::move(work)] {
    if (status_.ok()) status_ = work();
  });
}

std::shared_ptr<Event> WorkerStream::Record() {
  auto event = std::make_shared<WorkerEvent>();
  Push([this, event] { event->Finish(status_); });
  return event;
}

void WorkerStream::WaitFor(std::shared_ptr<Event> event) {
  CHECK(event != nullptr);
  Push([this, event = std::move(event)] {
    const absl::Status status = event->Wait();
    if (status_.ok()) status_ = status;
  });
}

absl::Status WorkerStream::Synchronize() { return Record()->Wait(); }

}  // namespace colossus
