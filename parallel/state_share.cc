#include "parallel/state_share.h"

#include "base/status.h"

namespace colossus {

absl::Status ReadStateShare(Program& program, const StateShare& share, const StatePiece& wanted,
                            void* dst) {
  const int64_t size = SizeOf(share.dtype);
  absl::Status status;
  ForEachRun(wanted, share.piece, [&](int64_t to, int64_t from, int64_t count) {
    if (!status.ok()) return;
    status = program.ReadStateBytes(share.home, (share.home_first + from) * size,
                                    static_cast<char*>(dst) + to * size, count * size);
  });
  return status;
}

absl::Status WriteStateShare(Program& program, const StateShare& share, const StatePiece& wanted,
                             const void* src) {
  const int64_t size = SizeOf(share.dtype);
  absl::Status status;
  ForEachRun(wanted, share.piece, [&](int64_t from, int64_t to, int64_t count) {
    if (!status.ok()) return;
    status = program.WriteStateBytes(share.home, (share.home_first + to) * size,
                                     static_cast<const char*>(src) + from * size, count * size);
  });
  return status;
}

}  // namespace colossus
