// Profile: where the time of a run goes, by op and by block.
//
// Purpose: an observer that sums the device's seconds (virtual ones on the null device) of every
// instruction. Streams are drained after each, so a profiled run does not overlap.
// Thread-safety: one thread. Ownership: the program must outlive it.
//
//   Profile profile(*program);
//   program->RunPhase(0, feeds, &profile);
//   std::cerr << profile.ToText();
#ifndef COLOSSUS_TENSOR_EXEC_PROFILE_H_
#define COLOSSUS_TENSOR_EXEC_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "tensor/exec/program.h"

namespace colossus {

class Profile final : public StepObserver {
 public:
  struct Sum {
    double seconds = 0;
    int64_t count = 0;  // instructions
  };

  explicit Profile(Program& program) : program_(program) {}

  void Before(size_t instruction) override;
  absl::Status After(size_t instruction) override;

  // By op name; "feed", "copy" and "fetch" for what is no op.
  const std::map<std::string, Sum>& by_op() const { return by_op_; }
  // By block tag of the node; the others are under their segment's name.
  const std::map<std::string, Sum>& by_block() const { return by_block_; }
  double seconds() const { return seconds_; }

  // Two tables, longest first: seconds, share, count, name.
  std::string ToText() const;

 private:
  Program& program_;
  double start_ = 0, seconds_ = 0;
  std::map<std::string, Sum> by_op_, by_block_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PROFILE_H_
