// //trainers:convert, see --help.
#include "trainers/lib/convert.h"
#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kConvert, argc, argv, colossus::RunConvert);
}
