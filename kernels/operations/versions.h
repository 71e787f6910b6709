#pragma once
// Chooses from a kernel's table of versions. A table is ordered from the fastest version to the
// reference, which ends it and is always usable.
#include <algorithm>
#include <span>
#include <string_view>

namespace troupe::kernels {

// Returns the first version that this CPU can run. `Version` has a member `usable`.
template <class Version>
const Version& first_usable(std::span<const Version> versions) {
  const Version* version = versions.data();
  while (!version->usable) ++version;
  return *version;
}

// Returns the version for the same instruction set as one of this name in another table. A kernel
// without one for AVX512_BF16 has the one for AVX-512.
template <class Version>
const Version& version_named(std::span<const Version> versions, std::string_view name) {
  const auto found = std::ranges::find(versions, name, &Version::name);
  if (found != versions.end()) return *found;
  return name == "avx512_bf16" ? version_named(versions, "avx512") : versions.back();
}

}  // namespace troupe::kernels
