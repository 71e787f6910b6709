// Decodes envelopes between processes. A decoded message has one form: encoding it gives bytes that
// decode to the same message, and encode to the same bytes again (compared as bytes, because a score may
// be NaN).
#include "runtime/testing/random_message_test.h"
#include "runtime/wire/codec.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

void run(Input input) {
  const MemoryWatch memory;
  const auto decoded = decode(input);
  TROUPE_CHECK(memory.most() <= 20 * input.size() + 4'096, "decoding took more than codec.h says");
  if (const auto* fault = std::get_if<std::string>(&decoded)) {
    TROUPE_CHECK(fault->starts_with("envelope: "), "a fault of something else");
    return check_words(*fault, 1'024);
  }
  const Bytes bytes = encode(std::get<Envelope>(decoded));
  const auto again = decode(bytes);
  TROUPE_CHECK(std::holds_alternative<Envelope>(again), "our own bytes are refused");
  TROUPE_CHECK(encode(std::get<Envelope>(again)) == bytes, "a message has two forms");
}

// Messages of every kind, with every member set.
std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (std::size_t kind = 0; kind < std::variant_size_v<AnyMessage>; ++kind) {
    const Bytes bytes = encode(RandomMessage(kind + 1).envelope(kind));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace

const Target codec_target{"codec", run, seeds, true};

}  // namespace troupe::fuzz
