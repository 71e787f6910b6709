// Wraps nghttp2's session: its callbacks become events, and answers are read from buffers as flow
// control allows.
#include "server/http2/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/check.h"

namespace troupe::server {

namespace {

constexpr std::size_t session_bytes = 16 << 10;  // about what nghttp2 keeps of an idle connection
constexpr std::size_t stream_bytes = 1 << 10;    // of an open request without its fields and its body
constexpr std::size_t queued_bytes = 128;        // of a frame that waits to be sent
constexpr std::size_t kept_out_bytes = 16 << 10;
constexpr std::uint32_t checks_per_field = 4;  // fields that are checked for each allowed one

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  return {const_cast<std::uint8_t*>(bytes_of(name)), const_cast<std::uint8_t*>(bytes_of(value)), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::vector<nghttp2_nv> pairs_of(const Http2Fields& fields) {
  std::vector<nghttp2_nv> pairs;
  for (const auto& [name, value] : fields) pairs.push_back(pair_of(name, value));
  return pairs;
}

// Returns true if the answer to a faulty head depends on the field: a HEAD request gets no body, gRPC gets
// trailers. `stream_bytes` bounds the number of these fields in one request.
bool shapes_answer(const Http2Fields::value_type& field) {
  constexpr std::size_t bytes_max = 128;
  const auto& [name, value] = field;
  return value.size() <= bytes_max && (name == ":method" || name == ":path" || name == "content-type");
}

bool is_last(const nghttp2_frame_hd& head) { return (head.flags & NGHTTP2_FLAG_END_STREAM) != 0; }

}  // namespace

struct Http2Session::Library {
  nghttp2_session* session = nullptr;
  ~Library() { nghttp2_session_del(session); }
};

// Called by nghttp2, with the Http2Session as `self`.
struct Http2Session::Callbacks {
  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    const Http2StreamId id = frame->hd.stream_id;
    const bool is_full = session.streams_.size() >= session.limits_.streams_max;
    session.streams_[id];
    if (is_full || session.refusing_) session.refuse(id);
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes, std::uint8_t,
                    void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    if (!session.check_field(frame->hd.stream_id, name_bytes + value_bytes))
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    session.take_field(frame->hd.stream_id, text_of(name, name_bytes), text_of(value, value_bytes));
    return 0;
  }

  static int invalid_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t*,
                            std::size_t name_bytes, const std::uint8_t*, std::size_t value_bytes,
                            std::uint8_t, void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    if (!session.check_field(frame->hd.stream_id, name_bytes + value_bytes))
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    Stream* const stream = session.find(frame->hd.stream_id);
    if (stream) session.fail_head(*stream, Http2Event::Fault::malformed);
    return 0;
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
      static_cast<Http2Session*>(self)->take_frame(frame->hd.stream_id, frame->hd.type == NGHTTP2_HEADERS,
                                                   is_last(frame->hd));
    return 0;
  }

  // The connection's window is open at once, the stream's when the bytes are consumed.
  static int data_chunk(nghttp2_session* library, std::uint8_t, Http2StreamId id, const std::uint8_t* bytes,
                        std::size_t size, void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    nghttp2_session_consume_connection(library, size);
    const Stream* const stream = session.find(id);
    if (!stream || stream->refused || stream->ended)
      nghttp2_session_consume_stream(library, id, size);
    else
      session.events_.push_back({.kind = Http2Event::Kind::data, .stream = id, .data = text_of(bytes, size)});
    return 0;
  }

  static int frame_sent(nghttp2_session* library, const nghttp2_frame* frame, void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    Stream* const stream = session.find(frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_RST_STREAM && !stream) session.count_reset();
    if (frame->hd.type == NGHTTP2_DATA) session.meter_.note_data_sent();
    const bool carries = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!stream || !carries || !is_last(frame->hd)) return 0;
    stream->answered = true;
    session.meter_.note_answer();
    if (!stream->has_request)  // the client need not send the rest
      nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
  }

  static int stream_closed(nghttp2_session*, Http2StreamId id, std::uint32_t, void* self) {
    auto& session = *static_cast<Http2Session*>(self);
    const auto found = session.streams_.find(id);
    if (found == session.streams_.end()) return 0;
    session.drop_head(found->second);
    const bool answered = found->second.answered;
    session.streams_.erase(found);
    session.events_.push_back({.kind = Http2Event::Kind::closed, .stream = id, .answered = answered});
    if (answered)
      ++session.answered_;
    else
      session.count_reset();
    return 0;
  }

  static ssize_t read_answer(nghttp2_session* library, Http2StreamId id, std::uint8_t* to, std::size_t bytes,
                             std::uint32_t* flags, nghttp2_data_source*, void* self) {
    Stream* const stream = static_cast<Http2Session*>(self)->find(id);
    if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t size = std::min(bytes, stream->out.size() - stream->sent);
    std::memcpy(to, stream->out.data() + stream->sent, size);
    stream->sent += size;
    const bool is_all = stream->sent == stream->out.size();
    if (is_all) {
      if (stream->out.capacity() > kept_out_bytes) stream->out = std::string();
      stream->out.clear();
      stream->sent = 0;
    }
    if (size == 0 && !stream->ended) return NGHTTP2_ERR_DEFERRED;
    if (!is_all || !stream->ended) return static_cast<ssize_t>(size);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!stream->trailers.empty()) {
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const std::vector<nghttp2_nv> pairs = pairs_of(stream->trailers);
      nghttp2_submit_trailer(library, id, pairs.data(), pairs.size());
    }
    return static_cast<ssize_t>(size);
  }

  static nghttp2_session* make(Http2Session* self) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    nghttp2_session* made = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_received);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_chunk);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_continuations(option, self->limits_.frames.continuations_max);
    const int failed = nghttp2_session_server_new2(&made, callbacks, self, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    TROUPE_CHECK(failed == 0, "nghttp2 makes a session");
    return made;
  }
};

