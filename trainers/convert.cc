// //trainers:convert, see --help.
#include "trainers/lib/answer/convert.h"
#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kConvert, argc, argv, colossus::RunConvert);
}
