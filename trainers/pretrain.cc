// //trainers:pretrain, see --help.
#include "trainers/lib/run/train.h"
#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kPretrain, argc, argv, colossus::RunPretrain);
}
