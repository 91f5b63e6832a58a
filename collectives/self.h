// SelfCommunicator: the group of one rank.
//
// Purpose: one-rank runs take the same path as many-rank runs; nothing waits, nothing is counted.
// Thread-safe. Owns nothing.
//
//   std::unique_ptr<Communicator> alone = NewSelfCommunicator();
#ifndef COLOSSUS_COLLECTIVES_SELF_H_
#define COLOSSUS_COLLECTIVES_SELF_H_

#include <memory>

#include "collectives/communicator.h"

namespace colossus {

std::unique_ptr<Communicator> NewSelfCommunicator();

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_SELF_H_
