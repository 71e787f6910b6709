// Binds and listens, and turns the system's errors into what was expected of an address.
#include "server/http/http_listening.h"

#include <boost/asio/ip/v6_only.hpp>

#include "server/http/http_server.h"

namespace troupe::server {
namespace {

namespace asio = boost::asio;

std::string expected_for(const boost::system::error_code& error) {
  namespace kind = boost::system::errc;
  if (error == kind::address_in_use) return "a free port";
  if (error == kind::permission_denied) return "a port from 1024 on, or the right to use lower ones";
  if (error == kind::address_not_available)
    return "an address of this machine, or 0.0.0.0 (IPv4) or :: (IPv4 and IPv6) for all of them";
  if (error == kind::address_family_not_supported)
    return "an address of IPv4, because this machine has no IPv6";
  if (error == kind::invalid_argument) return "an address without a scope; link-local ones name no interface";
  return "an address and a free port of this machine";
}

}  // namespace

std::uint16_t listen_on(asio::ip::tcp::acceptor& acceptor, const std::string& setting, const std::string& at,
                        std::uint16_t port) {
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(at, error);
  if (error)
    throw ServerError(setting + ".address: " + at + " is not an IP address; expected e.g. 127.0.0.1");
  const asio::ip::tcp::endpoint endpoint(address, port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && address.is_v6() && address.is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    throw ServerError(setting + ": cannot listen on " + (address.is_v6() ? "[" + at + "]" : at) + ":" +
                      std::to_string(port) + " (" + error.message() + "); expected " + expected_for(error));
  return acceptor.local_endpoint().port();
}

}  // namespace troupe::server
