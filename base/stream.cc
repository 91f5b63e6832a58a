#include "base/stream.h"

#include <utility>

#include "base/check.h"

namespace colossus {
namespace {

class FinishedEvent : public Event {
 public:
  explicit FinishedEvent(absl::Status status) : status_(std::move(status)) {}
  bool Done() const override { return true; }
  absl::Status Wait() override { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace

void InlineStream::Launch(std::function<absl::Status()> work) {
  if (status_.ok()) status_ = work();
}

std::shared_ptr<Event> InlineStream::Record() { return std::make_shared<FinishedEvent>(status_); }

void InlineStream::WaitFor(std::shared_ptr<Event> event) {
  CHECK(event != nullptr);
  const absl::Status status = event->Wait();
  if (status_.ok()) status_ = status;
}

absl::Status InlineStream::Synchronize() { return status_; }

}  // namespace colossus
