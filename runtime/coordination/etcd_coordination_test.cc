#include "runtime/coordination/etcd_coordination.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "runtime/testing/etcd_test_server.h"

namespace troupe {
namespace etcd_coordination_test {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t short_us = 300'000, long_us = 20'000'000;
constexpr std::chrono::seconds hang(15);  // longer than any limit here, however busy the machine is

CoordinationReply ask(Coordination& at, const decltype(Coordinate::what)& what) {
  const auto answer = at.ask(Coordinate{what});
  if (const auto* refusal = std::get_if<Refusal>(&answer)) FAIL(refusal->where << ": " << refusal->what);
  return std::get<CoordinationReply>(answer);
}

Refusal refusal_of(Coordination& at, const decltype(Coordinate::what)& what) {
  const Clock::time_point began = Clock::now();
  const auto answer = at.ask(Coordinate{what});
  CHECK(Clock::now() - began < hang);
  REQUIRE(std::holds_alternative<Refusal>(answer));
  const Refusal refusal = std::get<Refusal>(answer);
  CHECK(refusal.kind == RefusalKind::unavailable);
  CHECK(refusal.code == "coordination_unavailable");
  CHECK(refusal.what != "");
  CHECK(refusal.where.find("http://127.0.0.1:") == 0);
  return refusal;
}

bool lacks(const EtcdServer& etcd) {
  if (!etcd.here()) MESSAGE("skipped: no etcd on this machine");
  return !etcd.here();
}

const std::vector<decltype(Coordinate::what)> all_questions{ReadKey{"k"},          WatchKey{"k", 0, 1},
                                                            WriteKey{"k", "v", 0}, EraseKey{"k", 3},
                                                            OpenLease{1'000'000},  KeepLease{5}};

// Takes one request at a time, answers it with the test's text, then closes.
class FakeServer {
 public:
  using Serve = std::function<void(int socket)>;

  explicit FakeServer(Serve serve) : serve_(std::move(serve)), listening_(listen_somewhere(port_)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeServer() {
    ends_ = true;
    shutdown(listening_, SHUT_RDWR);
    thread_.join();
    close(listening_);
  }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }

 private:
  void run() {
    while (!ends_) {
      const int socket = accept(listening_, nullptr, nullptr);
      if (socket < 0) return;
      const timeval timeout{5, 0};
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
      std::string text;
      char part[4096];
      ssize_t got = 0;
      while (text.find("}") == std::string::npos && (got = recv(socket, part, sizeof part, 0)) > 0)
        text.append(part, static_cast<std::size_t>(got));
      if (!text.empty()) ++requests_;
      if (!text.empty()) serve_(socket);
      close(socket);
    }
  }

