#pragma once
// What the door shows its clients: a certificate chain with its key, for TLS 1.2 and later. Clients show
// none: they have keys.
#include <boost/asio/ssl.hpp>
#include <memory>

#include "server/http/front_door.h"

namespace troupe::server {

// Throws std::runtime_error that says what is wrong. Null of an empty one.
std::shared_ptr<boost::asio::ssl::context> make_door_security(const DoorCertificate& certificate);

}  // namespace troupe::server
