// //trainers:tokenize, see --help.
#include "trainers/lib/data/tokenize.h"

#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kTokenize, argc, argv, colossus::RunTokenize);
}
