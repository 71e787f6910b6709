// Attacks over connections: clients of the HTTP server, peers, Redis, etcd, a Troupe server, and clients
// of the control socket.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

#include "deploy/lab/bench/child_process.h"
#include "deploy/node/control_socket.h"
#include "runtime/coordination/etcd_http.h"
#include "runtime/coordination/etcd_messages.h"
#include "runtime/network/link_wire.h"
#include "runtime/network/links.h"
#include "runtime/pool/page_arena.h"
#include "runtime/redis/redis_connection.h"
#include "runtime/testing/link_sockets.h"
#include "runtime/testing/store_test_folder.h"
#include "runtime/transfer/page_connection.h"
#include "runtime/transfer/pull_wire.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/wire/codec.h"
#include "server/http/http_client.h"
#include "tests/fuzz/tiny_world.h"
#include "tests/readers/attack.h"
#include "tests/readers/endless.h"

namespace troupe::readers {
namespace {

using namespace std::chrono_literals;

// ---- the HTTP server ----

const std::string post = "POST /v1/rank HTTP/1.1\r\nHost: a\r\n",
                  chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
const std::string terabyte_text = std::to_string(terabyte), terabyte_hex = "10000000000";

void add_server(std::vector<Attack>& all) {
  const auto box = std::make_shared<fuzz::ServedNode>();
  const auto add = [&](std::string name, Endless what, std::string code) {
    all.push_back({"door",
                   std::move(name),
                   4 * mib,  // the node itself needs memory, too
                   [box, what] { return say_endlessly(box->port(), what); },
                   {code, "\"message\":", "\"where\":", "\"expected\":"}});
  };
  add("a head without end", {post + "y: "}, "header_too_long");
  add("fields without end", {post, "y: z\r\n"}, "header_too_long");
  add("a body of a terabyte", {post + "Content-Length: " + terabyte_text + "\r\n\r\n"}, "body_too_long");
  add("a chunk of a terabyte", {chunked + terabyte_hex + "\r\n"}, "body_too_long");
  add("chunks without end", {chunked, "1000\r\n" + std::string(0x1000, ' ') + "\r\n"}, "body_too_long");
  add("a chunk that says without end", {chunked + "1;a=\""}, "extension");
  add("a trailer without end", {chunked + "0\r\ny: "}, "trailer");
  add("trailers without end", {chunked + "0\r\n", "y: z\r\n"}, "trailer");
}

// ---- peers ----

// The links of node 1, which knows a node 2, and their log.
class TestLinks {
 public:
  TestLinks() {
    ClusterOptions place;
    place.node = 1, place.incarnation = 1, place.peers = {{2}}, place.heartbeat = {2'000'000};
    links_ =
        std::make_unique<Links>(place, Links::Inside{[](NodeId, Address, auto) {}, [](NodeId) {}}, journal_);
    links_->open();
  }
  std::uint16_t port() const { return links_->port(); }
  std::string written(const std::string& awaited) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 5s, [&] { return text_.find(awaited) != std::string::npos; });
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  MetricRegistry metrics_;
  Journal journal_{metrics_, [this](LogLevel, std::string_view, std::string_view event, auto fields) {
                     const std::lock_guard lock(mutex_);
                     text_ += event;
                     for (const LogField& field : fields) text_ += " " + field.name + "=" + field.value;
                     changed_.notify_all();
                   }};
  std::unique_ptr<Links> links_;  // destroyed first
};

std::string bytes_of(link::Frame frame, const Bytes& body = {}, bool is_whole = true) {
  if (is_whole) frame.bytes = static_cast<std::uint32_t>(body.size());
  const link::Header header = link::encode(frame);
  std::string bytes(header.begin(), header.end());
  return bytes.append(body.begin(), body.end());
}

void add_links(std::vector<Attack>& all) {
  constexpr std::uint32_t much = 0xFFFF'FFFF;
  all.push_back({"links",
                 "a stranger's join of 4 GiB",
                 mib,
                 [] {
                   TestLinks one;
                   return say_endlessly(one.port(), {bytes_of({link::Kind::join, {}, much}, {}, false)});
                 },
                 {"a frame has 4294967295 bytes", "expected at most"}});
  all.push_back({"links",
                 "a stranger that turns away without end",
                 mib,
                 [] {
                   TestLinks one;
                   return say_endlessly(one.port(), {bytes_of({link::Kind::rejection, {}, much}, {}, false)});
                 },
                 {"a frame has 4294967295 bytes", "expected at most"}});
  all.push_back(
      {"links",
       "a peer's cargo of 4 GiB",
       mib,
       [] {
         TestLinks one;
         const Bytes join =
             link::encode(link::Join{.node = 2, .wanted = 1, .incarnation = 4, .cluster = "troupe"});
         say_endlessly(one.port(), {bytes_of({link::Kind::join}, join) + bytes_of({link::Kind::ping}) +
                                    bytes_of({link::Kind::cargo, {1, Role::router}, much}, {}, false)});
         return one.written("peer_lost");
       },
       {"node=2", "a frame has 4294967295 bytes", "expected at most 67108864"}});
}

// In the encoded envelope every list claims to have half a billion elements.
std::string decode_with_long_lists() {
  ScoreRequest request;
  request.items.resize(3);
  for (TokenList& item : request.items) item.tokens = {1, 2, 3, 4, 5, 6, 7};
  const Bytes good = encode(Envelope{{1, Role::router}, request});
  std::string said;
  for (std::size_t at = 8; at < good.size(); at += 8) {  // after the table of segments
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, good.data() + at, 4);
    std::memcpy(&high, good.data() + at + 4, 4);
    if ((low & 3) != 1) continue;  // not a list pointer
    Bytes bad = good;
    high |= 0xFFFF'FFF8;
    std::memcpy(bad.data() + at + 4, &high, 4);
    const auto decoded = decode(bad);
    said += std::holds_alternative<std::string>(decoded) ? std::get<std::string>(decoded) + "\n" : "taken\n";
  }
  return said;
}

