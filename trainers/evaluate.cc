// //trainers:evaluate, see --help.
#include "trainers/lib/answer/evaluate.h"
#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kEvaluate, argc, argv, colossus::RunEvaluate);
}