  Serve serve_;
  std::atomic<int> requests_ = 0;
  std::atomic<bool> ends_ = false;
  std::uint16_t port_ = 0;
  int listening_;
  std::thread thread_;
};

// Returns false once the client has closed.
bool say(int socket, const std::string& text) {
  return send(socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}
FakeServer::Serve saying(std::string text) {
  return [text = std::move(text)](int socket) { say(socket, text); };
}
// Repeats until nobody listens.
FakeServer::Serve repeating(std::string head, std::string text, std::chrono::milliseconds pause) {
  return [=](int socket) {
    if (say(socket, head))
      while (say(socket, text)) std::this_thread::sleep_for(pause);
  };
}
std::string ok_with(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
const std::string header = R"("header":{"cluster_id":"1","revision":"9"})";
const std::string absent = "{" + header + "}";

TEST_CASE("etcd coordination: invalid options are refused with what was expected") {
  for (const char* endpoints :
       {"", "127.0.0.1:2379", "http://", "http://:2379", "http://127.0.0.1", "http://127.0.0.1:0",
        "http://127.0.0.1:99999", "http://127.0.0.1:2379/", "http://a b:1", "http://a:1,", ",http://a:1",
        "https://", "https://a", "http://u:p@a:1"}) {
    CAPTURE(endpoints);
    CHECK_THROWS_WITH_AS(EtcdCoordination({.endpoints = endpoints}), doctest::Contains("expected http://"),
                         std::runtime_error);
  }
  CHECK_NOTHROW(EtcdCoordination({.endpoints = "http://[::1]:2379,http://etcd-1.etcd:2379"}));
  CHECK_NOTHROW(EtcdCoordination({.endpoints = "https://a:1"}));
  CHECK_THROWS_AS(EtcdCoordination({.prefix = ""}), std::runtime_error);
  CHECK_THROWS_AS(EtcdCoordination({.prefix = "/troupe"}), std::runtime_error);
  CHECK_THROWS_AS(EtcdCoordination({.limit_us = 0}), std::runtime_error);
}

TEST_CASE("etcd coordination: a plain endpoint beside https, or with TLS files, is refused by name") {
  for (const char* endpoints :
       {"http://a:1,https://b:2", "https://b:2,http://a:1", "https://b:2,http://a:1,https://c:3"}) {
    CAPTURE(endpoints);
    CHECK_THROWS_WITH_AS(EtcdCoordination({.endpoints = endpoints, .login = {"ann", "sesame"}}),
                         doctest::Contains("\"http://a:1\" is in the clear"), std::runtime_error);
  }
  const auto tls = std::make_shared<const TlsClient>(TlsClientFiles{});
  CHECK_THROWS_WITH_AS(EtcdCoordination({.endpoints = "http://a:1,http://b:2", .tls = tls}),
                       doctest::Contains("\"http://a:1\" is in the clear"), std::runtime_error);
  CHECK_NOTHROW(
      EtcdCoordination({.endpoints = "https://a:1,https://b:2", .tls = tls, .login = {"ann", "sesame"}}));
  CHECK_NOTHROW(EtcdCoordination({.endpoints = "http://a:1,http://b:2", .login = {"ann", "sesame"}}));
}

TEST_CASE("etcd coordination: an unreachable etcd is unavailable, with and without a login") {
  for (const Login& login : {Login{}, Login{"ann", "sesame"}}) {
    EtcdCoordination coordination({.endpoints = "http://127.0.0.1:1", .limit_us = 300'000, .login = login});
    const auto answer = coordination.ask({ReadKey{"versions"}});
    REQUIRE(std::holds_alternative<Refusal>(answer));
    CHECK(std::get<Refusal>(answer).kind == RefusalKind::unavailable);
  }
}

TEST_CASE("etcd coordination: clusters with different prefixes do not see each other's keys") {
  EtcdServer& etcd = shared_etcd();
  if (lacks(etcd)) return;
  EtcdCoordination one({etcd.endpoint(), "/troupe/one/", long_us}),
      two({etcd.endpoint(), "/troupe/two/", long_us});
  CHECK(ask(one, WriteKey{"k", "v", 0}).ok);
  CHECK(ask(two, ReadKey{"k"}).revision == 0);
  CHECK(ask(two, WriteKey{"k", "w", 0}).ok);
  CHECK(ask(one, ReadKey{"k"}).value == "v");
}

TEST_CASE("etcd coordination: leases and keys outlive their adapter and a restart of etcd") {
  EtcdServer etcd;
  if (lacks(etcd)) return;
  const EtcdOptions options{etcd.endpoint(), "/troupe/t/", long_us};
  auto first = std::make_unique<EtcdCoordination>(options);
  const LeaseId lease = ask(*first, OpenLease{600'000'000}).lease;
  const Revision bound = ask(*first, WriteKey{"leader", "1", 0, lease}).revision;
  first.reset();
  EtcdCoordination second(options);
  CHECK(ask(second, KeepLease{lease}).ok);
  etcd.crash();
  CHECK(refusal_of(second, ReadKey{"leader"}).what == "Connection refused");
  CHECK(refusal_of(second, WriteKey{"leader", "2", bound}).what == "Connection refused");
  etcd.start();
  CHECK(ask(second, ReadKey{"leader"}).revision == bound);
  CHECK(ask(second, KeepLease{lease}).ok);
  CHECK(ask(second, WriteKey{"leader", "2", bound, lease}).revision > bound);
}

// A change after the server's restart uses a new connection, because the old ones are found closed.
TEST_CASE("etcd coordination: connections broken by a restart are replaced before a change is sent") {
  EtcdServer etcd;
  if (lacks(etcd)) return;
  EtcdCoordination at({etcd.endpoint(), "/troupe/t/", long_us});
  std::vector<std::thread> threads;  // so that several connections are idle
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { at.ask({WatchKey{"k", 0, 200'000}}); });
  for (std::thread& thread : threads) thread.join();
  etcd.crash();
  etcd.start();
  Revision seen = 0;
  for (int i = 0; i < 5; ++i) seen = ask(at, WriteKey{"k", "v", seen}).revision;
  CHECK(seen > 0);
}

TEST_CASE("etcd coordination: a hung etcd gives a refusal at the limit, and nothing is sent again") {
  EtcdServer etcd;
  if (lacks(etcd)) return;
  EtcdCoordination patient({etcd.endpoint(), "/troupe/t/", long_us});
  EtcdCoordination at({etcd.endpoint(), "/troupe/t/", short_us});
  const Revision first = ask(patient, WriteKey{"k", "v", 0}).revision;
  const auto warm = [&] { return std::holds_alternative<CoordinationReply>(at.ask({ReadKey{"k"}})); };
  for (int tries = 0; tries < 100 && !warm();) ++tries;  // ensures that it has a connection
  etcd.freeze();
  for (const auto& what : all_questions) {
    const Clock::time_point began = Clock::now();
    CHECK(refusal_of(at, what).what == "no answer in time");
    CHECK(Clock::now() - began >= std::chrono::microseconds(short_us));
  }
  CHECK(refusal_of(at, WriteKey{"k", "late", first}).what == "no answer in time");
  etcd.thaw();
  // A refused change may still take place later, but never over a newer revision.
  for (const char* value : {"w", "x"}) {
    CoordinationReply now, written;
    for (int tries = 0; tries < 100 && !written.ok; ++tries) {
      now = ask(patient, ReadKey{"k"});
      written = ask(patient, WriteKey{"k", value, now.revision});
    }
    CHECK(written.revision > now.revision);
  }
}

TEST_CASE("etcd coordination: any foreign answer is a refusal, never a crash or a hang") {
  using std::chrono::milliseconds;
  const std::string chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  const std::string endless = "HTTP/1.1 200 OK\r\n\r\n";
  const std::vector<std::pair<const char*, FakeServer::Serve>> strangers{
      {"nothing", saying("")},
      {"another protocol", saying("220 mail.example ESMTP\r\n")},
      {"zeros", saying(std::string(5'000, '\0'))},
      {"a page", saying(ok_with("<html><body>It works!</body></html>"))},
      {"not found",
       saying("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 10\r\n\r\nNot Found\n")},
      {"elsewhere", saying("HTTP/1.1 307 Moved\r\nconnection: close\r\nlocation: "
                           "http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")},
      {"go on", saying("HTTP/1.1 100 Continue\r\nconnection: close\r\n\r\n")},
      {"an empty object", saying(ok_with("{}"))},
      {"half of the JSON", saying(ok_with(R"({"header":{"cluster_id":"1","rev)"))},
      {"half of the body", saying("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + absent)},
      {"wrong types", saying(ok_with(R"({"header":{"cluster_id":1,"revision":[]},"kvs":7})"))},
      {"deep nesting", saying(ok_with(std::string(2 << 20, '[')))},
      {"chunks of no size", saying(chunked + "zz\r\nabc\r\n0\r\n\r\n")},
      {"a chunk of all bytes", saying(chunked + "ffffffffffffffff\r\nabc")},
      {"two lengths",
       saying("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\ncontent-length: 9\r\n\r\n{}")},
      {"a huge length", saying("HTTP/1.1 200 OK\r\ncontent-length: 999999999999999\r\n\r\n{")},
      {"a body without end", repeating(endless, std::string(1 << 20, ' '), milliseconds(0))},
      {"a header without end", repeating("HTTP/1.1 200 OK\r\n", "x: y\r\n", milliseconds(0))},
      {"drop by drop", repeating(endless, " ", milliseconds(20))},
  };
  for (const auto& [name, serve] : strangers) {
    CAPTURE(name);
    FakeServer fake(serve);
    EtcdCoordination at({.endpoints = fake.endpoint(), .limit_us = short_us});
    for (const auto& what : all_questions) {
      const Refusal refusal = refusal_of(at, what);
      CHECK(refusal.where.find(fake.endpoint() + "/v3/") == 0);
    }
    CHECK(fake.requests() >= 6);
  }
}

TEST_CASE("etcd coordination: a response is bounded in bytes, long before the deadline") {
  FakeServer body(repeating("HTTP/1.1 200 OK\r\n\r\n", std::string(1 << 20, ' '), {}));
  FakeServer head(repeating("HTTP/1.1 200 OK\r\n", "x: y\r\n", {}));
  EtcdCoordination first({.endpoints = body.endpoint(), .limit_us = long_us});
  CHECK(refusal_of(first, ReadKey{"k"}).what == "body limit exceeded");
  EtcdCoordination second({.endpoints = head.endpoint(), .limit_us = long_us});
  CHECK(refusal_of(second, ReadKey{"k"}).what == "header limit exceeded");
}

TEST_CASE("etcd coordination: a sent change is not sent to another endpoint, a read is") {
  FakeServer broken(saying("")), good(saying(ok_with(absent)));
  const EtcdOptions options{.endpoints = broken.endpoint() + "," + good.endpoint(), .limit_us = long_us};
  for (const auto& change : {all_questions[2], all_questions[3], all_questions[4]}) {
    EtcdCoordination at(options);
    CHECK(refusal_of(at, change).where.find(broken.endpoint()) == 0);
  }
  CHECK(good.requests() == 0);
  EtcdCoordination at(options);
  CHECK(ask(at, ReadKey{"k"}).revision == 0);
  CHECK(good.requests() == 2);  // the key, and the history of revisions
  CHECK(broken.requests() == 4);
  CHECK(ask(at, ReadKey{"k"}).revision == 0);  // the endpoint that answered is now asked first
  CHECK(broken.requests() == 4);
}

TEST_CASE("etcd coordination: after a failed change the next question goes to another endpoint") {
  FakeServer broken(saying("")), good(saying(ok_with(absent)));
  EtcdCoordination at({.endpoints = broken.endpoint() + "," + good.endpoint(), .limit_us = long_us});
  refusal_of(at, WriteKey{"k", "v", 0});
  CHECK(ask(at, ReadKey{"k"}).ok);
  CHECK(broken.requests() == 1);
}

TEST_CASE(
    "etcd coordination: an absent endpoint costs a change nothing, a silent one costs a read its share") {
  FakeServer written(
      saying(ok_with("{" + header + R"(,"succeeded":true,"responses":[{"response_put":{}}]})")));
  EtcdCoordination at(
      {.endpoints = "http://127.0.0.1:" + std::to_string(free_port()) + "," + written.endpoint(),
       .limit_us = long_us});
  CHECK(ask(at, WriteKey{"k", "v", 0}).revision == 9);
  FakeServer silent([](int socket) {
    char byte = 0;
    recv(socket, &byte, 1, 0);  // until the client closes
  });
  FakeServer good(saying(ok_with(absent)));
  EtcdCoordination reads({.endpoints = silent.endpoint() + "," + good.endpoint(), .limit_us = 2 * short_us});
  CHECK(ask(reads, ReadKey{"k"}).ok);
}

TEST_CASE("etcd coordination: when no endpoint answers, the refusal has the first one's reason, and others") {
  const auto refusal_at = [](const std::string& endpoints) {
    EtcdCoordination at({.endpoints = endpoints, .limit_us = 2 * short_us});
    return refusal_of(at, ReadKey{"k"});
  };
  const std::string absent_one = "http://127.0.0.1:" + std::to_string(free_port());
  const Refusal both = refusal_at(absent_one + ",http://127.0.0.1:1");
  CHECK(both.what == "Connection refused");
  CHECK(both.where.starts_with(absent_one + "/"));
  FakeServer silent([](int socket) {
    char byte = 0;
    recv(socket, &byte, 1, 0);  // until the client closes
  });
  const Refusal mixed = refusal_at(absent_one + "," + silent.endpoint());
  CHECK(mixed.what.starts_with("Connection refused; " + silent.endpoint() + "/"));
  CHECK(mixed.where.starts_with(absent_one + "/"));
}

TEST_CASE(
    "etcd coordination: revisions that go back and cannot be raised, or another cluster's, are refused") {
  std::atomic<int> revision = 9, cluster = 1;
  FakeServer changing([&](int socket) {
    say(socket, ok_with(R"({"header":{"cluster_id":")" + std::to_string(cluster) + R"(","revision":")" +
                        std::to_string(revision) + "\"}}"));
  });
  EtcdCoordination at({.endpoints = changing.endpoint(), .limit_us = long_us});
  CHECK(ask(at, ReadKey{"k"}).ok);
  revision = 8;
  const auto back = at.ask({ReadKey{"k"}});
  REQUIRE(std::holds_alternative<Refusal>(back));
  CHECK(std::get<Refusal>(back).what == "the store went back from revision 9 to 8");
  revision = 10;
  CHECK(ask(at, ReadKey{"k"}).ok);
  cluster = 2;
  CHECK(refusal_of(at, ReadKey{"k"}).what == "this is etcd cluster 2, before it was 1");
}

// Notes the losses that an adapter reports.
struct Losses {
  std::mutex mutex;
  std::vector<std::string> what;
  EtcdOptions options(const EtcdServer& etcd) {
    EtcdOptions options{etcd.endpoint(), "/troupe/t/", long_us};
    options.on_loss = [this](const std::string& which, const std::string& why) {
      CHECK(why != "");
      const std::lock_guard held(mutex);
      what.push_back(which);
    };
    return options;
  }
};

TEST_CASE("etcd coordination: after etcd lost its data, revisions are above all that were seen before") {
  EtcdServer etcd;
  if (lacks(etcd)) return;
  Losses losses;
  EtcdCoordination old(losses.options(etcd)), other(losses.options(etcd));
  Revision seen = 0;
  for (int i = 0; i < 40; ++i) seen = ask(old, WriteKey{"versions", "m" + std::to_string(i), seen}).revision;
  CHECK(ask(other, ReadKey{"versions"}).revision == seen);
  etcd.crash();
  etcd.empty();
  etcd.start();
  EtcdCoordination fresh(losses.options(etcd));  // a process that was started since
  const Revision low = ask(fresh, WriteKey{"fresh", "1", 0}).revision;
  CHECK(low < seen);
  CHECK_FALSE(ask(old, WriteKey{"versions", "stale", seen}).ok);
  const CoordinationReply lost = ask(old, ReadKey{"versions"});
  CHECK(lost.revision == 0);
  const Revision again = ask(old, WriteKey{"versions", "m39", 0}).revision;
  CHECK(again > seen);
  for (EtcdCoordination* at : {&old, &other, &fresh}) {
    CHECK(ask(*at, ReadKey{"versions"}).revision == again);
    CHECK(ask(*at, ReadKey{"fresh"}).revision == low);  // not changed since the loss
  }
  CHECK(ask(fresh, WriteKey{"fresh", "2", low}).revision > again);
  CHECK(losses.what == std::vector<std::string>{"emptied", "emptied"});  // old and other, each once
}

TEST_CASE("etcd coordination: an etcd that was restored from a copy shows older keys with their revisions") {
  EtcdServer etcd;
  if (lacks(etcd)) return;
  Losses losses;
  EtcdCoordination old(losses.options(etcd));
  Revision copied = 0;
  for (int i = 0; i < 10; ++i) copied = ask(old, WriteKey{"versions", "m1", copied}).revision;
  etcd.crash();
  etcd.copy();
  etcd.start();
  Revision seen = copied;
  for (int i = 0; i < 20; ++i) seen = ask(old, WriteKey{"versions", "m2", seen}).revision;
  etcd.crash();
  etcd.restore();
  etcd.start();
  const CoordinationReply restored = ask(old, ReadKey{"versions"});
  CHECK(restored.revision == copied);
  CHECK(restored.value == "m1");
  CHECK_FALSE(ask(old, WriteKey{"versions", "m3", seen}).ok);
  CHECK(ask(old, WriteKey{"versions", "m2", copied}).revision > seen);
  CHECK(losses.what == std::vector<std::string>{"went_back"});
}

TEST_CASE("etcd coordination: a history that is none is refused with its key") {
  EtcdServer& etcd = shared_etcd();
  if (lacks(etcd)) return;
  EtcdCoordination writer({etcd.endpoint(), "/troupe/", long_us});
  CHECK(ask(writer, WriteKey{"bad/history", "none", 0}).ok);
  EtcdCoordination at({etcd.endpoint(), "/troupe/bad/", long_us});
  const auto answer = at.ask({ReadKey{"k"}});
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).where == "etcd key /troupe/bad/history");
}

}  // namespace etcd_coordination_test
}  // namespace troupe
