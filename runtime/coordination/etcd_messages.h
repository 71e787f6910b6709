#pragma once
// Converts messages of etcd v3's JSON gateway: a question becomes a path and a body, a response
// becomes an answer. Keys and values are in base64, 64-bit numbers are strings, and members that
// are zero or empty are left out. Our keys have a prefix, so that clusters can share one etcd.
//
// A response is accepted only if etcd gives it to this very question. Anything else is a fault
// that names the member and what was expected.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/coordination.h"
#include "runtime/tls/login.h"

namespace troupe {

struct EtcdQuestion {
  std::string path, body;
  bool changes = false;  // not idempotent: must not be sent twice
};
// A change that takes place only if this key, too, has the revision (0 = absent).
struct EtcdGuard {
  std::string key;  // without the prefix
  Revision revision = 0;
};
// Encodes a question; a WatchKey as if its wait were over. Leases are rounded up to whole seconds.
// Numbers must be below 2^63. RaiseRevisions is no question to etcd (etcd_history.h).
EtcdQuestion etcd_question(const Coordinate& question, const std::string& prefix,
                           const std::optional<EtcdGuard>& guard = std::nullopt);

struct EtcdAnswer {
  CoordinationReply said;
  std::uint64_t cluster = 0;  // id of the etcd cluster
  Revision revision = 0;      // revision of the whole store
};
struct EtcdFault {
  std::string what;
  bool no_lease = false;  // nothing was done: the lease is unknown or has ended
  bool no_login = false;  // nothing was done: the caller must log in, or log in again
};
std::variant<EtcdAnswer, EtcdFault> etcd_answer(const Coordinate& question, const std::string& prefix,
                                                unsigned status, std::string_view body);

// Encodes a login. The answer is a token, which is sent with each question until etcd has forgotten
// it.
EtcdQuestion etcd_login_question(const Login& login);
std::variant<std::string, EtcdFault> etcd_login_answer(unsigned status, std::string_view body);

std::string to_base64(std::string_view bytes);
bool from_base64(std::string_view text, std::string& bytes);  // false: not base64 with padding

}  // namespace troupe
