// //trainers:tokenize, see --help.
#include "trainers/lib/tokenize.h"

#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kTokenize, argc, argv, colossus::RunTokenize);
}