void add_codec(std::vector<Attack>& all) {
  all.push_back({"codec", "lists of half a billion elements", mib, decode_with_long_lists, {"envelope: "}});
}

// A request for pages that claims more pages than it has, and a reply with more than a header.
std::string parse_long_pulls() {
  Bytes request = encode(PullRequest{1, 1, 1, 4096, {1, 2, 3}});
  const std::uint32_t much = 0xFFFF'FFFF;
  std::memcpy(request.data() + 4, &much, sizeof much);
  if (parse_request(request)) return "taken";
  request.resize(std::size_t{64} << 10);
  if (parse_request(request)) return "taken";
  request = encode(PullRequest{1, 1, 1, 4096, {1, 2, 3}, 1'024, 1'024});
  std::memcpy(request.data() + 4, &much, sizeof much);
  if (parse_request(request)) return "taken";
  if (parse_reply(Bytes(1 << 16))) return "taken";
  return unpack_ucx_address({1, 13}, Bytes(1 << 16)) ? "taken" : "refused";
}

// A node on a connection for pages announces a message of 4 GiB to an owner, or to a reader.
std::string announce_much(std::size_t message_max) {
  const auto [here, there] = tcp_pair();
  PageConnection receiver{PageSocket(here), message_max};
  const std::uint32_t much = 0xFFFF'FFFF;
  const bool sent = send(there, &much, sizeof much, MSG_NOSIGNAL) == sizeof much;
  while (sent && receiver.failure().empty() && !receiver.receive()) continue;
  close(there);
  return "node 2 " + receiver.failure();
}

void add_pages(std::vector<Attack>& all) {
  for (const std::size_t most : {request_bytes_max, reply_header_bytes + piece_bytes})
    all.push_back({"pages",
                   "a message of 4 GiB on a connection for pages",
                   mib,
                   [most] { return announce_much(most); },
                   {"node 2 has sent a message of 4294967295 bytes", "expected 1.." + std::to_string(most)}});
}

void add_pull(std::vector<Attack>& all) {
  all.push_back({"pull",
                 "4 billion pages, an address and a header of 64 KiB",
                 256 * kib,
                 parse_long_pulls,
                 {"refused"}});
}

// ---- servers that are queried ----

std::string ask_redis(const Endless& what) {
  EndlessServer server(what);
  const RedisDeadline deadline = std::chrono::steady_clock::now() + 30s;
  auto opened = RedisConnection::open({.host = "127.0.0.1", .port = server.port()}, deadline);
  if (auto* failure = std::get_if<RedisFailure>(&opened)) return failure->why;
  const RedisCommand commands[] = {{"GET", "a"}};
  auto run = std::get<std::unique_ptr<RedisConnection>>(opened)->run(commands, deadline);
  const auto* failure = std::get_if<RedisFailure>(&run);
  return failure ? failure->why : "taken";
}

void add_redis(std::vector<Attack>& all) {
  // The allowed bytes, twice (the reader's buffer doubles), and the elements of all lists.
  constexpr std::size_t most = (std::size_t{48} << 20) + (std::size_t{1} << 18) * 96;
  const auto add = [&](std::string name, Endless what, std::vector<std::string> says) {
    all.push_back({"redis", std::move(name), most, [what] { return ask_redis(what); }, std::move(says)});
  };
  const std::vector<std::string> too_long{"a reply that is too long", "expected at most 16777216 bytes"};
  add("a text of a terabyte", {"$" + terabyte_text + "\r\n"}, too_long);
  add("a line without end", {"+"}, too_long);
  add("a list of a billion", {"*1000000000\r\n", ":1\r\n"},
      {"not a Redis reply: a list of 1000000000 elements", "expected at most 65536"});
  add("lists in lists", {"*65536\r\n*65536\r\n*65536\r\n*65536\r\n*65536\r\n", ":1\r\n"},
      {"expected at most"});
  add("empty lists without end",
      {"*65536\r\n", "*1000\r\n" +
                         [] {
                           std::string ones;
                           for (int i = 0; i < 1000; ++i) ones += ":1\r\n";
                           return ones;
                         }()},
      {"expected at most"});
}

