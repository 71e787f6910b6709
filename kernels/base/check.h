#pragma once
// A violated invariant is a bug, and a bug stops the process: TROUPE_CHECK is on in release builds
// too. Never use it on input from outside: such input gets an error value or, at an edge, an
// exception.
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace troupe::kernels {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      std::string_view message) {
  std::fprintf(stderr, "%s:%d: %.*s (violated: %s)\n", file, line, static_cast<int>(message.size()),
               message.data(), condition);
  std::abort();
}

}  // namespace troupe::kernels

#define TROUPE_CHECK(condition, message) \
  ((condition) ? void() : ::troupe::kernels::check_failed(__FILE__, __LINE__, #condition, (message)))
