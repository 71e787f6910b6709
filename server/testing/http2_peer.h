#pragma once
// A client of HTTP/2 for tests: over nghttp2, with whole requests, and frames by hand for what no
// client sends.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/http2/http2_session.h"

namespace troupe::server::http2_test {

// ---- frames by hand ----

enum Type : unsigned char { data, headers, priority, rst_stream, settings, push, ping, goaway, window, more };

inline std::string frame(unsigned char type, unsigned char flags, std::uint32_t stream,
                         const std::string& payload, std::size_t says = SIZE_MAX) {
  const std::size_t length = std::min(says, payload.size());
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(length >> shift & 0xff);
  bytes += static_cast<char>(type), bytes += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift & 0xff);
  return bytes + payload;
}

// A length of HPACK with a prefix of seven bits (RFC 7541 §5.1).
inline std::string hpack_length(std::size_t length) {
  if (length < 127) return std::string(1, static_cast<char>(length));
  std::string bytes(1, '\x7f');
  for (length -= 127; length >= 128; length /= 128) bytes += static_cast<char>(length % 128 + 128);
  return bytes + static_cast<char>(length);
}

// Fields that are literal and not indexed.
inline std::string hpack(const Http2Fields& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields)
    bytes += std::string(1, '\0') + hpack_length(name.size()) + name + hpack_length(value.size()) + value;
  return bytes;
}

inline Http2Fields get(const std::string& path) {
  return {{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}};
}
inline Http2Fields post(const std::string& path, const Http2Fields& further = {}) {
  Http2Fields fields{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}};
  fields.insert(fields.end(), further.begin(), further.end());
  return fields;
}

inline constexpr unsigned char end_stream = 1, end_headers = 4;

inline std::string preface() { return std::string(http2_preface) + frame(settings, 0, 0, ""); }
inline std::string head(std::uint32_t stream, const Http2Fields& fields, bool last = false) {
  return frame(headers, end_headers | (last ? end_stream : 0), stream, hpack(fields));
}
inline std::string number(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}
inline std::string reset(std::uint32_t stream) { return frame(rst_stream, 0, stream, number(8)); }

// ---- a whole client ----

struct PeerAnswer {
  std::string status, body;
  std::map<std::string, std::string> fields, trailers;
  bool begun = false, ended = false;  // its head has come; the stream is closed
  std::uint32_t error = 0;
};

class Http2Peer {
 public:
  Http2Peer() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~Http2Peer() { nghttp2_session_del(session_); }
  Http2Peer(const Http2Peer&) = delete;

  // Begins a request; a body that does not end is sent without the end of the stream.
  Http2StreamId ask(const Http2Fields& fields, std::string body = "", bool ends = true) {
    std::vector<nghttp2_nv> pairs;
    for (const auto& [name, value] : fields)
      pairs.push_back({bytes_of(name), bytes_of(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    nghttp2_data_provider provider{};
    provider.read_callback = read_body;
    const bool has_body = !body.empty() || !ends;
    const Http2StreamId stream = nghttp2_submit_request(session_, nullptr, pairs.data(), pairs.size(),
                                                        has_body ? &provider : nullptr, nullptr);
    bodies_[stream] = {std::move(body), ends};
    answers_[stream];
    return stream;
  }
  void send(Http2StreamId stream, const std::string& bytes, bool ends = false) {
    bodies_[stream].text += bytes;
    bodies_[stream].ends = ends;
    nghttp2_session_resume_data(session_, stream);
  }
  void cancel(Http2StreamId stream) { nghttp2_submit_rst_stream(session_, 0, stream, NGHTTP2_CANCEL); }

  std::string output() {
    std::string bytes;
    for (;;) {
      const std::uint8_t* some = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &some);
      if (size <= 0) return bytes;
      bytes.append(reinterpret_cast<const char*>(some), static_cast<std::size_t>(size));
    }
  }
  void input(std::string_view bytes) {
    nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  PeerAnswer& answer(Http2StreamId stream) { return answers_[stream]; }
  // Returns true while the server's window holds bytes of the body back.
  bool has_unsent(Http2StreamId stream) const { return !bodies_.at(stream).text.empty(); }
  bool goes_away() const { return goes_away_; }
  std::uint32_t goaway_error() const { return goaway_error_; }

 private:
  struct Body {
    std::string text;
    bool ends = true;
  };
  static std::uint8_t* bytes_of(const std::string& text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                       std::uint8_t, void* self) {
    PeerAnswer& to = static_cast<Http2Peer*>(self)->answers_[frame->hd.stream_id];
    const std::string key(reinterpret_cast<const char*>(name), name_bytes);
    const std::string text(reinterpret_cast<const char*>(value), value_bytes);
    if (key == ":status")
      to.status = text;
    else
      (to.begun ? to.trailers : to.fields)[key] = text;
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, Http2StreamId stream, const std::uint8_t* bytes,
                     std::size_t size, void* self) {
    static_cast<Http2Peer*>(self)->answers_[stream].body.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& peer = *static_cast<Http2Peer*>(self);
    if (frame->hd.type == NGHTTP2_HEADERS) peer.answers_[frame->hd.stream_id].begun = true;
    if (frame->hd.type == NGHTTP2_GOAWAY)
      peer.goes_away_ = true, peer.goaway_error_ = frame->goaway.error_code;
    return 0;
  }
  static int on_close(nghttp2_session*, Http2StreamId stream, std::uint32_t error, void* self) {
    PeerAnswer& of = static_cast<Http2Peer*>(self)->answers_[stream];
    of.ended = true, of.error = error;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, Http2StreamId stream, std::uint8_t* to, std::size_t bytes,
                           std::uint32_t* flags, nghttp2_data_source*, void* self) {
    Body& body = static_cast<Http2Peer*>(self)->bodies_[stream];
    const std::size_t size = std::min(bytes, body.text.size());
    std::memcpy(to, body.text.data(), size);
    body.text.erase(0, size);
    if (body.text.empty() && body.ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (size == 0 && !body.ends) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(size);
  }

  nghttp2_session* session_ = nullptr;
  std::map<Http2StreamId, Body> bodies_;
  std::map<Http2StreamId, PeerAnswer> answers_;
  bool goes_away_ = false;
  std::uint32_t goaway_error_ = 0;
};

}  // namespace troupe::server::http2_test
