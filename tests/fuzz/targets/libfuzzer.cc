// Runs one target under libFuzzer; TROUPE_FUZZ_TARGET names its variable.
#include "tests/fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  troupe::fuzz::TROUPE_FUZZ_TARGET.run({data, size});
  return 0;
}
