// What a checkpoint says beside the values: counters, place in the data, configuration, states.
//
// Thread-safe: plain values. Ownership: owns its strings.
//
//   CheckpointRecord record;
//   record.counters = counters;
//   record.states = {{"wte.weight", "parameter", {DType::kF32, {257, 64}}}};
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_RECORD_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_RECORD_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/graph/state_piece.h"
#include "tensor/graph/types.h"
#include "trainers/lib/checkpoint/data_position.h"
#include "trainers/lib/config/loss_scale.h"

namespace colossus {

// Updates so far.
struct Counters {
  int64_t attempted = 0;  // the step of the last one
  int64_t applied = 0;
  int64_t skipped = 0;
  int64_t nonfinite_in_a_row = 0;  // the newest attempts that were not finite
  friend bool operator==(const Counters&, const Counters&) = default;
};

// A state as it is saved, whatever pieces it lies in.
struct SavedState {
  std::string name;
  std::string role;  // Name(Role)
  Type type;         // dims are global
};

// Everything but the values.
struct CheckpointRecord {
  Counters counters;
  DataPosition data;                         // where the next update starts
  int64_t data_rows = 0;                     // of the training data, to notice another corpus
  std::optional<LossScaleState> loss_scale;  // of fp16 runs
  std::string config;                        // the effective configuration (TOML)
  std::string model;                         // the model's config.json
  std::vector<SavedState> states;
};

// A piece of a state, as one rank writes it.
struct SavedPiece {
  std::string state;
  StatePiece piece;
};

// Every state as one piece: what a run of one rank writes.
inline std::vector<SavedPiece> WholePieces(const std::vector<SavedState>& states) {
  std::vector<SavedPiece> pieces;
  for (const SavedState& state : states) {
    pieces.push_back({state.name, WholePiece(state.type.dims)});
  }
  return pieces;
}

// Bytes of the buffer through which each of `ranks` ranks copies values to a file or from it. The
// buffers of ranks that share a process are together no larger than half of the largest state, but
// for the 64 KiB each that copying needs to be fast; lists of pieces come beside them.
inline int64_t StagingBytes(const std::vector<SavedState>& states, int ranks) {
  constexpr int64_t kLeast = int64_t{64} << 10, kMost = int64_t{4} << 20;
  int64_t largest = 0;
  for (const SavedState& state : states) largest = std::max(largest, state.type.bytes());
  return std::clamp(largest / (2 * ranks), kLeast, kMost) / kLeast * kLeast;
}

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_RECORD_H_
