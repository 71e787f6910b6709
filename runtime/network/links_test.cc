// Tests links against unknown connections, and which certificates TLS accepts. The normal use of
// links is tested in caf_host_cluster_test.cc.
#include "runtime/network/links.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/network/certificates.h"
#include "runtime/network/link_wire.h"

namespace troupe {
namespace {

using link::Frame;
using link::Kind;

// ---- ends of links ----

class End {
 public:
  explicit End(ClusterOptions options, Duration heartbeat = {50'000}) {
    options.incarnation = 1;
    options.heartbeat = heartbeat;
    links_ = std::make_unique<Links>(
        options,
        Links::Inside{
            [this](NodeId, Address, auto envelope) { write("got " + std::to_string(envelope->size())); },
            [this](NodeId peer) { write("lost " + std::to_string(peer)); }},
        journal_);
    links_->open();
  }
  std::uint16_t port() const { return links_->port(); }
  std::string renew_certificates() { return links_->renew_certificates(); }
  void follow(std::vector<PeerAddress> peers) { links_->follow(std::move(peers)); }
  void send(NodeId to, std::size_t bytes) {
    links_->send({to, Role::router}, std::make_shared<const Bytes>(bytes));
  }
  bool await(const std::string& what, std::chrono::milliseconds limit = std::chrono::seconds(10),
             int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] {
      return std::ranges::count_if(lines_,
                                   [&](auto& line) { return line.find(what) != std::string::npos; }) >= times;
    });
  }
  bool has(const std::string& what) { return await(what, std::chrono::milliseconds(0)); }
  MetricRegistry metrics;

