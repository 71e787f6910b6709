#pragma once
// Creates the TLS context of the server: a certificate chain with its key, for TLS 1.3 and, with
// ephemeral keys and authenticated encryption, TLS 1.2.
// Clients present no certificates; they have keys.
#include <boost/asio/ssl.hpp>
#include <memory>

#include "server/http/http_server.h"

namespace troupe::server {

// Throws std::runtime_error that says what is wrong. Returns null for an empty certificate.
std::shared_ptr<boost::asio::ssl::context> make_tls_context(const ServerCertificate& certificate);

}  // namespace troupe::server
