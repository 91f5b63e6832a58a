// Which tensor of a file is which parameter of a model.
//
// Purpose: files of one model are found under several name prefixes (wrapping classes add them,
// bare base models leave them out), carry buffers nobody needs, and hold tied weights under either
// name. This decides, before anything is read, where each parameter's values come from.
// Thread-safety: plain functions.
//
//   ASSIGN_OR_RETURN(NameMatch match, MatchNames(parameters, file_names));
//   match.source["model.norm.weight"];        // "module.model.norm.weight"
#ifndef COLOSSUS_SHARDFORMER_WEIGHT_NAMES_H_
#define COLOSSUS_SHARDFORMER_WEIGHT_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

struct NameMatch {
  std::map<std::string, std::string> source;  // canonical name → name in the file
  std::vector<std::string> missing;           // canonical names, in the given order
  std::vector<std::string> unexpected;        // names in the file
  std::vector<std::string> ignored;           // buffers: rotary tables, masks, position ids
};

// A name without the prefixes that wrapping classes and base models add ("module.", "_orig_mod.",
// "model.", "transformer.", in any order and number).
absl::string_view CoreName(absl::string_view name);

// Buffers that other libraries save and nobody reads.
bool IsIgnoredBuffer(absl::string_view name);

// `canonical`: parameter names, whose cores are unique. Error: InvalidArgument if two names of the
// file mean one parameter.
absl::StatusOr<NameMatch> MatchNames(const std::vector<std::string>& canonical,
                                     const std::vector<std::string>& file_names);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_WEIGHT_NAMES_H_
