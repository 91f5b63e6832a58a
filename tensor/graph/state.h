// StateInfo: the global identity of a tensor that outlives a step.
//
// Purpose: parameters, optimizer state, accumulators and caches enter and leave a graph as paired
// values that are updated in place. What reductions, norms, decay, saving and memory estimates need
// to know about such a tensor stands in this record, never in its name or its local buffer.
// Thread-safety: plain values. Ownership: owns its strings.
//
//   StateInfo w;
//   w.name = "transformer.h.0.attn.c_attn.weight";
//   w.role = Role::kParameter;
//   w.global_dims = {32, 3, 4, 8};      // c k h d, as the graph uses it
//   w.disk_dims = {32, 96};             // c (k h d), as the file has it
//   w.axes = {"embed", "qkv", "heads", "head_dim"};
#ifndef COLOSSUS_TENSOR_GRAPH_STATE_H_
#define COLOSSUS_TENSOR_GRAPH_STATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/types.h"

namespace colossus {

enum class Role : uint8_t {
  kParameter,    // what the forward graph reads, in compute precision
  kMaster,       // fp32 value of a parameter whose compute copy is narrower
  kMoment1,      // first moment, or the momentum of SGD
  kMoment2,      // second moment
  kAccumulator,  // fp32 sum of micro-batch gradients
  kCache,        // keys or values kept while decoding
  kBuffer,       // saved with the model, never trained
};
absl::string_view Name(Role role);
absl::StatusOr<Role> ParseRole(absl::string_view name);

// How a parameter starts when no file gives it. Values are a function of (seed, tensor name, global
// element), so they do not depend on any layout.
struct Initializer {
  enum class Kind : uint8_t { kNone, kConstant, kNormal };
  Kind kind = Kind::kNone;
  double value = 0;  // the constant, or the standard deviation of a normal around 0

  static Initializer Constant(double value) { return {Kind::kConstant, value}; }
  static Initializer Normal(double deviation) { return {Kind::kNormal, deviation}; }
  friend bool operator==(const Initializer& a, const Initializer& b) {
    return a.kind == b.kind && a.value == b.value;
  }
};

// One logical axis name per dim ("embed", "heads", "mlp", "vocab", ...; "" = never sharded).
using LogicalAxes = std::vector<std::string>;

struct StateInfo {
  std::string name;        // unique in the model; for a parameter the canonical name on disk
  Role role = Role::kParameter;
  Dims global_dims;        // as the graph uses it, whole model
  Dims disk_dims;          // as the file has it; same elements in the same order
  LogicalAxes axes;        // of global_dims
  bool trainable = true;   // false: frozen; no gradient, no optimizer state
  bool decayed = false;    // weight decay applies
  std::string tied_to;     // name of the owner if this is a second name of another parameter
  Initializer init;
};

// A state in a graph: `in` is its value at the start, `out` at the end. out == in: read only.
struct State {
  StateInfo info;
  ValueId in = kNoValue;
  ValueId out = kNoValue;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_STATE_H_
