#include "collectives/mpi/mpi_link.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/watch/stall.h"

namespace colossus {
namespace {

// A piece of a block as an MPI datatype relative to the block's data, for the time of starting a
// message: bytes [first, first + bytes), counted row after row.
class PieceType {
 public:
  template <class Pointer>
  PieceType(const BasicBlock<Pointer>& block, int64_t first, int64_t bytes) {
    // The end of a row, whole rows, the start of one; not all need be there.
    int count = 0, lengths[3];
    MPI_Aint places[3];
    MPI_Datatype types[3], rows = MPI_DATATYPE_NULL;
    while (bytes > 0) {
      const int64_t in_row = first % block.bytes, whole = in_row == 0 ? bytes / block.bytes : 0;
      const int64_t taken = whole > 0 ? whole * block.bytes : std::min(bytes, block.bytes - in_row);
      if (whole > 0) {
        MPI_Type_create_hvector(static_cast<int>(whole), static_cast<int>(block.bytes),
                                static_cast<MPI_Aint>(block.stride), MPI_BYTE, &rows);
      }
      places[count] = static_cast<MPI_Aint>(first / block.bytes * block.stride + in_row);
      lengths[count] = whole > 0 ? 1 : static_cast<int>(taken);
      types[count++] = whole > 0 ? rows : MPI_BYTE;
      first += taken;
      bytes -= taken;
    }
    MPI_Type_create_struct(count, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    if (rows != MPI_DATATYPE_NULL) MPI_Type_free(&rows);
  }
  ~PieceType() { MPI_Type_free(&type_); }
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_;
};

// Calls fn(data, count, type) for each MPI message that carries a part of a block. The two ends of
// a message may lay it out differently, so the cuts depend on its bytes alone.
template <class Pointer, class Fn>
absl::Status ForPieces(const BasicBlock<Pointer>& block, int64_t most, const Fn& fn) {
  const bool flat = block.rows == 1 || block.stride == block.bytes;
  for (int64_t first = 0; first < block.total(); first += most) {
    const int64_t bytes = std::min(most, block.total() - first);
    if (flat) {
      RETURN_IF_ERROR(fn(block.data + first, static_cast<int>(bytes), MPI_BYTE));
    } else {
      const PieceType piece(block, first, bytes);
      RETURN_IF_ERROR(fn(block.data, 1, piece.type()));
    }
  }
  return absl::OkStatus();
}

// Waiting between looks: at once, then giving the core to others, then asleep.
class Patience {
 public:
  explicit Patience(bool spins) : spins_(spins) {}
  void Moved() { looks_ = 0; }
  // True when it is worth asking whether waiting makes sense.
  bool Pause() {
    ++looks_;
    if (spins_ && looks_ < 20000) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      return looks_ % 1024 == 0;
    }
    if (looks_ < (spins_ ? 21000 : 100)) {
      sched_yield();
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 30000 ? 50 : 200));
    return true;
  }

 private:
  const bool spins_;
  int looks_ = 0;
};

}  // namespace

