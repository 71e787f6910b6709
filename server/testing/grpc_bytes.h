#pragma once
// Messages of Protocol Buffers by hand, for tests of gRPC: well-formed ones and others.
#include <cstdint>
#include <string>

namespace troupe::server::grpc_test {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value /= 128) bytes += static_cast<char>(value % 128 + 128);
  return bytes + static_cast<char>(value);
}
inline std::string text_field(int number, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(value.size()) + value;
}
inline std::string number_field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}
inline std::string ranking(const std::string& user = "ana", int candidates = 1) {
  std::string bytes = text_field(1, user);
  for (int i = 0; i < candidates; ++i) bytes += text_field(2, "c" + std::to_string(i));
  return bytes;
}

inline const std::string rank = "/troupe.v1.Troupe/Rank", score = "/troupe.v1.Troupe/Score",
                         generate = "/troupe.v1.Troupe/Generate", health = "/grpc.health.v1.Health/Check",
                         reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

}  // namespace troupe::server::grpc_test
