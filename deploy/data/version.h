#pragma once
// Which Troupe this program is. Results are worth keeping only with the commit that made them: a seed is the
// whole recipe of a run together with it. The answers are written at build time (cmake/commit.cmake).
#include <string_view>

namespace troupe::deploy {

std::string_view version();  // "0.1.0"

// The abbreviated commit, or its tag; "-dirty" follows if files under version control had changed when it was
// built. "unknown" outside a checkout.
std::string_view commit();

}  // namespace troupe::deploy
