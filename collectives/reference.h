// The definition of every collective, and a backend made of it.
//
// Purpose: plain and slow; what the conformance suite judges all other backends by.
// Thread-safety: RunReference is a function of its arguments; the backend's ranks are threads.
// Ownership: the communicators share their world.
//
//   std::vector<std::unique_ptr<Communicator>> ranks = NewReferenceWorld(4);
//   // thread r: ranks[r]->Run(operation)
#ifndef COLOSSUS_COLLECTIVES_REFERENCE_H_
#define COLOSSUS_COLLECTIVES_REFERENCE_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace colossus {

// Does one collective for all ranks: operations[r] is what rank r issues. REQUIRES: each is valid
// (operation.h) and they match.
void RunReference(absl::Span<const Collective> operations);

// Communicators of ranks 0 .. ranks - 1. Every operation waits for all ranks; the last one to come
// does all the work. Mismatches are errors on all ranks; there is no watchdog.
std::vector<std::unique_ptr<Communicator>> NewReferenceWorld(int ranks);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_REFERENCE_H_
