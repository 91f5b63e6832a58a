#include "collectives/mpi/mpi_world.h"

#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/algorithms/run_algorithm.h"
#include "collectives/launcher.h"
#include "collectives/mpi/mpi_link.h"
#include "collectives/mpi/mpi_process.h"
#include "collectives/operation.h"

namespace colossus {
namespace {

constexpr absl::string_view kEnd = "the end of the program";

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MpiProcess& process, std::vector<int> members, int rank, int tag,
                  std::string name, std::string path)
      : process_(process),
        link_(process, std::move(members), rank, tag),
        name_(std::move(name)),
        path_(std::move(path)),
        id_(std::hash<std::string>()(path_)) {}

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }

  absl::Status Run(const Collective& operation) override {
    RankTable& table = process_.table();
    if (table.failed()) return table.StatusForAll();
    if (absl::Status valid = Validate(operation, rank(), size()); !valid.ok()) {
      Abort(valid);
      return valid;
    }
    const OperationRecord record = RecordOf(operation, name_, id_, rank(), size(), ++turn_);
    const int place = process_.row().BeginWait(record);
    link_.Begin(record);
    const absl::Status status = RunAlgorithm(
        ChooseAlgorithm(operation, size(), process_.options().rates), link_, operation);
    process_.row().EndWait(place, status.ok() ? &record : nullptr);
    if (status.ok()) Count(link_.sent());
    return status;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view name) override {
    RETURN_IF_ERROR(ValidateMembers(members, rank(), size()));
    std::string path = absl::StrCat(path_, "/", name, ":", absl::StrJoin(members, ","));
    absl::StrAppend(&path, "#", made_[path]++);
    std::vector<int> world_ranks;
    for (int member : members) {
      world_ranks.push_back(link_.members()[static_cast<size_t>(member)]);
    }
    ASSIGN_OR_RETURN(const int tag, process_.TagOf(path));
    return std::make_unique<MpiCommunicator>(process_, std::move(world_ranks),
                                             IndexOf(members, rank()), tag, std::string(name),
                                             std::move(path));
  }

  void Abort(const absl::Status& why) override {
    process_.table().Fail(process_.table().FailureOf(process_.rank(), why));
    process_.row().SetLife(RankLife::kFailed);
  }
  absl::Status WorldStatus() const override { return process_.table().StatusForAll(); }

  CollectiveCounts counts() const override {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    return counts_;
  }

  void SetWhere(int64_t step, absl::string_view phase) override {
    process_.row().SetWhere(step, phase);
  }
  void Beat() override { process_.row().Beat(); }
  bool waits() const override { return process_.row().waits(); }

 private:
  void Count(const CollectiveCounts& more) {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    ++counts_.operations;
    counts_ += more;
  }

  MpiProcess& process_;
  MpiLink link_;
  const std::string name_, path_;
  const uint64_t id_;
  uint64_t turn_ = 0;
  std::map<std::string, size_t> made_;  // subgroups, by path
  mutable std::mutex counts_mutex_;
  CollectiveCounts counts_;  // guarded by counts_mutex_
};

// After the barrier at the end no message to this rank may be left, and no more come.
absl::Status CheckNothingIsLeft(MpiProcess& process) {
  std::lock_guard<std::mutex> lock(process.lock());
  int waits = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, process.data(), &waits, &status);
  if (!waits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "collectives do not match: at the end rank ", process.rank(), " has a message of rank ",
      status.MPI_SOURCE, " left that no collective has asked for"));
}

}  // namespace

bool MpiWorld::IsLaunched() {
  const Launched launched = LaunchedProcess();
  return launched.ranks > 0 && launched.knows_mpi;
}

absl::StatusOr<std::unique_ptr<MpiWorld>> MpiWorld::Init(const MpiOptions& options) {
  CHECK_GE(options.threads, 1);
  CHECK(options.piece_bytes >= 1 && options.piece_bytes <= int64_t{1} << 30);
  ASSIGN_OR_RETURN(std::unique_ptr<MpiProcess> process, MpiProcess::Start(options));
  return std::unique_ptr<MpiWorld>(new MpiWorld(std::move(process)));
}

MpiWorld::MpiWorld(std::unique_ptr<MpiProcess> process) : process_(std::move(process)) {
  std::vector<int> members(static_cast<size_t>(process_->size()));
  std::iota(members.begin(), members.end(), 0);
  communicator_ = std::make_unique<MpiCommunicator>(*process_, std::move(members), process_->rank(),
                                                    0, "world", "world");
}

absl::Status MpiWorld::Run(const std::function<absl::Status(Communicator& world)>& rank) {
  SetThreads(process_->options().threads);
  absl::Status status;
  try {
    status = rank(*communicator_);
  } catch (const std::exception& e) {
    status = absl::InternalError(absl::StrCat("an exception: ", e.what()));
  } catch (...) {
    status = absl::InternalError("an exception of unknown type");
  }
  if (!status.ok()) communicator_->Abort(status);
  return process_->table().StatusOfCulprit();
}

MpiWorld::~MpiWorld() {
  absl::Status status = Barrier(*communicator_, kEnd);
  if (status.ok()) status = CheckNothingIsLeft(*process_);
  if (!status.ok()) {
    communicator_->Abort(status);
    process_->EndFailed();
  }
  communicator_.reset();
  process_->EndInOrder();
}

}  // namespace colossus
