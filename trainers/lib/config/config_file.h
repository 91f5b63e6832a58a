// The file layer: a TOML file into assignments of the schema's keys.
//
// Thread-safe: functions of their arguments. No TOML type leaves this header's .cc.
//
//   ASSIGN_OR_RETURN(std::vector<Assignment> values, ParseConfigFile("run.toml", text));
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_FILE_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/lib/config/assignment.h"

namespace colossus {

// `text` is the content of the file `path`, which messages name. Keys stand in the tables of their
// section; the table [extra] may hold anything and is skipped. InvalidArgument lists every fault
// with its line: TOML that does not parse or gives a key twice, unknown sections and keys with the
// nearest ones, and values of another type. Ranges are checked when layers are merged.
absl::StatusOr<std::vector<Assignment>> ParseConfigFile(absl::string_view path,
                                                        absl::string_view text);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_FILE_H_
