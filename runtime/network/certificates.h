#pragma once
// The project's own certificate authority: X.509 certificates of P-256 keys by which the nodes of a cluster
// know each other (links.h). One authority signs for one cluster and nothing else; a node's certificate is
// for its name and serves both ends of a connection. Throws std::runtime_error that says what is wrong.
#include <string>

namespace troupe {

struct Certificate {
  std::string certificate, key;  // PEM
};

Certificate make_authority(const std::string& cluster, int days);
// The text of a PEM file, of at most 1 MiB.
std::string read_pem(const std::string& path);
// `name` goes into the subject and the alternative names: letters, digits, '-', '_' and '.', at most 64.
Certificate make_certificate(const Certificate& authority, const std::string& name, int days);

}  // namespace troupe
