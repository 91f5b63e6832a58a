// //trainers:plan, see --help.
#include "trainers/lib/answer/plan.h"

#include "trainers/lib/config/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kPlan, argc, argv, colossus::RunPlan);
}
