// Converts the trace context of a message, which ties the log lines of one request together, to
// its Cap'n Proto form (schema/serving.capnp) and back.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

void put(const TraceContext& m, schema::TraceContext::Builder to) {
  to.setHigh(m.high);
  to.setLow(m.low);
  to.setSpan(m.span);
  to.setSampled(m.sampled);
}
void get(schema::TraceContext::Reader from, TraceContext& m) {
  m.high = from.getHigh();
  m.low = from.getLow();
  m.span = from.getSpan();
  m.sampled = from.getSampled();
}

}  // namespace troupe::codec
