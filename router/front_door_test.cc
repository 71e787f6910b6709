#include "router/front_door.h"

#include <doctest/doctest.h>

#include <boost/asio.hpp>

#include "router/front_door_client.h"

using namespace troupe;
using namespace troupe::router;
using Tcp = boost::asio::ip::tcp;

namespace {

constexpr Address router_address{1, Role::router};
constexpr Address meta_address{1, Role::cache_meta};

// A door whose actors answer at once; `silent` ones never do.
struct Fixture {
  MetricRegistry metrics;
  bool silent = false;
  std::unique_ptr<FrontDoor> door;

  explicit Fixture(DoorConfig config = {}) {
    config.port = 0;
    config.router = router_address;
    config.actors = {router_address, meta_address};
    door = std::make_unique<FrontDoor>(
        config, [this](Address to, Message m) { act(to, m); }, metrics);
    door->open();
  }
  void act(Address to, const Message& message) {
    if (silent) return;
    if (auto* m = std::get_if<RankRequest>(&message)) {
      if (m->user == "nobody")
        return door->deliver(Refused{m->id, {404, "unknown_user", "no such user", "user", "a known user"}});
      RankReply reply;
      reply.id = m->id;
      reply.user = m->user;
      door->deliver(reply);
    } else if (auto* s = std::get_if<StatusRequest>(&message)) {
      door->deliver(StatusReply{s->id, 1, to.role, true, {{"in_flight", "0"}}});
    }
  }
  HttpReply call(std::string method, std::string target, std::string body = "") {
    HttpCall c;
    c.server = "127.0.0.1:" + std::to_string(door->port());
    c.method = std::move(method);
    c.target = std::move(target);
    c.body = std::move(body);
    return http_call(c);
  }
  // Sends bytes as they are and returns all that comes back until the server closes.
  std::string raw(const std::string& bytes) {
    boost::asio::io_context io;
    Tcp::socket socket(io);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), door->port()});
    boost::system::error_code error;
    boost::asio::write(socket, boost::asio::buffer(bytes), error);
    socket.shutdown(Tcp::socket::shutdown_send, error);
    std::string reply;
    boost::asio::read(socket, boost::asio::dynamic_buffer(reply), error);
    return reply;
  }
};

}  // namespace

TEST_SUITE("front door") {
  TEST_CASE("a request goes to the router and its answer comes back") {
    Fixture f;
    const HttpReply reply = f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"]})");
    CHECK(reply.status == 200);
    CHECK(reply.body.find("\"ana\"") != std::string::npos);
    CHECK(f.metrics.value(Metric::http_requests) == 1);
  }

  TEST_CASE("a refusal keeps its status and type") {
    Fixture f;
    const HttpReply reply = f.call("POST", "/v1/rank", R"({"user":"nobody","candidates":["a"]})");
    CHECK(reply.status == 404);
    CHECK(reply.body.find("unknown_user") != std::string::npos);
  }

  TEST_CASE("a silent router costs a typed time-out, not a hung client") {
    DoorConfig config;
    config.answer_us_max = 20'000;
    Fixture f(config);
    f.silent = true;
    CHECK(f.call("POST", "/v1/rank", R"({"user":"ana","candidates":["a"]})").status == 504);
  }

  TEST_CASE("health, metrics and the cluster are answered") {
    Fixture f;
    CHECK(f.call("GET", "/v2/health/live").status == 200);
    CHECK(f.call("GET", "/v2/health/ready").status == 200);
    CHECK(f.call("GET", "/metrics").body.find("troupe_http") != std::string::npos);
    CHECK(f.call("GET", "/v1/cluster").body.find("cache_meta") != std::string::npos);
  }

  TEST_CASE("hostile bytes get a typed answer and the door stays open") {
    DoorConfig config;
    config.header_bytes_max = 1024;
    config.body_bytes_max = 2048;
    Fixture f(config);
    const std::string long_header(5000, 'h'), long_body(5000, 'b');
    CHECK(f.raw("GET / HTTP/1.1\r\nx: " + long_header + "\r\n\r\n").find(" 431 ") != std::string::npos);
    CHECK(f.raw("POST /v1/rank HTTP/1.1\r\ncontent-length: 5000\r\n\r\n" + long_body).find(" 413 ") !=
          std::string::npos);
    CHECK(f.raw("POST /v1/rank HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n").find(" 400 ") !=
          std::string::npos);
    CHECK(f.raw("\x16\x03\x01nonsense\r\n\r\n").find(" 400 ") != std::string::npos);
    CHECK(f.raw("POST /v1/rank HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
              .find(" 400 ") != std::string::npos);
    CHECK(f.call("GET", "/v2/health/live").status == 200);
  }

  TEST_CASE("pipelined requests are answered in order") {
    Fixture f;
    const std::string one = "GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    const std::string reply = f.raw(one + "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n" + one);
    const std::size_t first = reply.find(" 200 "), second = reply.find(" 404 ");
    CHECK(first < second);
    CHECK(reply.find(" 200 ", second) != std::string::npos);
  }

  TEST_CASE("a port in use is an error that names it") {
    Fixture f;
    DoorConfig taken;
    taken.port = f.door->port();
    CHECK_THROWS_AS(FrontDoor(
                        taken, [](Address, Message) {}, f.metrics),
                    DoorError);
  }

  TEST_CASE("more connections than allowed are turned away") {
    DoorConfig config;
    config.connections_max = 1;
    Fixture f(config);
    boost::asio::io_context io;
    Tcp::socket held(io);
    held.connect({boost::asio::ip::make_address("127.0.0.1"), f.door->port()});
    boost::asio::write(held,
                       boost::asio::buffer(std::string("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")));
    char byte;
    boost::asio::read(held, boost::asio::buffer(&byte, 1));  // the held connection is open now
    CHECK(f.raw("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n").find(" 503 ") != std::string::npos);
  }
}
