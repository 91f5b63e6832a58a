// Goes on from a prompt: see trainers/lib/answer/generate.h and --help.
#include "trainers/lib/answer/generate.h"
#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kGenerate, argc, argv, colossus::RunGenerate);
}
