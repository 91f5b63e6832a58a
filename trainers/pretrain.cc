// //trainers:pretrain, see --help.
#include "trainers/lib/train.h"
#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kPretrain, argc, argv, colossus::RunPretrain);
}
