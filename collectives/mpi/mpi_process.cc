#include "collectives/mpi/mpi_process.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/cores.h"
#include "base/status.h"
#include "collectives/launcher.h"
#include "collectives/mpi/relay.h"

namespace colossus {
namespace {

// For others to learn of a failure, and for what has been printed to come before what the launcher
// prints: at most, at least, and at least among machines and where a process was lost. Then the
// launcher ends the job by itself, in about a second; one that does not is told to.
constexpr double kTellSeconds = 2.5;
constexpr double kLeastSeconds = 0.3, kLeastAmongMachines = 0.7, kLeastAfterLoss = 2;

// What processes of one machine tell each other at the start.
struct Introduction {
  int32_t rank = 0;
  int32_t pid = 0;
  uint64_t pid_namespace = 0;
};

Introduction Introduce(int rank) {
  Introduction own = {rank, static_cast<int32_t>(getpid()), 0};
  char link[64] = {};
  if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) > 0) {
    own.pid_namespace = std::hash<std::string>()(link);
  }
  return own;
}

// The shared memory of a machine: what all its processes see.
struct MachineHead {
  RankTableHead table;
  std::atomic<uint32_t> printed{0};
};
constexpr size_t kRowsAt = (sizeof(MachineHead) + 63) / 64 * 64;

}  // namespace

absl::Status MpiStatus(int code, absl::string_view call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(call, ": ", text));
}

absl::StatusOr<std::unique_ptr<MpiProcess>> MpiProcess::Start(const MpiOptions& options) {
  int provided = 0;
  RETURN_IF_ERROR(MpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
                            "MPI_Init_thread"));
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::UnavailableError("this MPI offers no MPI_THREAD_SERIALIZED");
  }
  std::unique_ptr<MpiProcess> process(new MpiProcess(options));
  RETURN_IF_ERROR(process->Connect());
  RETURN_IF_ERROR(process->ShareTable());
  return process;
}

absl::Status MpiProcess::Connect() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  const Launched launched = LaunchedProcess();
  RETURN_IF_ERROR(CheckLaunched(launched));
  if (size_ == 1 && launched.ranks > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(launched.ranks,
                     " processes were started as ranks, but MPI sees 1: start them with the "
                     "mpirun that belongs to the MPI of this program, or with srun --mpi=pmix"));
  }
  RETURN_IF_ERROR(MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &data_), "MPI_Comm_dup"));
  RETURN_IF_ERROR(MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup"));
  if (options_.ranks_per_machine > 0) {
    RETURN_IF_ERROR(MpiStatus(
        MPI_Comm_split(MPI_COMM_WORLD, rank_ / options_.ranks_per_machine, rank_, &machine_),
        "MPI_Comm_split"));
  } else {
    RETURN_IF_ERROR(MpiStatus(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine_),
        "MPI_Comm_split_type"));
  }
  void* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(data_, MPI_TAG_UB, &most, &known);
  if (known) most_tag_ = *static_cast<int*>(most);
  return absl::OkStatus();
}

absl::Status MpiProcess::ShareTable() {
  int count = 0, place = 0;
  MPI_Comm_size(machine_, &count);
  MPI_Comm_rank(machine_, &place);
  spins_ = count * options_.threads <= Cores();
  const size_t bytes = kRowsAt + sizeof(RankRow) * static_cast<size_t>(size_);
  void* memory = nullptr;
  RETURN_IF_ERROR(MpiStatus(MPI_Win_allocate_shared(place == 0 ? static_cast<MPI_Aint>(bytes) : 0,
                                                    1, MPI_INFO_NULL, machine_, &memory, &window_),
                            "MPI_Win_allocate_shared"));
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
  char* base = static_cast<char*>(memory);
  if (place == 0) {
    new (base) MachineHead;
    for (int r = 0; r < size_; ++r) {
      new (base + kRowsAt + sizeof(RankRow) * static_cast<size_t>(r)) RankRow;
    }
  }
  MPI_Barrier(machine_);
  MachineHead* head = reinterpret_cast<MachineHead*>(base);
  RankRow* rows = reinterpret_cast<RankRow*>(base + kRowsAt);
  table_ = std::make_unique<RankTable>(&head->table, rows, size_);
  row().SetLife(RankLife::kRunning);

  std::vector<Introduction> all(static_cast<size_t>(count));
  const Introduction own = Introduce(rank_);
  MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, machine_);
  std::vector<Monitor::Peer> peers;
  for (const Introduction& peer : all) {
    machine_ranks_.push_back(peer.rank);
    const bool visible = peer.pid_namespace == own.pid_namespace;
    if (peer.rank != rank_ && visible) peers.push_back({peer.rank, peer.pid});
  }
  ASSIGN_OR_RETURN(std::function<void()> relay,
                   MakeRelay(control_, lock_, *table_, clock_, machine_ranks_, options_.watch));
  MPI_Barrier(control_);
  monitor_ =
      std::make_unique<Monitor>(*table_, rank_, std::move(peers), head->printed, std::move(relay));
  return absl::OkStatus();
}

MpiProcess::~MpiProcess() { monitor_.reset(); }

absl::StatusOr<int> MpiProcess::TagOf(const std::string& group) {
  std::lock_guard<std::mutex> lock(tags_mutex_);
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : group) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash ^= hash >> 31;
  const int pairs = most_tag_ / 2 - 1;
  const int tag = 2 + 2 * static_cast<int>(hash % static_cast<uint64_t>(pairs));
  const auto [place, is_new] = tags_.emplace(tag, group);
  if (is_new || place->second == group) return tag;
  return absl::AlreadyExistsError(absl::StrCat("groups ", group, " and ", place->second,
                                               " have the same MPI tag; name one of them otherwise "
                                               "(Subgroup), or put the mesh's axes in another "
                                               "order, or run ranks as threads"));
}

void MpiProcess::EndInOrder() {
  row().SetLife(RankLife::kLeft);
  monitor_.reset();
  std::lock_guard<std::mutex> lock(lock_);
  MPI_Barrier(control_);
  table_.reset();
  MPI_Win_free(&window_);
  MPI_Comm_free(&machine_);
  MPI_Comm_free(&control_);
  MPI_Comm_free(&data_);
  MPI_Finalize();
}

void MpiProcess::EndFailed() {
  row().SetLife(RankLife::kFailed);
  monitor_->TellOfFailure();
  const double start = clock_.Seconds();
  const bool alone = static_cast<int>(machine_ranks_.size()) == size_;
  while (true) {
    bool lost = false, all_know = true;
    for (int r = 0; r < size_; ++r) lost |= table_->row(r).life() == RankLife::kLost;
    for (int r : machine_ranks_) all_know &= table_->row(r).life() != RankLife::kRunning;
    const double passed = clock_.Seconds() - start;
    const double least = lost ? kLeastAfterLoss : alone ? kLeastSeconds : kLeastAmongMachines;
    if (passed > kTellSeconds || (passed > least && all_know)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fflush(nullptr);
  lock_.lock();  // nobody calls MPI any more
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

}  // namespace colossus
