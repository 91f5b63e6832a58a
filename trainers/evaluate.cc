// //trainers:evaluate, see --help.
#include "trainers/lib/evaluate.h"
#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kEvaluate, argc, argv, colossus::RunEvaluate);
}
