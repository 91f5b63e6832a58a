// StateShare: what a rank holds of the job's states, and where it lies in the rank's program.
//
// Purpose: layouts, shards and chunks end here: saving, loading, setting and exporting know states
// by their names and global coordinates, and reach the program's buffers through parts. A part may
// reach beyond its state where a dim is padded; what is beyond is zero and is nobody's business.
// Thread-safety: plain values; the functions use the program as its one thread does.
// Ownership: owns its names.
//
//   for (const StateShare& share : training.shares()) {
//     if (share.owner) saved.push_back({share.info.name, InsideOf(share.piece,
//     share.info.global_dims)});
//   }
//   RETURN_IF_ERROR(ReadStateShare(program, share, wanted, buffer));
#ifndef COLOSSUS_PARALLEL_STATE_SHARE_H_
#define COLOSSUS_PARALLEL_STATE_SHARE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "tensor/exec/program.h"
#include "tensor/graph/state.h"
#include "tensor/graph/state_piece.h"

namespace colossus {

// A state of the job, whoever holds it.
struct JobState {
  StateInfo info;  // name, role and global dims
  DType dtype = DType::kF32;
};

struct StateShare {
  StateInfo info;  // of the whole state: "moment1/h.0.w", its role and global dims
  DType dtype = DType::kF32;
  StatePiece piece;        // in global coordinates
  bool owner = true;       // of all ranks that hold these elements, this one saves them
  std::string home;        // the program's state that holds them
  int64_t home_first = 0;  // its element where the piece begins
};

// Copies the elements that `wanted` and the part have in common from the program to `dst`, or from
// `src` to the program; `dst` and `src` are in the order of `wanted`. REQUIRES: allocated.
absl::Status ReadStateShare(Program& program, const StateShare& share, const StatePiece& wanted,
                            void* dst);
absl::Status WriteStateShare(Program& program, const StateShare& share, const StatePiece& wanted,
                             const void* src);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STATE_SHARE_H_
