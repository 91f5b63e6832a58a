// Goes on from a prompt: see trainers/lib/generate.h and --help.
#include "trainers/lib/generate.h"
#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kGenerate, argc, argv, colossus::RunGenerate);
}
