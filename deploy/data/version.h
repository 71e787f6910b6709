#pragma once
// Version and commit of this program, set at build time (cmake/commit.cmake). Results record the
// commit: a run can be repeated only with its seed and its commit.
#include <string_view>

namespace troupe::deploy {

std::string_view version();  // such as "0.1.0"

// Abbreviated commit or its tag, with "-dirty" appended if files under version control had changed
// at build time; "unknown" outside a checkout.
std::string_view commit();

}  // namespace troupe::deploy
