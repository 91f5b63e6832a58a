// Compares a model with reference values: see trainers/lib/parity.h and --help.
#include "trainers/lib/main.h"
#include "trainers/lib/parity.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kParity, argc, argv, colossus::RunParity);
}
