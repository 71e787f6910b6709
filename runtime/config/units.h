#pragma once
// Sizes and durations as people write them, for settings and for options of commands. One rule for
// both:
//
//   sizes      a number and a unit: B (or none), K, M, G or T with `i`, `iB`, `B` or nothing. With an
//              `i` the unit is a power of 1024, without it a power of 1000, as in Kubernetes:
//              16Gi = 16GiB, 16G = 16GB. Capital and small letters are the same.
//   durations  numbers, each with a unit: us, ms, s, m or min, h, d. Parts are added: 1h30m.
//
// A number may have a fraction, and a blank may stand before its unit.
#include <optional>
#include <string_view>

namespace troupe {

inline constexpr std::string_view size_forms = "such as 512MiB, 16Gi or 16GB";
inline constexpr std::string_view duration_forms = "such as 200ms, 10s, 5min or 1h30min";

std::optional<double> parse_size(std::string_view text);         // bytes; nullopt = not a size
std::optional<double> parse_duration_us(std::string_view text);  // microseconds; nullopt = not a duration

}  // namespace troupe
