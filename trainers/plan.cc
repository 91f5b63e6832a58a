// //trainers:plan, see --help.
#include "trainers/lib/plan.h"

#include "trainers/lib/main.h"

int main(int argc, char** argv) {
  return colossus::RunTrainer(colossus::Trainer::kPlan, argc, argv, colossus::RunPlan);
}
