// Reads and writes frames on one TCP connection between two nodes, over TLS if configured.
// Waiting messages are sent in batches, and a connection that stays silent is closed.
#include "runtime/network/link_connection.h"

#include <openssl/x509v3.h>

#include <tuple>
#include <utility>
#include <vector>

namespace troupe::link {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr auto quietly = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t batch_frames = 64, batch_bytes = 1 << 20;

std::variant<Connection::Tcp::socket, asio::ssl::stream<Connection::Tcp::socket>> make_stream(
    Connection::Tcp::socket socket, asio::ssl::context* security) {
  using Stream = std::variant<Connection::Tcp::socket, asio::ssl::stream<Connection::Tcp::socket>>;
  if (!security) return Stream(std::move(socket));
  return Stream(std::in_place_index<1>, std::move(socket), *security);
}

}  // namespace

Connection::Connection(Tcp::socket socket, asio::ssl::context* security)
    : stream_(make_stream(std::move(socket), security)),
      watch_(this->socket().get_executor()),
      wake_(this->socket().get_executor()) {}

Connection::Tcp::socket& Connection::socket() {
  if (auto* plain = std::get_if<Tcp::socket>(&stream_)) return *plain;
  return std::get<Secure>(stream_).next_layer();
}

template <class Use>
auto Connection::over(const Use& use) {
  return std::visit(use, stream_);
}

// ---- end of the connection ----

void Connection::start(Clock::duration limit) {
  dead_at_ = Clock::now() + limit;
  asio::co_spawn(
      socket().get_executor(), [self = shared_from_this()] { return self->watch(); }, expect_no_exception);
}

Connection::Task<void> Connection::watch() {
  while (open_) {
    watch_.expires_at(dead_at_);
    co_await watch_.async_wait(quietly);
    if (open_ && Clock::now() >= dead_at_)
      close(joined_ ? "no byte arrived within five heartbeats" : "it took too long to join");
  }
}

void Connection::touch() {
  if (joined_) dead_at_ = Clock::now() + silence_limit_;
}

void Connection::close(const std::string& why) {
  if (!open_) return;
  open_ = false;
  why_ = why;
  Error ignored;
  socket().close(ignored);
  watch_.cancel();
  wake_.cancel();
}

// The session, which the stream shares, gets the socket in place of the stream's buffers.
PageSocket Connection::release() {
  if (!open_) return {};
  Error fault;
  const int fd = socket().release(fault);
  if (fault) return close(fault.message()), PageSocket();
  open_ = false;
  why_ = "it was handed over";
  watch_.cancel();
  wake_.cancel();
  auto* const secure = std::get_if<Secure>(&stream_);
  if (!secure) return PageSocket(fd);
  SSL* const session = secure->native_handle();
  SSL_up_ref(session);
  PageSocket taken(fd, session);
  return SSL_set_fd(session, fd) == 1 ? std::move(taken) : PageSocket();
}

// ---- start of the connection ----

Connection::Task<std::string> Connection::call(std::string host, std::uint16_t port) {
  Error no_address, error;
  const auto address = asio::ip::make_address(host, no_address);
  if (!no_address) {  // an address needs no resolver, which handles one name at a time
    std::tie(error) = co_await socket().async_connect({address, port}, quietly);
  } else {
    Tcp::resolver resolver(socket().get_executor());
    auto [unknown, endpoints] = co_await resolver.async_resolve(host, std::to_string(port), quietly);
    if (!open_) co_return why_;
    if (unknown) co_return unknown.message();
    std::tie(error, std::ignore) = co_await asio::async_connect(socket(), endpoints, quietly);
  }
  if (!open_) co_return why_;
  co_return error ? error.message() : "";
}

Connection::Task<std::string> Connection::shake_hands(bool calls) {
  Error ignored;
  socket().set_option(Tcp::no_delay(true), ignored);
  auto* secure = std::get_if<Secure>(&stream_);
  if (!secure) co_return "";
  const auto side = calls ? asio::ssl::stream_base::client : asio::ssl::stream_base::server;
  auto [error] = co_await secure->async_handshake(side, quietly);
  if (!open_) co_return why_;
  if (!error) co_return "";
  const long verified = SSL_get_verify_result(secure->native_handle());
  const char* const why = verified == X509_V_OK ? nullptr : X509_verify_cert_error_string(verified);
  co_return "TLS: " + error.message() + (why ? std::string(": ") + why : "");
}

