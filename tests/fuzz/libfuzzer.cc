// The linked target under libFuzzer (--config=fuzz); seeds by NAME_fuzz --write_seeds=DIR.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const colossus::FuzzTarget& target = colossus::Target();
  std::string input(reinterpret_cast<const char*>(data), size);
  // An input with an odd first byte is repaired; both kinds are of use.
  if (target.repair != nullptr && size > 0 && data[0] % 2 == 1) target.repair(input);
  target.run(input);
  return 0;
}
