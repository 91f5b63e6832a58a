// CompileOptions: how a program is compiled, apart from what it computes; and what all of
// compilation shares: dumps and fusion.
//
// Thread-safety: plain values and functions.
//
//   RETURN_IF_ERROR(DumpText(options, "train.rank", ToText(graph)));
//   ASSIGN_OR_RETURN(Segment fused, FusedSegment(std::move(segment), "train", options, device));
#ifndef COLOSSUS_PARALLEL_COMPILE_OPTIONS_H_
#define COLOSSUS_PARALLEL_COMPILE_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/segment.h"

namespace colossus {

struct CompileOptions {
  ProgramOptions program;
  // Graph text after each pass, and the memory plan, are written into this folder, those of rank 3
  // of several into "rank-3" there; empty: not.
  std::string dump_graphs;
  // Off only to find out who is to blame for a number: it changes no bit, only time.
  bool fusion = true;
};

// Writes "<name>.txt" into options.dump_graphs, if there is such a folder.
absl::Status DumpText(const CompileOptions& options, const std::string& name,
                      const std::string& text);

// Last of all, inside a segment:
//  - after autodiff and recomputation, which look at single ops: a chain has no gradient, and a
//    clone of one would remake more than is needed;
//  - after the micro-batch variants, so that what they add (rounding, the sum so far) joins too;
//  - after the cut: what crosses a border is then an output, so no chain holds nodes of two
//    segments, and a segment means the same with fusion and without.
// A device without a kernel for one of its chains runs a segment op by op.
absl::StatusOr<Segment> FusedSegment(Segment segment, const std::string& name,
                                     const CompileOptions& options, const Device& device);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_COMPILE_OPTIONS_H_
