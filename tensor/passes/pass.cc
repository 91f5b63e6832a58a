#include "tensor/passes/pass.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"

namespace colossus {
namespace {

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Writes the text of the graph after pass number `index`.
absl::Status Dump(const PassOptions& options, size_t index, absl::string_view name,
                  absl::string_view text) {
  if (options.dump_folder.empty()) return absl::OkStatus();
  FileSystem& files = options.file_system ? *options.file_system : RealFileSystem();
  RETURN_IF_ERROR(files.MakeDirs(options.dump_folder));
  std::string file = absl::StrFormat("%s%02d_%s.txt", options.dump_prefix, index, name);
  return files.WriteFileAtomically(JoinPath(options.dump_folder, file), text);
}

// A graph that is its own rewriting.
absl::StatusOr<Rewritten> Copy(const Graph& graph) {
  GraphRewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) rewriter.Keep(static_cast<NodeId>(n));
  return std::move(rewriter).Finish();
}

// Follows `first` (old -> middle) by `second` (middle -> new).
ValueIds Compose(const ValueIds& first, const ValueIds& second) {
  ValueIds map;
  for (ValueId v : first) map.push_back(v == kNoValue ? kNoValue : second[v]);
  return map;
}

}  // namespace

void PassPipeline::Add(absl::string_view name, Pass pass) {
  for (const auto& present : passes_) CHECK(present.first != name) << name << " stands twice";
  passes_.emplace_back(std::string(name), std::move(pass));
}

absl::StatusOr<Rewritten> PassPipeline::Run(const Graph& graph, const PassOptions& options) {
  std::vector<std::string> names;
  for (const auto& pass : passes_) names.push_back(pass.first);
  for (const std::string& skip : options.skip) {
    if (Contains(names, skip)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no pass '", skip, "' to skip; passes: ", absl::StrJoin(names, ", ")));
  }
  reports_.clear();
  RealClock real_clock;
  Clock& clock = options.clock ? *options.clock : real_clock;
  if (options.verify) RETURN_IF_ERROR(Annotate(Verify(graph), "before the first pass"));
  std::string text = ToText(graph);
  RETURN_IF_ERROR(Dump(options, 0, "input", text));
  ASSIGN_OR_RETURN(Rewritten current, Copy(graph));
  for (size_t i = 0; i < passes_.size(); ++i) {
    const std::string& name = passes_[i].first;
    PassReport& report = reports_.emplace_back();
    report.name = name;
    report.skipped = Contains(options.skip, name);
    if (report.skipped) continue;
    double start = clock.Seconds();
    absl::StatusOr<Rewritten> next = passes_[i].second(current.graph);
    report.seconds = clock.Seconds() - start;
    if (!next.ok()) return Annotate(next.status(), absl::StrCat("pass ", name));
    std::string next_text = ToText(next->graph);
    report.changed = next_text != text;
    text = std::move(next_text);
    RETURN_IF_ERROR(Dump(options, i + 1, name, text));
    if (options.verify) {
      RETURN_IF_ERROR(Annotate(Verify(next->graph), absl::StrCat("after pass ", name)));
    }
    current = {std::move(next->graph), Compose(current.value_map, next->value_map)};
  }
  return current;
}

}  // namespace colossus
