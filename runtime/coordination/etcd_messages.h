#pragma once
// What is said to etcd v3 over its JSON gateway, from text to text: a question becomes a path and a body, a
// response becomes an answer. Keys and values travel in base64, 64-bit numbers as strings, and members that
// are zero or empty are left out. Our keys stand behind a prefix, so that clusters can share one etcd.
//
// A response is taken only if it is what etcd says to this very question. Anything else, from whomever it
// comes, is a fault that names the member and what was expected.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/coordination.h"
#include "runtime/tls/login.h"

namespace troupe {

struct EtcdQuestion {
  std::string path, body;
  bool changes = false;  // asked twice it may do something twice
};
// A WatchKey as if its wait were over. A lease is rounded up to whole seconds. Numbers are below 2^63.
EtcdQuestion etcd_question(const Coordinate& question, const std::string& prefix);

struct EtcdAnswer {
  Coordinated said;
  std::uint64_t cluster = 0;  // whose etcd this is
  Revision revision = 0;      // of its whole store
};
struct EtcdFault {
  std::string what;
  bool no_lease = false;  // nothing was done, since the lease is unknown or has ended
  bool no_login = false;  // nothing was done: who asks has to say who he is, or again
};
std::variant<EtcdAnswer, EtcdFault> etcd_answer(const Coordinate& question, const std::string& prefix,
                                                unsigned status, std::string_view body);

// Who asks. Answered with a token, which goes with each question until etcd has forgotten it.
EtcdQuestion etcd_login_question(const Login& login);
std::variant<std::string, EtcdFault> etcd_login_answer(unsigned status, std::string_view body);

std::string to_base64(std::string_view bytes);
bool from_base64(std::string_view text, std::string& bytes);  // false: that is none; with its padding

}  // namespace troupe
