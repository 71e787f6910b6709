#pragma once
// Numbers of refusal kinds in the Cap'n Proto form of a Refusal (schema/serving.capnp). They are HTTP
// statuses, because earlier builds sent those. The numbers are fixed: processes of other builds read
// and send them during an upgrade.
#include <cstdint>

#include "runtime/actor/refusal.h"

namespace troupe::codec {

std::uint16_t wire_number(RefusalKind kind);
// An unknown number of another build is read by its hundred: 4xx = malformed, else internal.
RefusalKind kind_of_wire_number(std::uint16_t number);

}  // namespace troupe::codec
