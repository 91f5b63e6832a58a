#include "tensor/exec/lazy_stream.h"

#include <utility>

#include "base/check.h"
#include "base/parallel_for.h"

namespace colossus {
namespace {

// About what it takes until another thread runs, seconds.
constexpr double kSwitch = 20e-6;

}  // namespace

class LazyEvent final : public Event {
 public:
  explicit LazyEvent(std::shared_ptr<LazyQueue> queue) : queue_(std::move(queue)) {}
  bool Done() const override {
    {
      std::lock_guard<std::mutex> lock(queue_->mutex_);
      if (done_) return true;
    }
    queue_->Leave(1);  // who asks does not wait
    return false;
  }
  absl::Status Wait() override {
    queue_->RunUntil(*this);
    std::lock_guard<std::mutex> lock(queue_->mutex_);
    return status_;
  }

 private:
  friend class LazyQueue;
  const std::shared_ptr<LazyQueue> queue_;
  bool done_ = false;
  absl::Status status_;
};

void LazyQueue::Leave(double seconds) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (items_.empty() || left_) return;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
    if (seconds < kSwitch && waited.count() < kSwitch) return;
    left_ = true;
    if (running_) return;  // who runs items tells the thread
  }
  left_to_thread_.notify_one();
}

void LazyQueue::Push(Item item) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (items_.empty()) since_ = std::chrono::steady_clock::now();
  items_.push_back(std::move(item));
}

void LazyQueue::RunUntil(const LazyEvent& event) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!event.done_) {
    if (running_) {
      ++sleeping_;
      changed_.wait(lock);
      --sleeping_;
    } else {
      Run(lock, &event);
    }
  }
}

// Who sleeps is woken without the lock, which he would only wait for.
void LazyQueue::Run(std::unique_lock<std::mutex>& lock, const LazyEvent* event) {
  running_ = true;
  bool news = false;
  while (event != nullptr ? !event->done_ : !items_.empty()) {
    CHECK(!items_.empty()) << "an event is awaited that the stream does not reach";
    Item item = std::move(items_.front());
    items_.pop_front();
    if (item.recorded != nullptr) {
      item.recorded->done_ = true;
      item.recorded->status_ = status_;
      news = true;
      continue;
    }
    const bool skipped = item.work != nullptr && !status_.ok();
    const bool wake = news && sleeping_ > 0;
    news = false;
    lock.unlock();
    if (wake) changed_.notify_all();
    absl::Status status;
    if (!skipped) status = item.work != nullptr ? item.work() : item.awaited->Wait();
    item = {};  // what the work captured goes without the lock
    lock.lock();
    if (status_.ok()) status_ = std::move(status);
  }
  running_ = false;
  if (items_.empty()) left_ = false;
  const bool wake = sleeping_ > 0, leave = left_ || closing_;
  if (!wake && !leave) return;
  lock.unlock();
  if (wake) changed_.notify_all();
  if (leave) left_to_thread_.notify_one();
  lock.lock();
}

void LazyQueue::Work(int threads) {
  SetThreads(threads);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    left_to_thread_.wait(lock, [this] { return (left_ || closing_) && !running_; });
    Run(lock, nullptr);
    if (closing_ && items_.empty() && !running_) return;
  }
}

LazyStream::LazyStream(int threads)
    : queue_(std::make_shared<LazyQueue>()),
      thread_([queue = queue_, threads] { queue->Work(threads); }) {}

LazyStream::~LazyStream() {
  {
    std::lock_guard<std::mutex> lock(queue_->mutex_);
    queue_->closing_ = true;
  }
  queue_->left_to_thread_.notify_one();
  thread_.join();
}

void LazyStream::Launch(std::function<absl::Status()> work) {
  CHECK(work != nullptr);
  queue_->Push({std::move(work), nullptr, nullptr});
}

std::shared_ptr<Event> LazyStream::Record() {
  auto event = std::make_shared<LazyEvent>(queue_);
  queue_->Push({nullptr, nullptr, event});
  return event;
}

void LazyStream::WaitFor(std::shared_ptr<Event> event) {
  CHECK(event != nullptr);
  queue_->Push({nullptr, std::move(event), nullptr});
}

absl::Status LazyStream::Synchronize() { return Record()->Wait(); }

}  // namespace colossus
