// Cores that this process may use: its affinity, as a launcher or a container has set it.
//
// Thread-safe: asks the system.
//
//   const int spins = ranks * threads <= Cores() ? kSpins : 0;
#ifndef COLOSSUS_BASE_CORES_H_
#define COLOSSUS_BASE_CORES_H_

namespace colossus {

// At least 1.
int Cores();

}  // namespace colossus

#endif  // COLOSSUS_BASE_CORES_H_
