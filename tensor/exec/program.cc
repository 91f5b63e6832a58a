#include "tensor/exec/program.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr unsigned char kPoison = 0xFF;  // all ones: NaN in every float type

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Compile(Step step, Device& device,
                                                          const ProgramOptions& options) {
  std::unique_ptr<Program> program(new Program(std::move(step), device, options));
  const bool overlap = options.overlap && device.overlaps();
  for (const StepSegment& segment : program->step_.segments) {
    KernelCache& own = overlap && segment.link ? program->link_kernels_ : program->kernels_;
    ASSIGN_OR_RETURN(Executable executable,
                     colossus::Compile(segment.segment, own, options.rates,
                                       overlap ? &program->link_kernels_ : nullptr));
    program->executables_.push_back(std::move(executable));
  }
  ASSIGN_OR_RETURN(program->plan_, PlanMemory(program->step_, program->executables_, overlap));
  program->FindAwaited();
  RETURN_IF_ERROR(CheckFits(program->plan_, device.capacity_bytes()));
  return program;
}

void Program::FindAwaited() {
  awaited_.assign(plan_.instructions.size(), false);
  for (const Instruction& instruction : plan_.instructions) {
    if (instruction.wait >= 0) awaited_[static_cast<size_t>(instruction.wait)] = true;
    for (int late : instruction.late_waits) awaited_[static_cast<size_t>(late)] = true;
  }
}

absl::Status Program::Allocate() {
  ASSIGN_OR_RETURN(device_arena_, device_.NewArena(Tier::kDevice, plan_.device_bytes));
  ASSIGN_OR_RETURN(host_arena_, device_.NewArena(Tier::kHost, plan_.host_bytes));
  stream_ = device_.NewStream("compute");
  for (const Instruction& instruction : plan_.instructions) {
    if (instruction.link && link_ == nullptr) link_ = device_.NewStream("link");
  }
  if (options_.poison) {
    device_.Fill(*stream_, device_arena_->base(), kPoison, plan_.device_bytes);
  }
  events_.assign(plan_.instructions.size(), nullptr);
  return stream_->Synchronize();
}

absl::StatusOr<const StateHome*> Program::Home(absl::string_view name, int64_t offset,
                                               int64_t bytes) const {
  CHECK(device_arena_ != nullptr) << "Allocate() comes first";
  const StateHome* home = plan_.FindState(name);
  if (home == nullptr) return absl::NotFoundError(absl::StrCat("no state '", name, "'"));
  if (offset < 0 || bytes < 0 || offset + bytes > home->range.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' has ", home->range.bytes,
                                                   " bytes; asked for [", offset, ", ",
                                                   offset + bytes, ")"));
  }
  return home;
}

absl::Status Program::WriteStateBytes(absl::string_view name, int64_t offset, const void* src,
                                      int64_t bytes) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, offset, bytes));
  RETURN_IF_ERROR(Synchronize());
  device_.CopyIn(*stream_, device_arena_->base() + home->range.offset + offset, src, bytes);
  return stream_->Synchronize();
}

absl::Status Program::ReadStateBytes(absl::string_view name, int64_t offset, void* dst,
                                     int64_t bytes) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, offset, bytes));
  RETURN_IF_ERROR(Synchronize());
  device_.CopyOut(*stream_, dst, device_arena_->base() + home->range.offset + offset, bytes);
  return stream_->Synchronize();
}

absl::Status Program::ReadRange(const BufferRange& range, void* dst) {
  RETURN_IF_ERROR(Synchronize());
  device_.CopyOut(*stream_, dst, device_arena_->base() + range.offset, range.bytes);
  return stream_->Synchronize();
}

absl::Status Program::WriteRange(const BufferRange& range, const void* src) {
  RETURN_IF_ERROR(Synchronize());
  device_.CopyIn(*stream_, device_arena_->base() + range.offset, src, range.bytes);
  return stream_->Synchronize();
}

absl::Status Program::WriteState(absl::string_view name, const HostTensor& value) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, 0, 0));
  if (home->type != value.type()) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' is ",
                                                   ToString(home->type), ", given ",
                                                   ToString(value.type())));
  }
  return WriteStateBytes(name, 0, value.raw(), value.type().bytes());
}

absl::StatusOr<HostTensor> Program::ReadState(absl::string_view name) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, 0, 0));
  HostTensor value(home->type);
  RETURN_IF_ERROR(ReadStateBytes(name, 0, value.raw(), value.type().bytes()));
  return value;
}

absl::Status Program::CheckFeeds(size_t begin, size_t end, const FeedFunction& feeds,
                                 std::vector<const HostTensor*>& values) const {
  values.assign(end - begin, nullptr);
  if (!device_.computes()) return absl::OkStatus();
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan_.instructions[t];
    if (instruction.kind != InstructionKind::kFeed) continue;
    const HostTensor* value = feeds(instruction.name, instruction.micro_batch);
    if (value == nullptr || value->type() != instruction.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feed '", instruction.name, "' of type ", ToString(instruction.type), " for micro-batch ",
          instruction.micro_batch, " is ",
          value == nullptr ? "missing" : ToString(value->type())));
    }
    values[t - begin] = value;
  }
  return absl::OkStatus();
}

