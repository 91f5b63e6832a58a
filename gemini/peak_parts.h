// PeakParts: what each tier's memory is for when most of it is in use.
//
// Purpose: an estimate that a person can follow: states, layers that were gathered or loaded,
// gradients, activations, the loss's logits, communication, workspaces and staging, per tier. Read
// off the memory plan of a compiled program, so the sum is its peak but for what lies idle between
// buffers.
// Thread-safety: a plain function of the program's plan. Ownership: plain values.
//
//   std::array<HeldBytes, 3> parts = PeakParts(program);
//   parts[static_cast<size_t>(Tier::kDevice)][static_cast<size_t>(Held::kStates)];
#ifndef COLOSSUS_GEMINI_PEAK_PARTS_H_
#define COLOSSUS_GEMINI_PEAK_PARTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/exec/program.h"

namespace colossus {

enum class Held : uint8_t {
  kStates,         // that live on the tier, and those that are there for their update
  kGathered,       // parameters that are there for a while: gathered from ranks, or loaded
  kGradients,      // their sums, and all that phases leave to later ones
  kActivations,    // what lives within a phase, feeds among it
  kLogits,         // of the loss, a chunk at a time
  kCommunication,  // what collectives make, but gathered parameters
  kWorkspaces,     // of other kernels
  kStaging,        // host memory that feeds, fetches and the disk's blocks go through
};
inline constexpr size_t kHeldKinds = 8;
absl::string_view Name(Held held);

// Bytes by what they are for (index: Held).
using HeldBytes = std::array<int64_t, kHeldKinds>;

// By Tier, where the sum is largest.
std::array<HeldBytes, 3> PeakParts(const Program& program);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_PEAK_PARTS_H_
