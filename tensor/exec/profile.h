// Profile: where the time of a run goes, by op, by block and by the shapes of a call.
//
// Purpose: an observer that sums the device's seconds (virtual ones on the null device) of every
// instruction, beside the flops and bytes that the ops' costs name. Streams are drained after each
// instruction, so a profiled run does not overlap.
// Thread-safety: one thread. Ownership: the program must outlive it.
//
//   Profile profile(*program);
//   program->RunPhase(0, feeds, &profile);
//   for (const auto& [name, sum] : LongestFirst(profile.by_op())) ...
#ifndef COLOSSUS_TENSOR_EXEC_PROFILE_H_
#define COLOSSUS_TENSOR_EXEC_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensor/exec/program.h"

namespace colossus {

class Profile final : public StepObserver {
 public:
  struct Sum {
    double seconds = 0;
    int64_t count = 0;  // instructions
    // Of the ops' costs: what an ideal kernel does, not what ours does. Copies only move bytes.
    double flops = 0;
    double bytes = 0;
  };
  using Sums = std::map<std::string, Sum>;

  explicit Profile(Program& program);

  void Before(size_t instruction) override;
  absl::Status After(size_t instruction) override;

  // By op name; "feed", "copy" and "fetch" for what is no op.
  const Sums& by_op() const { return by_op_; }
  // By block tag of the node; the others are under their segment's name.
  const Sums& by_block() const { return by_block_; }
  // By op with its einsum, if it has one, and the types of its operands.
  const Sums& by_call() const { return by_call_; }
  double seconds() const { return seconds_; }

 private:
  // What an instruction is called in each table, and what one run of it adds.
  struct Row {
    Sum *op, *block, *call;
    double flops, bytes;
  };
  Row RowOf(size_t instruction);

  Program& program_;
  std::vector<Row> rows_;  // by instruction; point into the maps
  double start_ = 0, seconds_ = 0;
  Sums by_op_, by_block_, by_call_;
};

// Rows of a table in the order in which a reader wants them.
std::vector<std::pair<std::string, Profile::Sum>> LongestFirst(const Profile::Sums& sums);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PROFILE_H_
