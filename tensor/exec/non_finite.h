// NonFiniteSearch: the first value of a run that is a NaN or an infinity, and who made it.
//
// Purpose: an observer that reads every float result as it is made and ends the phase at the first
// bad element, or goes on where other ranks wait for this one. For the replay of a step whose loss
// or norm was not finite: it reads the whole memory traffic of the step once more, so not for every
// run. Thread-safety: one thread. Ownership: the program must outlive it.
//
//   NonFiniteSearch search(*program);
//   absl::Status status = program->RunPhase(0, feeds, &search).status();
//   if (search.found()) std::cerr << ToText(*search.found());   // and status is Aborted
#ifndef COLOSSUS_TENSOR_EXEC_NON_FINITE_H_
#define COLOSSUS_TENSOR_EXEC_NON_FINITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "tensor/exec/program.h"
#include "tensor/graph/types.h"

namespace colossus {

struct NonFinite {
  std::string value;  // name of the value, feed or state
  std::string op;     // that made it; "feed" or "state" for what is no op's result
  std::string block;  // "h.1.grad"; empty for feeds and states
  Type type;
  int64_t element = 0;       // row-major
  std::string kind;          // "NaN", "+Inf" or "-Inf"
  int micro_batch = -1;      // -1: made once in the step
  int64_t instruction = -1;  // of the program's plan; -1 for states
};

// "NaN in h.1.grad/dx (layer_norm_grad, f32[2,8], element 5)".
std::string ToText(const NonFinite& found);

// Index and kind of the first element of `n` elements of `dtype` that is not finite; the index is n
// when there is none, as for every type but floats.
struct BadElement {
  int64_t index = 0;
  absl::string_view kind;
};
BadElement FindNonFinite(DType dtype, const void* data, int64_t n);

class NonFiniteSearch final : public StepObserver {
 public:
  // `inner`: an observer that sees each instruction before this one does; may be null. `go_on`: the
  // phase runs to its end all the same; what is found after the first does not matter.
  explicit NonFiniteSearch(Program& program, StepObserver* inner = nullptr, bool go_on = false)
      : program_(program), inner_(inner), go_on_(go_on) {}

  void Before(size_t instruction) override;
  // Aborted when something is found and the search does not go on.
  absl::Status After(size_t instruction) override;

  const std::optional<NonFinite>& found() const { return found_; }

 private:
  Program& program_;
  StepObserver* const inner_;
  const bool go_on_;
  std::vector<char> values_;
  std::optional<NonFinite> found_;
};

// The first state with an element that is not finite. REQUIRES: allocated.
absl::StatusOr<std::optional<NonFinite>> FindNonFiniteState(Program& program);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_NON_FINITE_H_