bool Connection::is_certified_for(const std::string& name) const {
  const auto* secure = std::get_if<Secure>(&stream_);
  if (!secure) return true;
  const auto held = [](X509* certificate) { X509_free(certificate); };
  const std::unique_ptr<X509, decltype(held)> certificate(
      SSL_get1_peer_certificate(const_cast<Secure*>(secure)->native_handle()), held);
  return certificate &&
         X509_check_host(certificate.get(), name.data(), name.size(),
                         X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1;
}

void Connection::join(Clock::duration heartbeat, int heartbeats_to_death, bool peer_supports_seals) {
  heartbeat_ = heartbeat;
  silence_limit_ = heartbeat * heartbeats_to_death;
  joined_ = true;
  sealed_ = peer_supports_seals && std::holds_alternative<Tcp::socket>(stream_);
  touch();
  watch_.cancel();  // watch() computes its deadline again
  asio::co_spawn(
      socket().get_executor(), [self = shared_from_this()] { return self->write_all(); },
      expect_no_exception);
}

// ---- receiving ----

// Reads exactly `to.size()` bytes. Any bytes show that the peer is alive.
Connection::Task<std::string> Connection::read_bytes(std::span<std::uint8_t> to) {
  const auto go_on = [this](const Error& error, std::size_t) -> std::size_t {
    touch();
    return error ? 0 : 1 << 16;
  };
  auto [error, bytes] = co_await over([&](auto& stream) {
    return asio::async_read(stream, asio::buffer(to.data(), to.size()), go_on, quietly);
  });
  if (!open_) co_return why_;
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated)
    co_return "it has closed the connection";
  co_return error ? error.message() : "";
}

Connection::Task<Connection::ReadResult> Connection::read(bool joined) {
  ReadResult got;
  Header header;
  got.fault = co_await read_bytes(header);
  if (!got.fault.empty()) co_return got;
  const auto decoded = decode_header(header, joined);
  if (const auto* fault = std::get_if<std::string>(&decoded)) {
    got.fault = *fault;
    co_return got;
  }
  if (sealed_ && !is_whole(header)) {
    got.fault = "a frame header was damaged in transit";
    co_return got;
  }
  got.frame = std::get<Frame>(decoded);
  got.body.resize(got.frame.bytes);
  if (got.frame.bytes > 0) got.fault = co_await read_bytes(got.body);
  if (got.fault.empty() && sealed_ && got.frame.kind == Kind::cargo)
    got.fault = remove_seal(header, got.body);
  co_return got;
}

// ---- sending ----

Connection::Task<std::string> Connection::write_now(Frame frame, Bytes body) {
  frame.bytes = static_cast<std::uint32_t>(body.size());
  const Header header = encode(frame);
  const std::array<asio::const_buffer, 2> buffers{asio::buffer(header), asio::buffer(body)};
  auto [error, bytes] =
      co_await over([&](auto& stream) { return asio::async_write(stream, buffers, quietly); });
  if (!open_) co_return why_;
  co_return error ? error.message() : "";
}

bool Connection::send(Address to, std::shared_ptr<const Bytes> envelope, std::size_t waiting_max) {
  const std::size_t bytes = envelope->size();
  if (!open_ || waiting_bytes_ + bytes > waiting_max) return false;
  waiting_bytes_ += bytes;
  const std::size_t sent = bytes + (sealed_ ? seal_bytes : 0);
  const Header header = encode(Frame{Kind::cargo, to, static_cast<std::uint32_t>(sent)});
  outbox_.push_back({header, envelope, sealed_ ? seal(header, *envelope) : Seal{}});
  wake_.cancel();
  return true;
}

void Connection::take_batch() {
  batch_.clear();
  for (std::size_t bytes = 0; !outbox_.empty() && batch_.size() < batch_frames && bytes < batch_bytes;) {
    bytes += outbox_.front().body->size();
    batch_.push_back(std::move(outbox_.front()));
    outbox_.pop_front();
  }
}

Connection::Task<void> Connection::write_all() {
  static const auto nothing = std::make_shared<const Bytes>();
  std::vector<asio::const_buffer> buffers;
  while (open_) {
    if (outbox_.empty()) {
      wake_.expires_after(heartbeat_);
      co_await wake_.async_wait(quietly);
      if (!open_) co_return;
      if (outbox_.empty()) outbox_.push_back({encode(Frame{Kind::ping, {}, 0}), nothing, {}});
    }
    take_batch();
    buffers.clear();
    for (const Outgoing& out : batch_) {
      buffers.push_back(asio::buffer(out.header));
      if (!out.body->empty()) buffers.push_back(asio::buffer(*out.body));
      if (sealed_ && out.body != nothing) buffers.push_back(asio::buffer(out.seal));
    }
    auto [error, bytes] =
        co_await over([&](auto& stream) { return asio::async_write(stream, buffers, quietly); });
    for (const Outgoing& out : batch_) waiting_bytes_ -= out.body->size();
    if (error) co_return close(error.message());
  }
}

}  // namespace troupe::link
