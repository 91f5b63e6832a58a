// One "key = value" of a layer, before layers are merged.
//
// Thread-safe: a value type.
//
//   Assignment a = {FindKey("run.steps"), "100", "run.toml:7"};
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_ASSIGNMENT_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_ASSIGNMENT_H_

#include <string>

#include "trainers/lib/config/schema.h"

namespace colossus {

struct Assignment {
  const Key* key;     // never null
  std::string text;   // the value as a flag would give it
  std::string place;  // for messages: "run.toml:7", "--steps", "--set run.steps"
  bool if_it_counts = false;  // ignored, not refused, where the key has no effect
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_ASSIGNMENT_H_
