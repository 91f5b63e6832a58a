// Passes and the pipeline that runs them.
//
// Purpose: a pass is a noun with one public function, old graph in, new graph and value map out
// (tensor/graph/rewriter.h); dead_code.h is the smallest, to copy. The pipeline runs named passes
// in the order its caller wrote, where the reasons for that order stand too, and can verify, time,
// dump and skip each by name.
// Thread-safety: none; one thread. Ownership: holds the passes' functions; graphs are the caller's.
//
//   PassPipeline pipeline;
//   pipeline.Add("common_subexpressions", CommonSubexpressions);   // before any deliberate clone
//   pipeline.Add("dead_code", DeadCode);
//   ASSIGN_OR_RETURN(Rewritten result, pipeline.Run(graph, {.dump_folder = "dumps"}));
#ifndef COLOSSUS_TENSOR_PASSES_PASS_H_
#define COLOSSUS_TENSOR_PASSES_PASS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/file_system.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

using Pass = std::function<absl::StatusOr<Rewritten>(const Graph&)>;

struct PassOptions {
  // Verify the first graph and the one after each pass, so that the guilty pass is named.
  bool verify = true;
  std::vector<std::string> skip = {};  // names of passes not to run; unknown ones are refused
  std::string dump_folder = {};        // empty: no dumps; else made if missing
  std::string dump_prefix = {};        // of the file names: a graph's name, a stage
  FileSystem* file_system = nullptr;  // for dumps; nullptr: the real one
  Clock* clock = nullptr;             // nullptr: the real one
};

// What happened to one pass.
struct PassReport {
  std::string name;
  bool skipped = false;
  bool changed = false;  // the graph's text before and after differ
  double seconds = 0;    // of the pass itself, without verifier and dumps
};

class PassPipeline {
 public:
  // REQUIRES: no pass of that name yet.
  void Add(absl::string_view name, Pass pass);

  // Runs the passes in order. The value map leads from the given graph to the last one. Dumps are
  // PREFIX00_input.txt, PREFIX01_dead_code.txt, ... Error: the pass's or the verifier's, with the
  // pass named; InvalidArgument for an unknown name in `skip`; the file system's.
  absl::StatusOr<Rewritten> Run(const Graph& graph, const PassOptions& options = {});

  // Of the last Run, one per pass it came to.
  const std::vector<PassReport>& reports() const { return reports_; }

 private:
  std::vector<std::pair<std::string, Pass>> passes_;
  std::vector<PassReport> reports_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_PASS_H_
