// Inject: a value that is not finite, put into a run on purpose.
//
// Thread-safety: one thread; each rank has hooks of its own. Ownership: hooks own what they need.
//
//   TinyResult result = run.Train(flags, RealFileSystem(), InjectAt({6}, "h.1"));
#ifndef COLOSSUS_TRAINERS_LIB_TESTING_INJECT_H_
#define COLOSSUS_TRAINERS_LIB_TESTING_INJECT_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "tensor/exec/program.h"
#include "trainers/lib/run/train.h"

namespace colossus {

// An observer that puts an infinity into the first float result of a block in one micro-batch.
std::unique_ptr<StepObserver> Inject(Program& program, const std::string& block,
                                     int micro_batch = 0);

// Hooks that put an infinity into the first float result of a block in one micro-batch, in these
// steps, whenever they are computed.
TrainHooks InjectAt(const std::set<int64_t>& steps, const std::string& block, int micro_batch = 0);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_TESTING_INJECT_H_
