#pragma once
// The server's side of one HTTP/2 connection (RFC 9113), over nghttp2: it is fed the client's bytes,
// reports requests as events, and gives the bytes to send. Pure: no sockets and no clocks, so
// hostile bytes are tested without them.
//
// Everything that a client can make it keep has a bound: open requests, the fields of one request
// and of all open ones, header blocks, received bytes that are not consumed yet, and frames that
// wait to be sent. So has the work on the fields of one request: a reference of one byte to the table
// of HPACK decodes to thousands. A client that floods it, or that resets more requests than it lets
// finish, is disconnected (GOAWAY with ENHANCE_YOUR_CALM).
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http2/frame_meter.h"

namespace troupe::server {

using Http2StreamId = std::int32_t;
using Http2Fields = std::vector<std::pair<std::string, std::string>>;  // lower-case name, value

// First bytes of a client's connection.
inline constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct Http2Limits {
  std::uint32_t streams_max = 64;             // open requests
  std::uint32_t head_bytes_max = 8 << 10;     // names and values of one request
  std::uint32_t fields_max = 100;             // of one request
  std::uint32_t heads_bytes_max = 128 << 10;  // of all open requests, until release_head()
  std::uint32_t resets_max = 100;             // requests that end early, beyond those that are answered
  std::uint32_t queued_max = 2'000;           // frames that wait to be sent
  std::uint32_t window_bytes = 65'535;        // of a body that the client may send before they are consumed
  FrameLimits frames = {};
};

struct Http2Event {
  enum class Kind : std::uint8_t {
    head,   // a request begins: its `fields`, or `fault` and those that its answer depends on
    data,   // bytes of its body
    end,    // the request is complete
    closed  // the stream is gone; nothing can be sent any more
  };
  enum class Fault : std::uint8_t { none, too_long, too_many_fields, malformed };

  Kind kind = Kind::head;
  Http2StreamId stream = 0;
  Fault fault = Fault::none;
  bool answered = false;       // of `closed`: the whole answer was sent
  Http2Fields fields = {};     // pseudo-fields first (":method", ":path", …)
  std::string_view data = {};  // valid until the bytes given to receive() are
};

class Http2Session {
 public:
  explicit Http2Session(const Http2Limits& limits);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Takes the client's next bytes, beginning with the preface. Does nothing once is_over().
  void receive(std::string_view bytes, std::int64_t now_us);
  // Returns what has happened since the last call.
  std::vector<Http2Event> take_events();
  // Appends bytes to send: whole frames, until there are at least `bytes_max`.
  void take_output(std::string& out, std::size_t bytes_max);

  // Answers a request. All of them do nothing if the stream is gone. `answer` sends everything at
  // once; otherwise begin_answer() is followed by any number of write() and by end_answer(). An
  // answer to a request that is not complete ends it: its other bytes are dropped.
  void answer(Http2StreamId stream, unsigned status, const Http2Fields& fields, std::string body);
  void begin_answer(Http2StreamId stream, unsigned status, const Http2Fields& fields);
  void write(Http2StreamId stream, std::string_view bytes);
  void end_answer(Http2StreamId stream, Http2Fields trailers);
  // Asks for the body of a request that waits for that (status 100), unless it is complete already.
  void ask_for_body(Http2StreamId stream);
  // Ends the request without an answer.
  void reset(Http2StreamId stream);

  // Lets the client send that many bytes more of the body; each received byte is consumed once.
  void consume(Http2StreamId stream, std::size_t bytes);
  // Its fields no longer count: the caller has dropped them.
  void release_head(Http2StreamId stream);
  // Tells the client that no further request is accepted; open ones go on. Those that come before it
  // knows are refused: they can be repeated.
  void refuse_further();

  bool is_over() const;                         // the last output is to be sent, then the connection closes
  bool is_flooded() const { return flooded_; }  // and why: the client sent too much of nothing
  bool has_streams() const { return !streams_.empty(); }
  std::size_t stream_count() const { return streams_.size(); }
  std::size_t unsent_bytes(Http2StreamId stream) const;  // of its answer
  std::size_t queued() const;                            // frames that wait to be sent
  std::size_t held_bytes() const;                        // memory of it all
  // Fields of requests that were decoded and checked so far, and their bytes.
  std::uint64_t checked_fields() const { return checked_fields_; }
  std::uint64_t checked_bytes() const { return checked_bytes_; }

 private:
  struct Stream {
    Http2Fields fields;             // until the head is complete
    std::size_t head_bytes = 0;     // that count
    std::uint32_t field_count = 0;  // of all fields, kept or not, and of trailers
    std::uint64_t field_bytes = 0;  // of them, decoded
    Http2Event::Fault fault = Http2Event::Fault::none;
    bool refused = false;                        // was reset before its head was complete
    bool has_head = false, has_request = false;  // received completely
    bool answering = false, ended = false;       // the answer has begun; all of it is in `out`
    bool answered = false;                       // and was sent
    std::string out;                             // of the answer, from `sent` on
    std::size_t sent = 0;
    Http2Fields trailers;
  };
  struct Callbacks;
  struct Library;  // nghttp2's session

  Stream* find(Http2StreamId stream);
  bool check_field(Http2StreamId stream, std::size_t bytes);
  void take_field(Http2StreamId stream, std::string_view name, std::string_view value);
  void take_frame(Http2StreamId stream, bool is_head, bool last);
  void submit(Http2StreamId stream, unsigned status, const Http2Fields& fields, bool has_body);
  void refuse(Http2StreamId stream);
  void drop_head(Stream& stream);
  void fail_head(Stream& stream, Http2Event::Fault fault);
  static void keep_for_answer(Stream& stream, Http2Fields::value_type field);
  void count_reset();
  void end(bool flooded);

  const Http2Limits limits_;
  FrameMeter meter_;
  std::map<Http2StreamId, Stream> streams_;
  std::vector<Http2Event> events_;
  std::size_t heads_bytes_ = 0;
  std::uint64_t answered_ = 0, resets_ = 0;
  std::uint64_t checked_fields_ = 0, checked_bytes_ = 0;
  bool over_ = false, flooded_ = false, refusing_ = false;
  std::unique_ptr<Library> library_;  // destroyed first: it calls back
};

}  // namespace troupe::server
