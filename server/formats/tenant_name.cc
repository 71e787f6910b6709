// Checks the name of a tenant as requests give it.
#include "server/formats/tenant_name.h"

#include "runtime/actor/utf8.h"

namespace troupe::server {

std::optional<Refusal> find_tenant_fault(std::string_view name, const char* where) {
  while (!name.empty()) {
    const std::size_t length = utf8_length(name);
    if (length == 0 || is_control(name.substr(0, length)))
      return Refusal{
          RefusalKind::malformed, "bad_tenant",
          length == 0 ? "the tenant's name is no UTF-8" : "the tenant's name has a control character", where,
          "a name in UTF-8 without control characters"};
    name.remove_prefix(length);
  }
  return std::nullopt;
}

}  // namespace troupe::server
