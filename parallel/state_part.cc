#include "parallel/state_part.h"

#include "base/status.h"

namespace colossus {

absl::Status ReadStatePart(Program& program, const StatePart& part, const StatePiece& wanted,
                           void* dst) {
  const int64_t size = SizeOf(part.dtype);
  absl::Status status;
  ForEachRun(wanted, part.piece, [&](int64_t to, int64_t from, int64_t count) {
    if (!status.ok()) return;
    status = program.ReadStateBytes(part.home, (part.home_first + from) * size,
                                    static_cast<char*>(dst) + to * size, count * size);
  });
  return status;
}

absl::Status WriteStatePart(Program& program, const StatePart& part, const StatePiece& wanted,
                            const void* src) {
  const int64_t size = SizeOf(part.dtype);
  absl::Status status;
  ForEachRun(wanted, part.piece, [&](int64_t from, int64_t to, int64_t count) {
    if (!status.ok()) return;
    status = program.WriteStateBytes(part.home, (part.home_first + to) * size,
                                     static_cast<const char*>(src) + from * size, count * size);
  });
  return status;
}

}  // namespace colossus