 private:
  void write(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  Journal journal_{metrics, [this](LogLevel, std::string_view, std::string_view event, auto fields) {
                     std::string line(event);
                     for (const LogField& field : fields) line += " " + field.name + "=" + field.value;
                     write(line);
                   }};
  std::unique_ptr<Links> links_;  // destroyed first
};

ClusterOptions options_of(NodeId node, std::vector<PeerAddress> peers) {
  ClusterOptions options;
  options.node = node;
  options.peers = std::move(peers);
  return options;
}

// An unknown connection to the port.
class UnknownPeer {
 public:
  explicit UnknownPeer(std::uint16_t port, std::uint32_t from = INADDR_LOOPBACK)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(from);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~UnknownPeer() { close(socket_); }
  UnknownPeer(const UnknownPeer&) = delete;
  void say(std::span<const std::uint8_t> bytes) { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(Frame frame, const Bytes& body) {
    frame.bytes = static_cast<std::uint32_t>(body.size());
    say(link::encode(frame));
    say(body);
  }
  // Returns everything received until the other side closes, or until at least `bytes` have come.
  Bytes hear(std::size_t enough = SIZE_MAX) {
    Bytes all;
    std::uint8_t buffer[4'096];
    for (ssize_t got = 0; all.size() < enough &&
                          (got = recv(socket_, buffer, std::min(sizeof buffer, enough - all.size()), 0)) > 0;)
      all.insert(all.end(), buffer, buffer + got);
    return all;
  }

 private:
  int socket_;
};

TEST_CASE("links: random bytes at the port do no harm") {
  End one(options_of(1, {{2}, {3}}));
  End two(options_of(2, {{1, "", "127.0.0.1", one.port()}, {3}}));
  REQUIRE(two.await("peer_met"));
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    UnknownPeer stranger(one.port());
    Bytes noise(1 + random() % 500);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    stranger.say(noise);
  }
  two.send(1, 77);
  CHECK(one.await("got 77"));
  CHECK_FALSE(two.has("lost 1"));
}

TEST_CASE("links: an unknown connection with a huge length, an unexpected frame or silence is closed") {
  End one(options_of(1, {{2}}));
  const auto cut_off = [&](Frame frame) {
    UnknownPeer stranger(one.port());
    stranger.say(link::encode(frame));
    return !stranger.hear().empty();  // the text of the reason
  };
  CHECK(cut_off({Kind::join, {}, 0xFFFF'FFFF}));
  CHECK(cut_off({Kind::cargo, {1, Role::router}, 8}));
  UnknownPeer silent(one.port());
  const auto since = std::chrono::steady_clock::now();
  silent.hear();
  CHECK(std::chrono::steady_clock::now() - since < std::chrono::seconds(9));
}

TEST_CASE("links: two hundred silent connections do not keep a peer from joining") {
  End one(options_of(1, {{2}}));
  std::vector<std::unique_ptr<UnknownPeer>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<UnknownPeer>(one.port()));
  End two(options_of(2, {{1, "", "127.0.0.1", one.port()}}));
  CHECK(two.await("peer_met", std::chrono::milliseconds(1'000)));
  CHECK(one.has("unjoined_peer_displaced address=127.0.0.1"));
}

TEST_CASE("links: a peer's address has more slots than others, before it has joined") {
  End one(options_of(1, {{2, "", "127.0.0.1", 1}}));
  std::vector<std::unique_ptr<UnknownPeer>> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(std::make_unique<UnknownPeer>(one.port()));
  for (int i = 0; i < 12; ++i)
    silent.push_back(std::make_unique<UnknownPeer>(one.port(), INADDR_LOOPBACK + 1));
  CHECK(one.await("unjoined_peer_displaced address=127.0.0.2"));
  CHECK_FALSE(one.has("unjoined_peer_displaced address=127.0.0.1"));
}

TEST_CASE("links: a connection is closed after a second of silence; one that has sent a byte has longer") {
  End one(options_of(1, {{2}}));
  UnknownPeer silent(one.port()), slow(one.port());
  slow.say(Bytes(1, 1));
  const auto since = std::chrono::steady_clock::now();
  silent.hear();
  CHECK(std::chrono::steady_clock::now() - since < std::chrono::milliseconds(2'500));
  slow.hear();
  CHECK(std::chrono::steady_clock::now() - since > std::chrono::milliseconds(2'500));
}

TEST_CASE("links: a join of another version is refused with the expected version, whatever else it says") {
  End one(options_of(1, {{2}}));
  UnknownPeer later(one.port());
  Bytes join =
      link::encode(link::Join{.wire = link::wire_version + 1, .node = 2, .wanted = 1, .incarnation = 4});
  join.resize(join.size() + 100);  // fields unknown to this version
  later.say({Kind::join}, join);
  const std::string words = "node 2 speaks version " + std::to_string(link::wire_version + 1) +
                            "; expected " + std::to_string(link::wire_version);
  CHECK(one.await("join_refused why=" + words));
  const Bytes answer = later.hear();
  REQUIRE(answer.size() == link::header_bytes + words.size());
  CHECK(answer[4] == static_cast<std::uint8_t>(Kind::rejection));
  CHECK(std::string(answer.begin() + link::header_bytes, answer.end()) == words);
  CHECK_FALSE(one.has("peer_met"));
}

TEST_CASE("links: a joined peer that falls silent or sends invalid frames is lost") {
  End one(options_of(1, {{2}}));
  UnknownPeer two(one.port());
  two.say({Kind::join},
          link::encode(link::Join{.node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe"}));
  two.say({Kind::ping}, {});
  CHECK(one.await("peer_met node=2 incarnation=4"));
  two.say({Kind::cargo, {1, Role::router}}, Bytes(24));
  CHECK(one.await("got 24"));
  two.say({Kind::cargo, {5, Role::router}}, Bytes(8));
  CHECK(one.await("no_receiver_at_address"));
  CHECK(one.await("lost 2"));
  CHECK(one.has("no byte arrived within five heartbeats"));
  CHECK(two.hear().size() > link::header_bytes);  // its join and some pings

  UnknownPeer again(one.port());
  again.say({Kind::join},
            link::encode(link::Join{.node = 2, .wanted = 1, .incarnation = 5, .cluster = "troupe"}));
  again.say({Kind::ping}, {});
  CHECK(one.await("incarnation=5"));
  again.say(Bytes(16, 9));
  CHECK(one.await("the received bytes are not a frame"));
}

TEST_CASE("links: without TLS, any flipped bit in cargo ends the connection at once") {
  End one(options_of(1, {{2}}), {2'000'000});  // silence alone would take ten seconds
  const Bytes envelope(24, 7);
  const link::Header header = link::encode(Frame{Kind::cargo, {1, Role::router}, 24 + link::seal_bytes});
  const link::Seal seal = link::seal(header, envelope);
  Bytes good(header.size() + envelope.size() + seal.size());
  const auto after_header = std::ranges::copy(header, good.begin()).out;
  std::ranges::copy(seal, std::ranges::copy(envelope, after_header).out);
  Incarnation incarnation = 4;
  const auto join_and_say = [&](UnknownPeer& two, const Bytes& bytes) {
    two.say({Kind::join}, link::encode(link::Join{.node = 2,
                                                  .wanted = 1,
                                                  .incarnation = ++incarnation,
                                                  .cluster = "troupe",
                                                  .supports_seals = true}));
    two.say({Kind::ping}, {});
    REQUIRE(one.await("peer_met node=2 incarnation=" + std::to_string(incarnation)));
    two.say(bytes);
  };
  const auto lose = [&](std::size_t bit) {
    CAPTURE(bit);
    Bytes bytes = good;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    UnknownPeer two(one.port());
    join_and_say(two, bytes);
    REQUIRE(one.await("peer_lost node=2 incarnation=" + std::to_string(incarnation) + " why=",
                      std::chrono::seconds(5)));
  };
  for (std::size_t bit = 0; bit < 8 * link::header_bytes; ++bit) lose(bit);
  for (const std::size_t at : {16, 39, 40, 47}) lose(8 * at);
  CHECK_FALSE(one.has("got"));
  CHECK(one.has("a frame header was damaged in transit"));
  CHECK(one.has("cargo was damaged in transit"));
  UnknownPeer two(one.port());
  join_and_say(two, good);
  CHECK(one.await("got 24"));
}

TEST_CASE("links: a damaged join does not lock its node out") {
  End one(options_of(1, {{2}}));
  const link::Join join{
      .node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe", .supports_seals = true};
  Bytes damaged = link::encode(join);
  damaged[19] ^= 0x80;  // a byte of the incarnation
  UnknownPeer first(one.port());
  first.say({Kind::join}, damaged);
  first.say({Kind::ping}, {});
  CHECK(one.await("join_refused why=a join was damaged in transit"));
  UnknownPeer again(one.port());
  again.say({Kind::join}, link::encode(join));
  again.say({Kind::ping}, {});
  CHECK(one.await("peer_met node=2 incarnation=4"));
}

TEST_CASE("links: a peer that is removed while it joins is refused") {
  End one(options_of(1, {{2}, {3}}));
  UnknownPeer two(one.port());
  two.say({Kind::join},
          link::encode(link::Join{.node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe"}));
  CHECK(two.hear(link::header_bytes).size() == link::header_bytes);  // it would be accepted
  one.follow({{3}});
  UnknownPeer three(one.port());  // handled after the removal
  three.say({Kind::join},
            link::encode(link::Join{.node = 3, .wanted = 1, .incarnation = 4, .cluster = "troupe"}));
  three.say({Kind::ping}, {});
  REQUIRE(one.await("peer_met node=3"));
  two.say({Kind::ping}, {});
  two.hear();  // until it closes
  CHECK_FALSE(one.has("peer_met node=2"));
}

TEST_CASE("links: a peer with an invalid address is logged and keeps its former one; others are followed") {
  End one(options_of(1, {{2}}));
  UnknownPeer two(one.port());
  two.say({Kind::join},
          link::encode(link::Join{
              .node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe", .supports_seals = true}));
  two.say({Kind::ping}, {});
  REQUIRE(one.await("peer_met node=2"));
  one.follow({{0}, {2}, {2}, {3}});
  CHECK(one.await("bad_members why=a peer is node 0; expected a number from 1"));
  CHECK(one.await("bad_members why=node 2 is listed twice"));
  UnknownPeer three(one.port());
  three.say({Kind::join},
            link::encode(link::Join{.node = 3, .wanted = 1, .incarnation = 4, .cluster = "troupe"}));
  three.say({Kind::ping}, {});
  CHECK(one.await("peer_met node=3"));
  CHECK_FALSE(one.has("it is no longer a member"));
  one.follow(std::vector<PeerAddress>(peers_max + 1, {2}));
  CHECK(one.await("bad_members why=there are 4097 peers"));
  CHECK_FALSE(one.has("it is no longer a member"));
}

TEST_CASE(
    "links: a connection for pages is handed over only if its node has joined, and only if there are any") {
  const auto join_of = [](Incarnation incarnation, bool for_pages) {
    link::Join join{.node = 2, .wanted = 1, .incarnation = incarnation, .cluster = "troupe"};
    join.for_pages = for_pages;
    return link::encode(join);
  };
  std::mutex mutex;
  std::vector<PageSocket> sockets;
  ClusterOptions options = options_of(1, {{2}, {3}});
  options.on_pages = [&](NodeId node, Incarnation incarnation, PageSocket socket) {
    CHECK(node == 2);
    CHECK(incarnation == 4);
    const std::lock_guard lock(mutex);
    sockets.push_back(std::move(socket));
  };
  End one(options, {2'000'000}), without(options_of(1, {{2}}));
  for (End* end : {&one, &without}) {
    UnknownPeer early(end->port());
    early.say({Kind::join}, join_of(4, true));
    CHECK(early.hear().size() > link::header_bytes);  // the reason
  }
  CHECK(one.await("join_refused why=node 2 has not joined; expected it to ask for pages afterwards"));
  CHECK(without.await("join_refused why=node 1 has no pages"));
  UnknownPeer two(one.port());
  two.say({Kind::join}, join_of(4, false));
  two.say({Kind::ping}, {});
  REQUIRE(one.await("peer_met node=2"));
  UnknownPeer later(one.port());
  later.say({Kind::join}, join_of(5, true));  // a process that has not joined
  CHECK(later.hear().size() > link::header_bytes);
  UnknownPeer pages(one.port());
  pages.say({Kind::join}, join_of(4, true));
  const Bytes header = pages.hear(link::header_bytes);
  REQUIRE(header.size() == link::header_bytes);
  CHECK(header[4] == static_cast<std::uint8_t>(Kind::join));
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, header.data() + 12, sizeof bytes);
  CHECK(pages.hear(bytes).size() == bytes);
  pages.say(Bytes(3, 7));
  for (Bytes got(3, 0); got != Bytes(3, 7);) {
    const std::lock_guard lock(mutex);
    if (sockets.empty()) continue;
    sockets.at(0).read(got);
  }
  CHECK_FALSE(one.has("lost 2"));
}

TEST_CASE("links: a removed peer is not called, and is called again once it is back") {
  End one(options_of(1, {{2}}));
  const PeerAddress first{1, "", "127.0.0.1", one.port()};
  End two(options_of(2, {first}));
  REQUIRE(two.await("peer_met node=1"));
  two.follow({});
  REQUIRE(two.await("peer_lost node=1"));
  CHECK_FALSE(two.await("peer_met node=1", std::chrono::milliseconds(600), 2));
  two.follow({first});
  CHECK(two.await("peer_met node=1", std::chrono::seconds(10), 2));
}

TEST_CASE("links: a message to an unknown node is reported like one to an unconnected node") {
  End one(options_of(1, {{2}}));
  one.send(9, 8);
  CHECK(one.await("no_receiver_at_address"));
  CHECK(one.await("lost 9"));
  for (NodeId node = 100; node < 300; ++node) one.send(node, 8);
  CHECK(one.await("lost 299"));
}

TEST_CASE("links: a node with another node's number is refused by its name, however large its incarnation") {
  End one(options_of(1, {{2, "w2"}}));
  UnknownPeer other(one.port());
  other.say({Kind::join}, link::encode(link::Join{.node = 2,
                                                  .wanted = 1,
                                                  .incarnation = 9,
                                                  .cluster = "troupe",
                                                  .supports_seals = true,
                                                  .name = "w7"}));
  CHECK(one.await("join_refused why=node 2 is called \"w7\"; expected \"w2\", which has that number"));
  for (const char* name : {"w2", ""}) {
    CAPTURE(name);
    UnknownPeer two(one.port());
    const Incarnation incarnation = *name ? 10 : 11;
    two.say({Kind::join},
            link::encode(link::Join{
                .node = 2, .wanted = 1, .incarnation = incarnation, .cluster = "troupe", .name = name}));
    two.say({Kind::ping}, {});
    CHECK(one.await("peer_met node=2 incarnation=" + std::to_string(incarnation)));
  }
}

TEST_CASE("links: messages to a slow peer wait up to the bound and are dropped beyond it") {
  End one(options_of(1, {{2}}));
  UnknownPeer two(one.port());  // reads nothing
  two.say({Kind::join},
          link::encode(link::Join{.node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe"}));
  two.say({Kind::ping}, {});
  REQUIRE(one.await("peer_met"));
  for (int i = 0; i < 90; ++i) one.send(2, 1 << 20);
  CHECK(one.await("lost 2"));  // since it does not ping either
  CHECK(one.metrics.value(Metric::messages_undelivered) > 5);
}

TEST_CASE("links: messages that were sent before close() arrive") {
  End one(options_of(1, {{2}}));
  {
    End two(options_of(2, {{1, "", "127.0.0.1", one.port()}}));
    REQUIRE(two.await("peer_met"));
    for (std::size_t i = 0; i < 20; ++i) two.send(1, 100'000 + i);
  }
  for (std::size_t i = 0; i < 20; ++i) CHECK(one.await("got " + std::to_string(100'000 + i)));
  CHECK(one.await("lost 2"));
}

// ---- TLS ----

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("troupe-links-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  TlsFiles files(const Certificate& authority, const Certificate& own, const std::string& name) const {
    const auto put = [&](const std::string& file, const std::string& text) {
      std::ofstream(path_ / file) << text;
      return (path_ / file).string();
    };
    return {put(name + "-ca.pem", authority.certificate), put(name + ".pem", own.certificate),
            put(name + ".key", own.key)};
  }

 private:
  std::filesystem::path path_;
};

// Signs the certificate for other alternative names; "" = none, only the subject is left.
Certificate renamed(const Certificate& authority, Certificate certificate, const std::string& names) {
  const auto memory_of = [](const std::string& text) {
    return std::unique_ptr<BIO, decltype(&BIO_free_all)>(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all);
  };
  const auto read = [&](const std::string& text) {
    return std::unique_ptr<X509, decltype(&X509_free)>(
        PEM_read_bio_X509(memory_of(text).get(), nullptr, nullptr, nullptr), X509_free);
  };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(memory_of(authority.key).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  const auto body = read(certificate.certificate);
  X509_EXTENSION_free(X509_delete_ext(body.get(), X509_get_ext_by_NID(body.get(), NID_subject_alt_name, -1)));
  if (!names.empty()) {
    X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    X509_add_ext(body.get(), made, -1);
    X509_EXTENSION_free(made);
  }
  X509_sign(body.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(BIO_new(BIO_s_mem()), BIO_free_all);
  PEM_write_bio_X509(text.get(), body.get());
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(text.get(), &data);
  certificate.certificate.assign(data, static_cast<std::size_t>(bytes));
  return certificate;
}

TEST_CASE("links: a certificate is valid for its alternative names, not for a pattern or its subject") {
  const Folder folder;
  const Certificate authority = make_authority("blue", 30);
  ClusterOptions options = options_of(1, {{2, "two.blue"}});
  options.tls = folder.files(authority, make_certificate(authority, "one", 30), "one");
  End one(options);
  const Certificate own = make_certificate(authority, "two.blue", 30);
  struct Row {
    const char* names;
    bool is_let_in;
  };
  for (const Row& row : {Row{"DNS:*.blue", false},
                         {"DNS:*", false},
                         {"", false},
                         {"email:two.blue@x", false},
                         {"DNS:two.blue.x", false},
                         {"DNS:other,DNS:two.blue", true}}) {
    CAPTURE(row.names);
    ClusterOptions other = options_of(2, {{1, "one", "127.0.0.1", one.port()}});
    other.tls = folder.files(authority, renamed(authority, own, row.names), "two");
    End two(other);
    CHECK(two.await(row.is_let_in ? "peer_met" : "refused by the peer"));
    CHECK(two.has("peer_met") == row.is_let_in);
  }
  CHECK(one.has("node 2 shows a certificate that is not for \"two.blue\""));
}

TEST_CASE("links: with TLS a peer needs a certificate of the cluster for its own name") {
  const Folder folder;
  const Certificate authority = make_authority("blue", 30), foreign = make_authority("blue", 30);
  ClusterOptions options = options_of(1, {{2, "two"}, {3, "three"}});
  options.tls = folder.files(authority, make_certificate(authority, "one", 30), "one");
  End one(options);
  const auto caller = [&](NodeId node, const TlsFiles& tls, const std::string& expects = "one") {
    ClusterOptions other = options_of(node, {{1, expects, "127.0.0.1", one.port()}});
    other.tls = tls;
    return other;
  };
  {
    End two(caller(2, folder.files(authority, make_certificate(authority, "two", 30), "two")));
    REQUIRE(two.await("peer_met"));
    two.send(1, 3'000'000);
    CHECK(one.await("got 3000000"));
    one.send(2, 5);
    CHECK(two.await("got 5"));
  }
  {  // the certificate of another node
    End three(caller(3, folder.files(authority, make_certificate(authority, "two", 30), "two")));
    CHECK(one.await("node 3 shows a certificate that is not for \"three\""));
    CHECK(three.await("refused by the peer"));
  }
  {  // of another authority
    End three(caller(3, folder.files(foreign, make_certificate(foreign, "three", 30), "foreign")));
    CHECK(three.await("peer_away"));
    CHECK_FALSE(three.has("peer_met"));
  }
  {  // a peer that distrusts the certificate of the other side
    End three(caller(3, folder.files(authority, make_certificate(authority, "three", 30), "three"), "four"));
    CHECK(three.await("node 1 shows a certificate that is not for \"four\""));
    CHECK_FALSE(one.has("peer_met node=3"));
  }
  End clear(options_of(3, {{1, "", "127.0.0.1", one.port()}}));
  CHECK(clear.await("peer_away"));
  CHECK_FALSE(clear.has("peer_met"));
}

TEST_CASE("links: certificates are read again at run time, and unusable files change nothing") {
  const Folder folder;
  const Certificate old_authority = make_authority("blue", 30), authority = make_authority("green", 30);
  ClusterOptions options = options_of(1, {{2, "two"}});
  options.tls = folder.files(old_authority, make_certificate(old_authority, "one", 30), "one");
  End one(options);
  ClusterOptions other = options_of(2, {{1, "one", "127.0.0.1", one.port()}});
  other.tls = folder.files(authority, make_certificate(authority, "two", 30), "two");
  End two(other);
  CHECK(two.await("peer_away"));
  std::ofstream(options.tls->key) << "no key";
  CHECK(one.renew_certificates().find("one.key") != std::string::npos);
  folder.files(authority, make_certificate(authority, "one", 30), "one");
  CHECK(one.renew_certificates().empty());
  CHECK(two.await("peer_met"));
}

TEST_CASE("links: unusable certificates are reported before anything is opened") {
  const Folder folder;
  const Certificate authority = make_authority("blue", 30);
  MetricRegistry metrics;
  const Journal journal(metrics, nullptr);
  ClusterOptions options = options_of(1, {});
  options.incarnation = 1;
  options.tls = folder.files(authority, make_certificate(authority, "one", 30), "one");
  options.tls->key = folder.files(authority, make_certificate(authority, "two", 30), "two").key;
  CHECK_THROWS_WITH_AS(Links(options, {}, journal), doctest::Contains("two.key"), std::runtime_error);
  options.tls->certificate = "/nowhere.pem";
  CHECK_THROWS_WITH_AS(Links(options, {}, journal), doctest::Contains("/nowhere.pem"), std::runtime_error);
  CHECK_THROWS_WITH_AS(make_certificate(authority, "two words", 30), doctest::Contains("does not fit"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(make_certificate({authority.certificate, make_authority("x", 1).key}, "a", 1),
                       doctest::Contains("not that of its certificate"), std::runtime_error);
  CHECK_THROWS_AS(make_certificate({"no", "no"}, "a", 1), std::runtime_error);
  CHECK_THROWS_AS(make_certificate(authority, "a", 0), std::runtime_error);
}

}  // namespace
}  // namespace troupe
