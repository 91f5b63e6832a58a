// Text generated from the schema table: --help and docs/configuration.md.
//
// Thread-safe: functions of constant tables.
//
//   std::cout << HelpText(Trainer::kPretrain);
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_HELP_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_HELP_H_

#include <string>

#include "trainers/lib/config/schema.h"

namespace colossus {

// What --help prints: each flag of the trainer with type, default and meaning, 100 columns.
std::string HelpText(Trainer trainer);

// The whole of docs/configuration.md: every key of every trainer, presets, and how layers combine.
std::string ConfigurationPage();

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_HELP_H_
