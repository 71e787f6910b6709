#include "server/http/http_listening.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>

#include "server/http/http_server.h"

using namespace troupe::server;
using boost::asio::ip::make_address;
using boost::asio::ip::tcp;

namespace {

std::string fault(const std::string& address, std::uint16_t port = 0) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io);
  try {
    listen_on(acceptor, "http", address, port);
    return "";
  } catch (const ServerError& error) {
    return error.what();
  }
}

bool connects(const std::string& address, std::uint16_t port) {
  boost::asio::io_context io;
  tcp::socket socket(io);
  boost::system::error_code error;
  socket.connect({make_address(address), port}, error);
  return !error;
}

}  // namespace

TEST_SUITE("HTTP listening") {
  TEST_CASE("HTTP listening: an address that cannot be used is an error that says what was expected") {
    boost::asio::io_context io;
    tcp::acceptor first(io);
    const std::uint16_t port = listen_on(first, "http", "127.0.0.1", 0);
    CHECK(port > 0);
    CHECK(fault("127.0.0.1", port) == "http: cannot listen on 127.0.0.1:" + std::to_string(port) +
                                          " (Address already in use); expected a free port");
    CHECK(fault("192.0.2.1") ==  // for documentation: no machine has it
          "http: cannot listen on 192.0.2.1:0 (Cannot assign requested address); expected an address of this "
          "machine, or 0.0.0.0 (IPv4) or :: (IPv4 and IPv6) for all of them");
    CHECK(fault("localhost") == "http.address: localhost is not an IP address; expected e.g. 127.0.0.1");
  }

  TEST_CASE("HTTP listening: :: takes connections of both address families, and the others of their own") {
    boost::asio::io_context io;
    tcp::acceptor all(io), own(io);
    const std::string no_ipv6 = fault("::1");
    if (!no_ipv6.empty()) {  // a machine without IPv6
      CHECK(no_ipv6.starts_with("http: cannot listen on [::1]:0 ("));
      MESSAGE("skipped: this machine has no IPv6");
      return;
    }
    const std::uint16_t port = listen_on(all, "http", "::", 0);
    CHECK(connects("127.0.0.1", port));
    CHECK(connects("::1", port));
    const std::uint16_t ipv6 = listen_on(own, "http", "::1", 0);
    CHECK(connects("::1", ipv6));
    CHECK_FALSE(connects("127.0.0.1", ipv6));
  }
}
