// schema/serving.capnp: the trace context of a message.
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
