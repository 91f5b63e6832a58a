#include "collectives/self.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "collectives/operation.h"

namespace colossus {
namespace {

struct Shared {
  std::mutex mutex;
  absl::Status aborted;  // guarded by mutex
};

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }

  absl::Status Run(const Collective& operation) override {
    RETURN_IF_ERROR(Validate(operation, 0, 1));
    {
      std::lock_guard<std::mutex> lock(shared_->mutex);
      RETURN_IF_ERROR(shared_->aborted);
    }
    ++operations_;
    const int64_t bytes = DestinationElements(operation, 0, 1) * SizeOf(operation.dtype);
    if (bytes > 0 && operation.src != operation.dst) {
      std::memcpy(operation.dst, operation.src, static_cast<size_t>(bytes));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view) override {
    RETURN_IF_ERROR(ValidateMembers(members, 0, 1));
    return std::make_unique<SelfCommunicator>(shared_);
  }

  void Abort(const absl::Status& why) override {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    if (shared_->aborted.ok()) shared_->aborted = absl::AbortedError(why.message());
  }
  absl::Status WorldStatus() const override {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    return shared_->aborted;
  }

  CollectiveCounts counts() const override { return {.operations = operations_}; }

 private:
  std::shared_ptr<Shared> shared_;
  std::atomic<int64_t> operations_{0};
};

}  // namespace

std::unique_ptr<Communicator> NewSelfCommunicator() {
  return std::make_unique<SelfCommunicator>(std::make_shared<Shared>());
}

}  // namespace colossus
