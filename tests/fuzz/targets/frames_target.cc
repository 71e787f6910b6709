// Parses the frames of a link as a connection reads them: header, sum, body, seal. Joins have one form.
#include <algorithm>
#include <cstring>

#include "runtime/network/cluster.h"
#include "runtime/network/link_wire.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace link;

void check_join(Input body) {
  const MemoryWatch memory;
  const auto decoded = decode_join(body);
  TROUPE_CHECK(memory.most() <= 2 * body.size() + 1'024, "a join takes more than it brings");
  if (const auto* fault = std::get_if<std::string>(&decoded)) return check_words(*fault, 256);
  const Join& join = std::get<Join>(decoded);
  TROUPE_CHECK(join.greeting.size() <= greeting_bytes_max, "a greeting beyond its bound");
  const auto again = decode_join(encode(join));
  TROUPE_CHECK(std::holds_alternative<Join>(again) && std::get<Join>(again) == join,
               "a join changes on its way");
}

// A damaged header is detected by its sum; an accepted header is what we would write.
void check_header(const Header& header, const Frame& frame) {
  if (!is_whole(header)) return;
  Header ours = encode(frame);
  TROUPE_CHECK(ours == header, "a header has two forms");
  TROUPE_CHECK(frame.bytes <= message_bytes_max, "a frame beyond the largest message");
}

void check_cargo(const Header& header, Input body) {
  Bytes cargo(body.begin(), body.end());
  if (const std::string fault = remove_seal(header, cargo); !fault.empty()) return check_words(fault, 256);
  const Seal right = seal(header, cargo);
  TROUPE_CHECK(cargo.size() + seal_bytes == body.size(), "more than the seal was taken off");
  TROUPE_CHECK(std::equal(right.begin(), right.end(), body.end() - seal_bytes), "a wrong seal was believed");
}

// Returns false if the connection would be closed here.
bool take_frame(Input& input, bool joined) {
  if (input.size() < header_bytes) return false;
  Header header;
  std::memcpy(header.data(), input.data(), header_bytes);
  const auto decoded = decode_header(header, joined);
  if (const auto* fault = std::get_if<std::string>(&decoded)) return check_words(*fault, 256), false;
  const Frame& frame = std::get<Frame>(decoded);
  check_header(header, frame);
  const Input body =
      input.subspan(header_bytes).first(std::min<std::size_t>(frame.bytes, input.size() - header_bytes));
  if (frame.kind == Kind::join) check_join(body);
  if (frame.kind == Kind::cargo) check_cargo(header, body);
  input = input.subspan(header_bytes + body.size());
  return true;
}

// Sums can hardly be guessed: on request those of a join and of a message are corrected.
Bytes resealed(Input input) {
  Bytes bytes(input.begin(), input.end());
  if (bytes.size() < header_bytes + seal_bytes) return bytes;
  Frame frame{Kind::cargo,
              {bytes[8], static_cast<Role>(bytes[5] % 6)},
              static_cast<std::uint32_t>(bytes.size() - header_bytes)};
  const Header header = encode(frame);
  std::copy(header.begin(), header.end(), bytes.begin());
  const auto envelope = Input(bytes).subspan(header_bytes).first(frame.bytes - seal_bytes);
  const Seal right = seal(header, envelope);
  std::copy(right.begin(), right.end(), bytes.end() - seal_bytes);
  return bytes;
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  if (choice == 'j') return check_join(input);
  const Bytes sealed = choice == 's' ? resealed(input) : Bytes();
  if (choice == 's') input = sealed;
  for (bool joined = choice == 's' || choice % 2 == 1; take_frame(input, joined);) joined = true;
}

std::string framed(Kind kind, const Bytes& body) {
  const Header header = encode(Frame{kind, {3, Role::router}, static_cast<std::uint32_t>(body.size())});
  return std::string(header.begin(), header.end()) + std::string(body.begin(), body.end());
}

std::vector<std::string> seeds() {
  const Bytes join = encode(Join{.node = 1,
                                 .wanted = 2,
                                 .incarnation = 7,
                                 .cluster = "blue",
                                 .greeting = {1, 2, 3},
                                 .supports_seals = true});
  const std::string join_text(join.begin(), join.end());
  const Bytes words{'n', 'o'}, cargo(24, 5);
  return {"0" + framed(Kind::join, join) + framed(Kind::ping, {}) + framed(Kind::cargo, cargo),
          "0" + framed(Kind::rejection, words),
          "1" + framed(Kind::ping, {}),
          "j" + join_text,
          "j" + join_text.substr(0, join_text.size() - 9),
          "s" + framed(Kind::cargo, cargo)};
}

}  // namespace

const Target frames_target{"frames", run, seeds, true};

}  // namespace troupe::fuzz
