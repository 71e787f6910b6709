#pragma once
// HTTP as bytes: sends a client's bytes as they are, takes what comes back, and says whether that is a
// sequence of well-formed responses. Shares no code with the door that it tests.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::fuzz {

struct Response {
  unsigned status = 0;
  std::string type, body;
};

// All that the server answers on a connection of its own until it closes. Throws std::runtime_error if it
// neither answers nor closes for a long time.
std::string exchange(std::uint16_t port, std::string_view bytes);

struct Responses {
  std::vector<Response> list;  // without the interim ones (1xx)
  std::string fault;           // what is not well-formed; empty if all is
};
// `first_is_head`: the first response has a length but no body.
Responses parse_responses(std::string_view bytes, bool first_is_head);

}  // namespace troupe::fuzz
