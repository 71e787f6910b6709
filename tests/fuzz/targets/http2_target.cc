// Feeds a connection over HTTP/2 to the server's session, whole and in pieces. Requests are answered as
// they end. What is kept must stay within the session's bounds, whatever comes.
#include <algorithm>

#include "server/http2/http2_session.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace server;

// Small limits, so that inputs soon exceed them.
constexpr Http2Limits limits{.streams_max = 4,
                             .head_bytes_max = 256,
                             .fields_max = 12,
                             .heads_bytes_max = 600,
                             .resets_max = 5,
                             .queued_max = 64,
                             .frames = {.burst = 40, .per_second = 10, .header_block_bytes_max = 1'024}};
constexpr std::size_t kept_max = 256 << 10;  // the library's tables and buffers are the most of it

struct Request {
  std::size_t heads = 0, ends = 0, bytes = 0;
  bool over = false, flooded = false;
  bool operator==(const Request&) const = default;
};

void check_head(const Http2Event& event) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : event.fields) bytes += name.size() + value.size();
  TROUPE_CHECK(bytes <= limits.head_bytes_max, "a head beyond its limit was kept");
  TROUPE_CHECK(event.fields.size() <= limits.fields_max, "more fields than the limit were kept");
}

// Answers as a server would: half at once, half in parts with trailers.
void answer(Http2Session& session, Http2StreamId stream) {
  if (stream % 4 == 1) return session.answer(stream, 200, {{"content-type", "text/plain"}}, "answer");
  session.begin_answer(stream, 200, {});
  session.write(stream, "part");
  session.end_answer(stream, {{"grpc-status", "0"}});
}

Request read(std::string_view bytes, std::size_t step) {
  const MemoryWatch memory;
  Http2Session session(limits);
  Request seen;
  for (std::size_t at = 0; at < bytes.size() && !session.is_over(); at += step) {
    session.receive(bytes.substr(at, step), 0);
    for (const Http2Event& event : session.take_events()) {
      if (event.kind == Http2Event::Kind::head) check_head(event), ++seen.heads;
      if (event.kind == Http2Event::Kind::data)
        seen.bytes += event.data.size(), session.consume(event.stream, event.data.size());
      if (event.kind == Http2Event::Kind::end) answer(session, event.stream), ++seen.ends;
    }
    TROUPE_CHECK(session.stream_count() <= limits.streams_max + step / 9, "too many requests are open");
    std::string out;
    session.take_output(out, 64 << 10);
    session.take_events();
  }
  TROUPE_CHECK(seen.bytes <= bytes.size(), "more data came than was sent");
  TROUPE_CHECK(session.held_bytes() <= kept_max, "the session counts more than it may keep");
  TROUPE_CHECK(memory.most() <= kept_max + 4 * bytes.size(), "the session keeps more than it may");
  seen.over = session.is_over(), seen.flooded = session.is_flooded();
  return seen;
}

void run(Input input) {
  const std::size_t step = take_choice(input) % 64 + 1;
  std::string bytes;
  const bool begins = take_choice(input) % 8 != 0;  // mostly a connection that begins well
  if (begins) bytes = http2_preface;
  bytes += text_of(input);
  read(bytes, bytes.size() + 1);
  const Request once = read(bytes, step), again = read(bytes, step);
  TROUPE_CHECK(once == again, "equal bytes have different outcomes");
}

std::string frame(unsigned char type, unsigned char flags, unsigned char stream, const std::string& payload) {
  std::string bytes{'\0',
                    static_cast<char>(payload.size() >> 8),
                    static_cast<char>(payload.size() & 0xff),
                    static_cast<char>(type),
                    static_cast<char>(flags),
                    '\0',
                    '\0',
                    '\0',
                    static_cast<char>(stream)};
  return bytes + payload;
}

std::vector<std::string> seeds() {
  const std::string settings = frame(4, 0, 0, ""), begin = "1" + ("1" + settings);
  // :method POST, :scheme http and :path / are in the static table; then literal fields.
  const std::string head = std::string("\x83\x86\x84", 3) + std::string("\0\1y\1z", 5);
  return {begin + frame(1, 5, 1, head),
          begin + frame(1, 4, 1, head) + frame(0, 0, 1, "some") + frame(0, 1, 1, "more"),
          begin + frame(1, 0, 1, head) + frame(9, 4, 1, head),
          begin + frame(1, 5, 1, head) + frame(1, 5, 3, head) + frame(3, 0, 1, std::string("\0\0\0\x08", 4)),
          begin + frame(6, 0, 0, "12345678") + frame(8, 0, 0, std::string("\0\0\1\0", 4)) +
              frame(2, 0, 1, std::string("\0\0\0\0\x10", 5)) + frame(7, 0, 0, std::string(8, '\0')),
          begin + frame(4, 0, 0, std::string("\0\4\0\0\0\0\0\3\0\0\0\1", 12)) + frame(4, 1, 0, ""),
          begin + frame(1, 4, 1, "\x40\1a\x7f" + std::string(10, 'a')) +
              frame(0, 9, 1, std::string("\2x\0\0", 4)),
          "10GET / HTTP/1.1\r\n\r\n"};
}

}  // namespace

const Target http2_target{"http2", run, seeds, true};

}  // namespace troupe::fuzz
