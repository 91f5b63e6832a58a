// HeapCounter: bytes of heap that this process holds, and held at most.
//
// Purpose: tests of what code takes beside buffers that are planned, to the byte and on any
// machine. A test that links this library has its malloc and its kin counted, in all threads;
// mappings are not heap.
// Thread-safety: all functions. Ownership: none.
//
//   const int64_t before = HeapBytes();
//   ResetHeapPeak();
//   Save();
//   if (HeapIsCounted()) EXPECT_LE(HeapPeak() - before, 1 << 20);
#ifndef COLOSSUS_BASE_TESTING_HEAP_COUNTER_H_
#define COLOSSUS_BASE_TESTING_HEAP_COUNTER_H_

#include <cstdint>

namespace colossus {

// Not under sanitizers, which have a malloc of their own: all figures are 0 there.
bool HeapIsCounted();

int64_t HeapBytes();
int64_t HeapPeak();    // since the process began, or ResetHeapPeak
void ResetHeapPeak();  // to HeapBytes()

}  // namespace colossus

#endif  // COLOSSUS_BASE_TESTING_HEAP_COUNTER_H_
