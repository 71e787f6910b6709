#pragma once
// Test helpers for LinkTransport: socket pairs over loopback as links hand them over, with TLS or
// without, and transports of one process that reach each other by them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/network/certificates.h"
#include "runtime/transfer/link_transport.h"

namespace troupe {

inline void require_done(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("link sockets: ") + what);
}

// A TCP connection over loopback: both ends.
inline std::array<int, 2> tcp_pair() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require_done(
      bind(listener, any, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, any, &size) == 0,
      "cannot listen");
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require_done(connect(caller, any, size) == 0, "cannot connect");
  const int called = accept(listener, nullptr, nullptr);
  require_done(called >= 0, "cannot accept");
  close(listener);
  return {caller, called};
}

// TLS 1.3 in which both sides show a certificate of one authority, as between nodes.
class TestTls {
 public:
  struct Files {
    std::string authority, certificate, key;  // PEM
  };
  static Files make_files() {
    const Certificate authority = make_authority("test", 2), own = make_certificate(authority, "node", 2);
    return {authority.certificate, own.certificate, own.key};
  }
  explicit TestTls(const Files& files = make_files()) : context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    const Pem ca = pem_of(files.authority), certificate = pem_of(files.certificate), key = pem_of(files.key);
    const std::unique_ptr<X509, decltype(&X509_free)> trusted(
        PEM_read_bio_X509(ca.get(), nullptr, nullptr, nullptr), X509_free),
        shown(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr), X509_free);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> secret(
        PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
    SSL_CTX* const context = context_.get();
    require_done(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                     X509_STORE_add_cert(SSL_CTX_get_cert_store(context), trusted.get()) == 1 &&
                     SSL_CTX_use_certificate(context, shown.get()) == 1 &&
                     SSL_CTX_use_PrivateKey(context, secret.get()) == 1,
                 "certificates");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  SSL* side(int fd, bool calls) const {
    SSL* const session = SSL_new(context_.get());
    require_done(session && SSL_set_fd(session, fd) == 1, "no session");
    calls ? SSL_set_connect_state(session) : SSL_set_accept_state(session);
    return session;
  }

 private:
  using Pem = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
  static Pem pem_of(const std::string& text) {
    return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
  }
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
};

// Both ends of a connection, after its handshake. `tls` null: in the clear.
inline std::pair<PageSocket, PageSocket> page_sockets(const TestTls* tls) {
  const auto [caller, called] = tcp_pair();
  if (!tls) return {PageSocket(caller), PageSocket(called)};
  SSL* const one = tls->side(caller, true);
  SSL* const other = tls->side(called, false);
  std::pair<PageSocket, PageSocket> pair{PageSocket(caller, one), PageSocket(called, other)};
  bool here = false, there = false;
  for (int step = 0; !(here && there); ++step) {
    here = here || SSL_do_handshake(one) == 1;
    there = there || SSL_do_handshake(other) == 1;
    require_done(step < 1'000'000, "the handshake does not end");
  }
  return pair;
}

// Connects transports of this process. Node N has the incarnations from 100 N on. Thread-safe.
class LinkSockets {
 public:
  explicit LinkSockets(bool tls) : tls_(tls ? std::make_unique<TestTls>() : nullptr) {}

  std::uint64_t new_number() {
    std::lock_guard lock(mutex_);
    return ++last_;
  }
  void add(std::uint64_t number, LinkTransport* transport) {
    std::lock_guard lock(mutex_);
    transports_[number] = transport;
  }
  void remove(std::uint64_t number) {
    std::lock_guard lock(mutex_);
    transports_.erase(number);
  }
  static Bytes detail_of(std::uint64_t number) {
    Bytes bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
  }
  void dial(Incarnation reader, const Bytes& address, const LinkTransport::TakeSocket& take) {
    std::uint64_t number = 0;
    if (address.size() == 4 + sizeof number) std::memcpy(&number, address.data() + 4, sizeof number);
    std::lock_guard lock(mutex_);
    ++dialled_;
    changed_.notify_all();
    const auto owner = transports_.find(number);
    if (owner == transports_.end()) return take(PageSocket(), "nobody has this address");
    auto [here, there] = page_sockets(tls_.get());
    owner->second->accept(static_cast<NodeId>(reader / 100), reader, std::move(there));
    take(std::move(here), "");
  }
  int dialled() {
    std::lock_guard lock(mutex_);
    return dialled_;
  }
  // Waits for that many connections; false after a minute.
  bool await_dialled(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return dialled_ >= count; });
  }

 private:
  const std::unique_ptr<TestTls> tls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, LinkTransport*> transports_;
  std::uint64_t last_ = 0;
  int dialled_ = 0;
};

// A LinkTransport that LinkSockets connects.
class ConnectedTransport final : public Transport {
 public:
  ConnectedTransport(LinkSockets& sockets, LinkTransportOptions options, Incarnation incarnation,
                     PageArena& arena, MetricRegistry& metrics)
      : sockets_(sockets), number_(sockets.new_number()) {
    options.address_detail = LinkSockets::detail_of(number_);
    transport_ = std::make_unique<LinkTransport>(std::move(options), incarnation, arena, metrics);
    sockets.add(number_, transport_.get());
    transport_->dial_with([&sockets, incarnation](NodeId, Incarnation, const Bytes& address, auto take) {
      sockets.dial(incarnation, address, take);
    });
  }
  ~ConnectedTransport() override { sockets_.remove(number_); }

  Bytes address() const override { return transport_->address(); }
  void meet(NodeId node, Incarnation incarnation, Bytes address) override {
    transport_->meet(node, incarnation, std::move(address));
  }
  void lose(NodeId node, Incarnation incarnation) override { transport_->lose(node, incarnation); }
  std::variant<PullResult, Refusal> pull(const PullBlocks& work) override { return transport_->pull(work); }
  bool start_pull(PullBlocks& work, const Done& done) override { return transport_->start_pull(work, done); }
  void stop() override { transport_->stop(); }
  LinkTransport& inner() { return *transport_; }

 private:
  LinkSockets& sockets_;
  const std::uint64_t number_;
  std::unique_ptr<LinkTransport> transport_;
};

}  // namespace troupe