// Attacks of a server that answers by HTTP.
std::vector<std::pair<std::string, Endless>> http_answers() {
  const std::string ok = "HTTP/1.1 200 OK\r\n", chunks = ok + "Transfer-Encoding: chunked\r\n\r\n";
  return {
      {"a head without end", {ok + "y: "}},
      {"fields without end", {ok, "y: z\r\n"}},
      {"a body of a terabyte", {ok + "Content-Length: " + terabyte_text + "\r\n\r\n"}},
      {"a body to the end of the connection", {ok + "\r\n"}},
      {"a chunk of a terabyte", {chunks + terabyte_hex + "\r\n"}},
      {"chunks without end", {chunks, "1000\r\n" + std::string(0x1000, ' ') + "\r\n"}},
      {"a chunk that says without end", {chunks + "1;a=\""}},
      {"chunks that say much without end", {chunks, "1;a=" + std::string(4000, 'b') + "\r\nx\r\n"}},
      {"a trailer without end", {chunks + "0\r\ny: "}},
      {"trailers without end", {chunks + "0\r\n", "y: z\r\n"}},
      {"interim answers without end", {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"}}};
}

std::string ask_etcd(const Endless& what) {
  EndlessServer server(what);
  EtcdEndpoint etcd("http://127.0.0.1:" + std::to_string(server.port()));
  const auto by = std::chrono::steady_clock::now() + 3s;
  const auto answer = etcd.post("/v3/kv/range", "{}", "", by, by);
  if (const auto* silence = std::get_if<EtcdNoReply>(&answer)) return "silence: " + silence->what;
  const EtcdReply& reply = std::get<EtcdReply>(answer);
  const auto read = etcd_answer({.what = ReadKey{"a"}}, "p", reply.status, reply.body);
  const auto* fault = std::get_if<EtcdFault>(&read);
  return fault ? "fault: " + fault->what : "taken";
}

// The memory to parse 4 MiB.
std::string read_etcd_text(std::string_view again) {
  std::string body = "[";
  while (body.size() < EtcdEndpoint::body_bytes_max) body += again;
  const auto read = etcd_answer({.what = ReadKey{"a"}}, "p", 200, body + "0]");
  const auto* fault = std::get_if<EtcdFault>(&read);
  return fault ? fault->what : "taken";
}

std::string ask_server(const Endless& what) {
  EndlessServer server(what);
  const server::HttpReply reply =
      server::http_call({.server = "127.0.0.1:" + std::to_string(server.port()), .timeout_us = 3'000'000});
  return "status " + std::to_string(reply.status);
}

void add_http(std::vector<Attack>& all) {
  for (const auto& [name, what] : http_answers()) {
    const bool interim = name.starts_with("interim");
    // A growing body has the old and the new buffer at once; the connection needs some more.
    all.push_back({"etcd",
                   name,
                   3 * EtcdEndpoint::body_bytes_max + mib / 16,
                   [what = what] { return ask_etcd(what); },
                   {interim ? "fault: " : "silence: "}});
    all.push_back({"server",
                   name,
                   100 * mib,
                   [what = what] { return ask_server(what); },
                   {interim ? "status 100" : "; expected a running troupe server"}});
  }
  all.push_back({"etcd",
                 "two million numbers",
                 5 * EtcdEndpoint::body_bytes_max,
                 [] { return read_etcd_text("0,"); },
                 {"expected a JSON object"}});
  all.push_back({"etcd",
                 "four million levels",
                 5 * EtcdEndpoint::body_bytes_max,
                 [] { return read_etcd_text("["); },
                 {"expected a JSON object"}});
}

// ---- this machine ----

void add_machine(std::vector<Attack>& all) {
  all.push_back({"control",
                 "a question without end",
                 64 * mib,  // opens a store
                 [] {
                   const TestFolder folder;
                   Store store(folder.path());
                   const deploy::ControlSocket control(folder.path(), store);
                   return say_endlessly(folder.path() / "control", {"", "x"});
                 },
                 {"is an unknown question; expected copy"}});
  all.push_back({"control",
                 "an answer without end",
                 mib,
                 [] {
                   const TestFolder folder;
                   const EndlessServer server({"ok "}, folder.path() / "control");
                   const deploy::StoreCopy asked(folder.path());
                   return std::string("taken");
                 },
                 {"made no copy", "expected one"}});
  all.push_back({"child",
                 "a program that writes without end",
                 52 * mib,
                 [] {
                   const deploy::ChildResult result = deploy::run_child(
                       {.arguments = {"cat", "/dev/zero"}, .environment = {}, .limit = 500ms});
                   return result.failure;
                 },
                 {"killed after"}});
}

}  // namespace

std::vector<Attack> network_attacks() {
  std::vector<Attack> all;
  add_server(all);
  add_links(all);
  add_codec(all);
  add_pages(all);
  add_pull(all);
  add_redis(all);
  add_http(all);
  add_machine(all);
  return all;
}

}  // namespace troupe::readers
