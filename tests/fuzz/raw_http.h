#pragma once
// HTTP as bytes: sends a client's bytes unchanged, reads the answer, and checks that it is a sequence of
// well-formed responses. Shares no code with the server that it tests.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::fuzz {

struct Response {
  unsigned status = 0;
  std::string type, body;
};

// Returns all that the server answers on a new connection until it closes. Throws std::runtime_error if
// it neither answers nor closes for a long time.
std::string exchange(std::uint16_t port, std::string_view bytes);

struct Responses {
  std::vector<Response> list;  // without the interim ones (1xx)
  std::string fault;           // what is malformed; empty = nothing
};
// `first_is_head`: the first response has a length but no body.
Responses parse_responses(std::string_view bytes, bool first_is_head);

}  // namespace troupe::fuzz