Http2Session::Http2Session(const Http2Limits& limits)
    : limits_(limits), meter_(limits.frames), library_(std::make_unique<Library>()) {
  library_->session = Callbacks::make(this);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams_max},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.head_bytes_max},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.window_bytes},
                                             {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  nghttp2_submit_settings(library_->session, NGHTTP2_FLAG_NONE, settings, std::size(settings));
}

Http2Session::~Http2Session() = default;

void Http2Session::receive(std::string_view bytes, std::int64_t now_us) {
  if (over_) return;
  if (!meter_.take(bytes, now_us)) return end(true);
  const ssize_t taken = nghttp2_session_mem_recv(library_->session, bytes_of(bytes), bytes.size());
  if (taken < 0) return end(taken == NGHTTP2_ERR_FLOODED);
  if (queued() > limits_.queued_max) end(true);
}

// The client's own words for a flood are ENHANCE_YOUR_CALM; after another fault the library has said
// what is wrong, or the bytes were not HTTP/2.
void Http2Session::end(bool flooded) {
  if (over_) return;
  over_ = true;
  flooded_ = flooded;
  if (flooded) nghttp2_session_terminate_session(library_->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

bool Http2Session::is_over() const {
  return over_ ||
         (!nghttp2_session_want_read(library_->session) && !nghttp2_session_want_write(library_->session));
}

std::vector<Http2Event> Http2Session::take_events() { return std::exchange(events_, {}); }

void Http2Session::take_output(std::string& out, std::size_t bytes_max) {
  while (out.size() < bytes_max) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(library_->session, &bytes);
    if (size < 0) over_ = true;
    if (size <= 0) return;
    out.append(text_of(bytes, static_cast<std::size_t>(size)));
  }
}

Http2Session::Stream* Http2Session::find(Http2StreamId stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

// Counts a field that was decoded and checked. Returns false once those of a request are so many that it
// is reset: nghttp2 still decodes the others, but checks and reports none. Heads without references to
// HPACK's table never get there by their bytes, since Huffman's code makes them at most 1.6 times as long.
bool Http2Session::check_field(Http2StreamId id, std::size_t bytes) {
  ++checked_fields_, checked_bytes_ += bytes;
  Stream* const stream = find(id);
  if (!stream) return true;
  ++stream->field_count, stream->field_bytes += bytes;
  const std::uint64_t bytes_max = 2 * std::uint64_t{limits_.frames.header_block_bytes_max};
  if (stream->field_count <= checks_per_field * limits_.fields_max && stream->field_bytes <= bytes_max)
    return true;
  drop_head(*stream);
  stream->fields = Http2Fields();
  return false;
}

// A request whose fields exceed a limit is answered with the reason. Of its fields it keeps those that
// the answer depends on, each once.
void Http2Session::fail_head(Stream& stream, Http2Event::Fault fault) {
  if (stream.has_head || stream.fault != Http2Event::Fault::none) return;
  stream.fault = fault;
  drop_head(stream);
  for (const auto& field : std::exchange(stream.fields, Http2Fields())) keep_for_answer(stream, field);
}

void Http2Session::keep_for_answer(Stream& stream, Http2Fields::value_type field) {
  if (!shapes_answer(field)) return;
  const bool has =
      std::ranges::any_of(stream.fields, [&](const auto& kept) { return kept.first == field.first; });
  if (!has) stream.fields.push_back(std::move(field));
}

// If all requests of the connection have too many fields, the client may repeat it later.
void Http2Session::take_field(Http2StreamId id, std::string_view name, std::string_view value) {
  Stream* const stream = find(id);
  if (!stream || stream->refused || stream->has_head) return;  // fields after the body are dropped
  const std::size_t bytes = name.size() + value.size();
  if (stream->head_bytes + bytes > limits_.head_bytes_max) fail_head(*stream, Http2Event::Fault::too_long);
  if (stream->field_count > limits_.fields_max) fail_head(*stream, Http2Event::Fault::too_many_fields);
  if (stream->fault != Http2Event::Fault::none)
    return keep_for_answer(*stream, {std::string(name), std::string(value)});
  if (heads_bytes_ + bytes > limits_.heads_bytes_max) return refuse(id);
  heads_bytes_ += bytes;
  stream->head_bytes += bytes;
  stream->fields.emplace_back(name, value);
}

void Http2Session::take_frame(Http2StreamId id, bool is_head, bool last) {
  Stream* const stream = find(id);
  if (!stream || stream->refused) return;
  if (is_head && !std::exchange(stream->has_head, true))
    events_.push_back({.kind = Http2Event::Kind::head,
                       .stream = id,
                       .fault = stream->fault,
                       .fields = std::exchange(stream->fields, {})});
  if (!last) return;
  stream->has_request = true;
  events_.push_back({.kind = Http2Event::Kind::end, .stream = id});
}

void Http2Session::refuse(Http2StreamId id) {
  Stream& stream = streams_.at(id);
  drop_head(stream);
  stream.fields = Http2Fields();
  stream.refused = true;
  nghttp2_submit_rst_stream(library_->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

void Http2Session::drop_head(Stream& stream) { heads_bytes_ -= std::exchange(stream.head_bytes, 0); }

void Http2Session::release_head(Http2StreamId id) {
  if (Stream* const stream = find(id)) drop_head(*stream);
}

void Http2Session::count_reset() {
  if (++resets_ > answered_ + limits_.resets_max) end(true);
}

void Http2Session::submit(Http2StreamId id, unsigned status, const Http2Fields& fields, bool has_body) {
  const std::string number = std::to_string(status);
  std::vector<nghttp2_nv> pairs{pair_of(":status", number)};
  for (const auto& [name, value] : fields) pairs.push_back(pair_of(name, value));
  nghttp2_data_provider provider{};
  provider.read_callback = Callbacks::read_answer;
  nghttp2_submit_response(library_->session, id, pairs.data(), pairs.size(), has_body ? &provider : nullptr);
}

void Http2Session::answer(Http2StreamId id, unsigned status, const Http2Fields& fields, std::string body) {
  Stream* const stream = find(id);
  if (!stream || stream->answering || stream->refused) return;
  stream->answering = stream->ended = true;
  stream->out = std::move(body);
  submit(id, status, fields, !stream->out.empty());
}

void Http2Session::begin_answer(Http2StreamId id, unsigned status, const Http2Fields& fields) {
  Stream* const stream = find(id);
  if (!stream || stream->answering || stream->refused) return;
  stream->answering = true;
  submit(id, status, fields, true);
}

void Http2Session::write(Http2StreamId id, std::string_view bytes) {
  Stream* const stream = find(id);
  if (!stream || !stream->answering || stream->ended || bytes.empty()) return;
  stream->out.erase(0, std::exchange(stream->sent, 0));
  stream->out.append(bytes);
  nghttp2_session_resume_data(library_->session, id);
}

void Http2Session::end_answer(Http2StreamId id, Http2Fields trailers) {
  Stream* const stream = find(id);
  if (!stream || !stream->answering || stream->ended) return;
  stream->ended = true;
  stream->trailers = std::move(trailers);
  nghttp2_session_resume_data(library_->session, id);
}

void Http2Session::ask_for_body(Http2StreamId id) {
  const Stream* const stream = find(id);
  if (!stream || stream->answering || stream->refused || stream->has_request) return;
  const nghttp2_nv pair = pair_of(":status", "100");
  nghttp2_submit_headers(library_->session, NGHTTP2_FLAG_NONE, id, nullptr, &pair, 1, nullptr);
}

void Http2Session::reset(Http2StreamId id) {
  if (find(id)) nghttp2_submit_rst_stream(library_->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

void Http2Session::consume(Http2StreamId id, std::size_t bytes) {
  if (find(id)) nghttp2_session_consume_stream(library_->session, id, bytes);
}

// The last request that GOAWAY names is fixed here, not when it is sent.
void Http2Session::refuse_further() {
  refusing_ = true;
  nghttp2_submit_goaway(library_->session, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(library_->session), NGHTTP2_NO_ERROR, nullptr,
                        0);
}

std::size_t Http2Session::unsent_bytes(Http2StreamId id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.out.size() - found->second.sent;
}

std::size_t Http2Session::queued() const {
  return nghttp2_session_get_outbound_queue_size(library_->session);
}

std::size_t Http2Session::held_bytes() const {
  std::size_t bytes = session_bytes + heads_bytes_ + queued() * queued_bytes;
  for (const auto& [id, stream] : streams_) bytes += stream_bytes + stream.out.capacity();
  return bytes;
}

}  // namespace troupe::server
