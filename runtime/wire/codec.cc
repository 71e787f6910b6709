// Encodes each message between actors to bytes and decodes it, as one Cap'n Proto envelope.
#include "runtime/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

#include "runtime/profiling/cpu_components.h"
#include "runtime/wire/codec_fields.h"
#include "runtime/wire/codec_scratch.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

// Collects the written bytes in memory that is not zeroed before.
class AppendingStream final : public kj::OutputStream {
 public:
  explicit AppendingStream(std::size_t size) { bytes_.reserve(size); }
  void write(const void* bytes, std::size_t size) override {
    const auto* begin = static_cast<const std::uint8_t*>(bytes);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  Bytes bytes() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

Envelope read_envelope(kj::ArrayPtr<const capnp::word> words) {
  // Every word is read once, so a message that costs more than its own size is an attack.
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words.size() + 8;
  options.nestingLimit = 16;
  capnp::FlatArrayMessageReader reader(words, options);
  KJ_REQUIRE(reader.getEnd() == words.end(), "bytes after the end of the message");
  const auto from = reader.getRoot<schema::Envelope>();
  Envelope out;
  out.from.node = from.getFromNode();
  codec::get(from.getFromRole(), out.from.role);
  codec::get_message(from, out.message);
  return out;
}

}  // namespace

Bytes encode(const Envelope& envelope) {
  const CpuScope codec(CpuComponent::codec);
  static thread_local codec::MessageScratch scratch;
  for (;;) {
    capnp::MallocMessageBuilder builder{scratch.segment()};
    auto to = builder.initRoot<schema::Envelope>();
    to.setFromNode(envelope.from.node);
    to.setFromRole(codec::wire<schema::Role>(envelope.from.role));
    codec::put_message(envelope.message, to);
    const std::size_t words = capnp::computeSerializedSizeInWords(builder);
    if (!scratch.record_size(words)) continue;
    AppendingStream out(words * sizeof(capnp::word));
    capnp::writeMessage(out, builder);
    return std::move(out).bytes();
  }
}

std::variant<Envelope, std::string> decode(std::span<const std::uint8_t> bytes) {
  const CpuScope codec(CpuComponent::codec);
  constexpr std::size_t word = sizeof(capnp::word);
  if (bytes.empty() || bytes.size() % word != 0)
    return "envelope: " + std::to_string(bytes.size()) + " bytes; expected a multiple of 8";
  auto words = kj::heapArray<capnp::word>(bytes.size() / word);
  std::memcpy(words.asBytes().begin(), bytes.data(), bytes.size());
  try {
    return read_envelope(words);
  } catch (const kj::Exception& e) {
    // the text may contain the invalid byte
    return printable(std::string("envelope: ") + e.getDescription().cStr());
  }
}

}  // namespace troupe
