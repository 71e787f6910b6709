#pragma once
// The cluster's own certificate authority: X.509 certificates with P-256 keys, by which the nodes
// of a cluster identify each other (links.h). An authority signs for one cluster and nothing else.
// A node's certificate is for its name and serves as client and server certificate. All functions
// throw std::runtime_error with the reason.
#include <cstdint>
#include <string>

namespace troupe {

struct Certificate {
  std::string certificate, key;  // PEM
};

Certificate make_authority(const std::string& cluster, int days);
// Returns the text of a PEM file of at most 1 MiB.
std::string read_pem(const std::string& path);
// Signs a certificate for `name`, which becomes its subject and its alternative name: letters,
// digits, '-', '_' and '.', at most 64.
Certificate make_certificate(const Certificate& authority, const std::string& name, int days);

// For how long a certificate is valid, in seconds since 1970.
struct CertificateValidity {
  std::int64_t from_s = 0, until_s = 0;
};
// Returns the validity of the certificate of a PEM text; of a chain, of the one that expires first.
CertificateValidity validity_of(const std::string& pem);

}  // namespace troupe
