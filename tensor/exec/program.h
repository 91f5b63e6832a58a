// Program: what one rank executes: a step's instructions with every buffer's place fixed.
//
// Purpose: compiles a step for a device, refuses it when it cannot run or fit, then runs its
// phases as often as wanted. The same Program runs for real, or on the null device in virtual time.
// Collectives and calls of link segments run beside compute, on a second stream.
// Thread-safety: one thread. Ownership: owns step, kernels, plan and arenas; the device must
// outlive it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Compile(step, *device, {}));
//   RETURN_IF_ERROR(program->Allocate());
//   RETURN_IF_ERROR(program->WriteState("w", w));
//   ASSIGN_OR_RETURN(Fetched out, program->RunPhase(0, feeds));
#ifndef COLOSSUS_TENSOR_EXEC_PROGRAM_H_
#define COLOSSUS_TENSOR_EXEC_PROGRAM_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stream.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/device.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/host_tensor.h"

namespace colossus {

// The host's value of a feed for a micro-batch (-1: once per step); nullptr if there is none. The
// tensor must stay valid until the phase returns. Not called on the null device.
using FeedFunction = std::function<const HostTensor*(absl::string_view feed, int micro_batch)>;

// Fetched outputs by (output name, micro-batch). On the null device: zeros.
using Fetched = std::map<std::pair<std::string, int>, HostTensor>;

// Sees every instruction of a run: profiles, dumps, fault injection, the search for a non-finite
// value. With an observer the program waits for each instruction, unless it does not ask for that.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // False: After is called when the instruction is on its way, whether it has run or not.
  virtual bool waits() const { return true; }
  virtual void Before(size_t instruction) { (void)instruction; }
  virtual absl::Status After(size_t instruction) {
    (void)instruction;
    return absl::OkStatus();
  }
};

struct ProgramOptions {
  DeviceRates rates;
  // Fills memory with NaN before the first use and after the last use of every buffer: whoever
  // reads a dead range computes NaN. For tests.
  bool poison = false;
  // Communication runs on a stream of its own, beside compute, where the device's streams run
  // beside each other. Changes no bit, only time and memory.
  bool overlap = true;
};

class Program {
 public:
  // Chooses kernels and plans memory; takes none. Error: Unimplemented (no kernel),
  // ResourceExhausted (does not fit, with contributors), InvalidArgument (a step that is wrong).
  static absl::StatusOr<std::unique_ptr<Program>> Compile(Step step, Device& device,
                                                          const ProgramOptions& options);

  // Takes the arenas. Error: ResourceExhausted.
  absl::Status Allocate();

  const Step& step() const { return step_; }
  const MemoryPlan& plan() const { return plan_; }
  const std::vector<Executable>& executables() const { return executables_; }
  Device& device() { return device_; }

  // States, whole or in ranges of bytes. REQUIRES: allocated. Error: NotFound, or another type.
  absl::Status WriteState(absl::string_view name, const HostTensor& value);
  absl::StatusOr<HostTensor> ReadState(absl::string_view name);
  absl::Status WriteStateBytes(absl::string_view name, int64_t offset, const void* src,
                               int64_t bytes);
  absl::Status ReadStateBytes(absl::string_view name, int64_t offset, void* dst, int64_t bytes);

  // Runs one phase to its end. Phases of a step run in order; values that cross phases stay where
  // they are in between. Communication that no compute of the phase needs may go on after it
  // (MemoryPlan::outlasts); its error is that of the next phase, or of the next state that is read
  // or written. Error: InvalidArgument for a missing or mistyped feed (before anything runs), or
  // the first error of an instruction or observer.
  absl::StatusOr<Fetched> RunPhase(int phase, const FeedFunction& feeds,
                                   StepObserver* observer = nullptr);

  // Bytes of an instruction's operand or result, for observers that wait. Range in the device
  // arena.
  absl::Status ReadRange(const BufferRange& range, void* dst);
  absl::Status WriteRange(const BufferRange& range, const void* src);
  // The same in place. Host device only.
  const char* address(const BufferRange& range) const {
    return device_arena_->base() + range.offset;
  }

 private:
  friend class ProgramTestPeer;  // takes waits away, for the tests that must fail then
  Program(Step step, Device& device, const ProgramOptions& options)
      : step_(std::move(step)),
        device_(device),
        options_(options),
        kernels_(device.kernels(), device.threads()),
        link_kernels_(device.kernels(), device.threads()) {}

  absl::Status CheckFeeds(size_t begin, size_t end, const FeedFunction& feeds,
                          std::vector<const HostTensor*>& values) const;
  void FindAwaited();
  void Enqueue(size_t t, bool first, const HostTensor* feed);
  void Enqueue(Stream& stream, const Instruction& instruction, const HostTensor* feed);
  void Poison(size_t t);
  absl::Status Synchronize();
  absl::StatusOr<const StateHome*> Home(absl::string_view name, int64_t offset,
                                        int64_t bytes) const;

  Step step_;
  Device& device_;
  ProgramOptions options_;
  KernelCache kernels_, link_kernels_;  // of the streams: a planned kernel runs on one only
  std::vector<Executable> executables_;
  MemoryPlan plan_;
  std::unique_ptr<Arena> device_arena_, host_arena_;
  std::unique_ptr<Stream> stream_, link_;  // link_: nullptr if nothing runs on it
  std::vector<bool> awaited_;              // by instruction: the other stream waits for it
  std::vector<std::shared_ptr<Event>> events_;  // of awaited instructions, when they ran last
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PROGRAM_H_