void MpiLink::Note(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

absl::Status MpiLink::StartData(int to, const ConstBlock& block) {
  const int peer = members_[static_cast<size_t>(to)];
  const auto start = [&](const char* data, int count, MPI_Datatype type) {
    sends_.push_back(MPI_REQUEST_NULL);
    return MpiStatus(MPI_Isend(data, count, type, peer, tag_ + 1, process_.data(), &sends_.back()),
                     "MPI_Isend");
  };
  return ForPieces(block, process_.options().piece_bytes, start);
}

void MpiLink::Send(int to, const ConstBlock& block, DType dtype) {
  ++sent_.messages;
  sent_.bytes += block.total();
  sent_.elements += block.total() / SizeOf(dtype);
  const bool check = process_.options().check, is_short = check && block.total() <= kShort;
  std::lock_guard<std::mutex> lock(process_.lock());
  if (check) {
    std::vector<char> head(sizeof(Head) + (is_short ? static_cast<size_t>(block.total()) : 0));
    const Head content = {record_, block.total()};
    std::memcpy(head.data(), &content, sizeof(content));
    for (int64_t row = 0; is_short && row < block.rows && block.bytes > 0; ++row) {
      std::memcpy(head.data() + sizeof(Head) + row * block.bytes, block.data + row * block.stride,
                  static_cast<size_t>(block.bytes));
    }
    heads_.push_back(std::move(head));
    sends_.push_back(MPI_REQUEST_NULL);
    Note(MpiStatus(
        MPI_Isend(heads_.back().data(), static_cast<int>(heads_.back().size()), MPI_BYTE,
                  members_[static_cast<size_t>(to)], tag_, process_.data(), &sends_.back()),
        "MPI_Isend"));
  }
  if (!check && block.total() == 0) {  // an empty message is a signal
    sends_.push_back(MPI_REQUEST_NULL);
    Note(MpiStatus(MPI_Isend(nullptr, 0, MPI_BYTE, members_[static_cast<size_t>(to)], tag_ + 1,
                             process_.data(), &sends_.back()),
                   "MPI_Isend"));
  } else if (!is_short) {
    Note(StartData(to, block));
  }
}

void MpiLink::Receive(int from, const Block& block) {
  Incoming& incoming = incoming_.emplace_back();
  incoming.from = from;
  incoming.block = block;
  std::lock_guard<std::mutex> lock(process_.lock());
  if (!process_.options().check) {
    incoming.has_head = true;
    Note(StartReceivingData(incoming));
    return;
  }
  // Whatever comes fits.
  incoming.head.resize(sizeof(Head) + kShort);
  incoming.requests.push_back(MPI_REQUEST_NULL);
  Note(MpiStatus(MPI_Irecv(incoming.head.data(), static_cast<int>(incoming.head.size()), MPI_BYTE,
                           members_[static_cast<size_t>(from)], tag_, process_.data(),
                           &incoming.requests.back()),
                 "MPI_Irecv"));
}

absl::Status MpiLink::StartReceivingData(Incoming& incoming) {
  const int peer = members_[static_cast<size_t>(incoming.from)];
  const auto start = [&](char* data, int count, MPI_Datatype type) {
    incoming.requests.push_back(MPI_REQUEST_NULL);
    return MpiStatus(
        MPI_Irecv(data, count, type, peer, tag_ + 1, process_.data(), &incoming.requests.back()),
        "MPI_Irecv");
  };
  if (incoming.block.total() == 0) return start(nullptr, 0, MPI_BYTE);
  return ForPieces(incoming.block, process_.options().piece_bytes, start);
}

// A head has come: compares, and takes a short message or starts to receive a long one.
absl::Status MpiLink::TakeHead(Incoming& incoming) {
  Head head;
  std::memcpy(&head, incoming.head.data(), sizeof(head));
  std::string what = MismatchOf(record_, head.record);
  if (what.empty() && head.bytes != incoming.block.total()) {
    what = absl::StrCat("bytes of a message (sent ", head.bytes, ", expected ",
                        incoming.block.total(), ")");
  }
  if (!what.empty()) {
    return absl::InvalidArgumentError(MismatchText(members_, what, record_, head.record));
  }
  incoming.has_head = true;
  incoming.requests.clear();
  const Block& block = incoming.block;
  if (block.total() > kShort) return StartReceivingData(incoming);
  for (int64_t row = 0; row < block.rows && block.bytes > 0; ++row) {
    std::memcpy(block.data + row * block.stride,
                incoming.head.data() + sizeof(Head) + row * block.bytes,
                static_cast<size_t>(block.bytes));
  }
  return absl::OkStatus();
}

bool MpiLink::Done(std::vector<MPI_Request>& requests, bool& moved) {
  bool all = true;
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    int done = 0;
    Note(MpiStatus(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    moved |= done != 0;
    all &= done != 0;
  }
  return all;
}

// Looks once at everything that is under way.
absl::Status MpiLink::Progress(bool& moved) {
  std::lock_guard<std::mutex> lock(process_.lock());
  if (Done(sends_, moved)) {
    sends_.clear();
    heads_.clear();
  }
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    if (Done(it->requests, moved) && status_.ok()) {
      if (it->has_head) {
        it = incoming_.erase(it);
        continue;
      }
      RETURN_IF_ERROR(TakeHead(*it));
      continue;  // a short one is done, a long one has begun
    }
    ++it;
  }
  return status_;
}

absl::Status MpiLink::Wait() {
  Patience patience(process_.spins());
  std::optional<StallWatch> watch;
  while (!sends_.empty() || !incoming_.empty()) {
    bool moved = false;
    if (absl::Status status = Progress(moved); !status.ok()) return Fail(status);
    if (moved) {
      process_.row().Beat();  // a long operation is no deadlock
      patience.Moved();
      continue;
    }
    if (!patience.Pause()) continue;
    if (!watch) {
      std::vector<int> awaited;
      for (const Incoming& incoming : incoming_) {
        awaited.push_back(members_[static_cast<size_t>(incoming.from)]);
      }
      watch.emplace(process_.table(), process_.options().watch, process_.clock(), process_.rank(),
                    std::move(awaited));
    }
    if (watch->IsOver()) {
      GiveUp();
      return process_.table().StatusForAll();
    }
  }
  return std::exchange(status_, absl::OkStatus());
}

// Gives up what is under way, after the world has failed. Only receives that nothing has matched
// yet can be called back; of the others, and of sends, MPI may use the operation's buffers until
// the job ends.
void MpiLink::GiveUp() {
  std::lock_guard<std::mutex> lock(process_.lock());
  for (Incoming& incoming : incoming_) {
    for (MPI_Request& request : incoming.requests) {
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
    }
  }
  // Heads are the link's own: kept for good, with those of receives.
  new std::deque<std::vector<char>>(std::move(heads_));
  new std::deque<Incoming>(std::move(incoming_));
  heads_.clear();
  incoming_.clear();
  sends_.clear();
}

absl::Status MpiLink::Fail(const absl::Status& status) {
  const bool mismatch = status.code() == absl::StatusCode::kInvalidArgument;
  process_.table().Fail(
      mismatch ? MakeFailure(process_.rank(), status.code(), status.code(), status.message())
               : process_.table().FailureOf(process_.rank(), status));
  GiveUp();
  return process_.table().StatusForAll();
}

char* MpiLink::Scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes + 64) {
    scratch_.resize(static_cast<size_t>(bytes + 64));
  }
  const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
  return scratch_.data() + (64 - address % 64);
}

}  // namespace colossus