// Both streams. The error of whichever failed first: it is the other's too, where that waited.
absl::Status Program::Synchronize() {
  const absl::Status link = link_ == nullptr ? absl::OkStatus() : link_->Synchronize();
  const absl::Status compute = stream_->Synchronize();
  return compute.ok() ? link : compute;
}

void Program::Poison(size_t t) {
  if (!options_.poison) return;
  for (const BufferRange& range : plan_.freed[t]) {
    device_.Fill(*stream_, device_arena_->base() + range.offset, kPoison, range.bytes);
  }
}

// The instruction between its waits and its event.
void Program::Enqueue(size_t t, bool first, const HostTensor* feed) {
  const Instruction& instruction = plan_.instructions[t];
  Stream& stream = instruction.link ? *link_ : *stream_;
  if (instruction.wait >= 0) stream.WaitFor(events_[static_cast<size_t>(instruction.wait)]);
  for (int late : instruction.late_waits) {
    const std::shared_ptr<Event>& event = events_[static_cast<size_t>(late)];
    if (event != nullptr) stream.WaitFor(event);  // else that phase has not run
  }
  // What the link touched last is dead when compute has waited for it: now, not before.
  if (!first) Poison(t - 1);
  // And the link may use what is dead.
  if (options_.poison && instruction.link) stream.WaitFor(stream_->Record());
  Enqueue(stream, instruction, feed);
  if (awaited_[t]) events_[t] = stream.Record();
}

void Program::Enqueue(Stream& stream, const Instruction& instruction, const HostTensor* feed) {
  char* device = device_arena_->base();
  char* staging = host_arena_->base() + instruction.staging.offset;
  switch (instruction.kind) {
    case InstructionKind::kFeed:
      if (feed != nullptr) std::memcpy(staging, feed->raw(), feed->type().bytes());
      device_.CopyIn(stream, device + instruction.results[0].offset, staging,
                     instruction.type.bytes());
      return;
    case InstructionKind::kFetch:
      device_.CopyOut(stream, staging, device + instruction.operands[0].offset,
                      instruction.type.bytes());
      return;
    case InstructionKind::kCopy:
      device_.CopyWithin(stream, device + instruction.results[0].offset,
                         device + instruction.operands[0].offset, instruction.results[0].bytes);
      return;
    case InstructionKind::kKernel: {
      const Call& call = step_.calls[instruction.call];
      const CompiledNode& node = executables_[call.segment].nodes[instruction.node];
      KernelLaunch launch;
      launch.kernel = node.kernel.get();
      launch.seconds = node.seconds;
      for (const BufferRange& range : instruction.operands) {
        launch.operands.push_back(device + range.offset);
      }
      for (const BufferRange& range : instruction.results) {
        launch.results.push_back(device + range.offset);
      }
      launch.workspace = device + instruction.workspace.offset;
      device_.Launch(stream, std::move(launch));
      return;
    }
  }
}

absl::StatusOr<Fetched> Program::RunPhase(int phase, const FeedFunction& feeds,
                                          StepObserver* observer) {
  CHECK(device_arena_ != nullptr) << "Allocate() comes first";
  size_t begin = phase == 0 ? 0 : plan_.phase_end[phase - 1], end = plan_.phase_end[phase];
  std::vector<const HostTensor*> values;
  RETURN_IF_ERROR(CheckFeeds(begin, end, feeds, values));
  for (size_t t = begin; t < end; ++t) {
    if (observer != nullptr) observer->Before(t);
    Enqueue(t, /*first=*/t == begin, values[t - begin]);
    if (observer != nullptr) {
      if (observer->waits()) RETURN_IF_ERROR(Synchronize());
      if (absl::Status status = observer->After(t); !status.ok()) {
        // What is on its way still reads the feeds.
        Synchronize().IgnoreError();
        return status;
      }
    }
  }
  // What the link still does may go on, if nobody needs to know that it is dead.
  const bool outlasts = plan_.outlasts[static_cast<size_t>(phase)] && !options_.poison;
  RETURN_IF_ERROR(outlasts ? stream_->Synchronize() : Synchronize());
  if (begin < end) Poison(end - 1);
  RETURN_IF_ERROR(stream_->Synchronize());
  Fetched fetched;
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan_.instructions[t];
    if (instruction.kind != InstructionKind::kFetch) continue;
    HostTensor value(instruction.type);
    if (device_.computes()) {
      std::memcpy(value.raw(), host_arena_->base() + instruction.staging.offset,
                  value.type().bytes());
    }
    fetched.emplace(std::make_pair(instruction.name, instruction.micro_batch), std::move(value));
  }
  return fetched;
}

}  // namespace colossus
