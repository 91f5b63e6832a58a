// Compares a model with reference values: see trainers/lib/answer/parity.h and --help.
#include "trainers/lib/answer/parity.h"
#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kParity, argc, argv, colossus::RunParity);
}
