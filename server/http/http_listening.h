#pragma once
// Opens the listening sockets of the HTTP server, and says in an error what is wrong with an address.
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace troupe::server {

// Listens on an IP address, and returns the port, which the system chooses if `port` is 0. "::" takes
// connections over IPv4 as well, whatever the system's default. Throws ServerError, whose text begins with
// `setting`.
std::uint16_t listen_on(boost::asio::ip::tcp::acceptor& acceptor, const std::string& setting,
                        const std::string& address, std::uint16_t port);

}  // namespace troupe::server
