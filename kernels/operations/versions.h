#pragma once
// Chooses from a kernel's table of versions. A table is ordered from the fastest version to the
// reference, which ends it and is always usable.
#include <span>

namespace troupe::kernels {

// Returns the first version that this CPU can run. `Version` has a member `usable`.
template <class Version>
const Version& first_usable(std::span<const Version> versions) {
  const Version* version = versions.data();
  while (!version->usable) ++version;
  return *version;
}

}  // namespace troupe::kernels
