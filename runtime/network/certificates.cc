// Makes the cluster's own certificate authority and the node certificates that it signs. Nodes
// identify each other by them over TLS, so no outside authority is needed.
#include "runtime/network/certificates.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>

#include "runtime/config/whole_file.h"

namespace troupe {
namespace {

constexpr std::size_t pem_bytes_max = 1 << 20;
constexpr int version_3 = 2, serial_bits = 127, slack_seconds = 3'600;

template <auto free>
struct Free {
  template <class T>
  void operator()(T* what) const {
    free(what);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Free<X509_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;

[[noreturn]] void fail(const std::string& what) {
  char text[256] = "";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  throw std::runtime_error("certificates: " + what + (text[0] ? std::string(": ") + text : ""));
}
template <class T>
T made(T what, const char* step) {
  if (!what) fail(step);
  return what;
}

Key make_key() { return made(Key(EVP_EC_gen("P-256")), "no key could be made"); }

Memory memory_of(const std::string& text) {
  return made(Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))), "no memory");
}

std::string text_of(const Memory& memory) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(bytes)};
}

Certificate written(const Cert& certificate, const Key& key) {
  const Memory cert_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(cert_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    fail("it could not be written");
  return {text_of(cert_text), text_of(key_text)};
}

void check_name(const std::string& name) {
  const bool sound = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!sound)
    throw std::runtime_error("certificates: the name \"" + name +
                             "\" does not fit; expected 1..64 letters, digits, '-', '_' or '.'");
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) fail("an extension was refused");
}

// Valid from an hour ago, for clocks that differ.
Cert make_body(const Key& key, const std::string& name, int days) {
  if (days < 1 || days > 36'500) throw std::runtime_error("certificates: expected 1..36500 days");
  Cert certificate = made(Cert(X509_new()), "no memory");
  X509* const body = certificate.get();
  const Number serial(BN_new());
  X509_NAME* const subject = X509_get_subject_name(body);
  const bool ok = X509_set_version(body, version_3) == 1 &&
                  BN_rand(serial.get(), serial_bits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(body)) &&
                  X509_gmtime_adj(X509_getm_notBefore(body), -slack_seconds) &&
                  X509_time_adj_ex(X509_getm_notAfter(body), days, 0, nullptr) &&
                  X509_set_pubkey(body, key.get()) == 1 &&
                  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                             reinterpret_cast<const unsigned char*>(name.data()),
                                             static_cast<int>(name.size()), -1, 0) == 1;
  if (!ok) fail("it could not be filled in");
  return certificate;
}

std::int64_t seconds_of(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) fail("a date cannot be read");
  return timegm(&parts);
}

void sign(const Cert& certificate, X509* issuer, EVP_PKEY* key) {
  if (X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer)) != 1 ||
      X509_sign(certificate.get(), key, EVP_sha256()) == 0)
    fail("it could not be signed");
}

}  // namespace

std::string read_pem(const std::string& path) { return read_whole_file(path, pem_bytes_max, "a PEM file"); }

CertificateValidity validity_of(const std::string& pem) {
  const Memory text = memory_of(pem);
  std::optional<CertificateValidity> first;
  while (const Cert one{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    const CertificateValidity valid{seconds_of(X509_get0_notBefore(one.get())),
                                    seconds_of(X509_get0_notAfter(one.get()))};
    if (!first || valid.until_s < first->until_s) first = valid;
  }
  if (!first) fail("no certificate can be read; expected PEM");
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  return *first;
}

Certificate make_authority(const std::string& cluster, int days) {
  check_name(cluster);
  const Key key = make_key();
  const Cert certificate = make_body(key, cluster, days);
  add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  sign(certificate, certificate.get(), key.get());
  return written(certificate, key);
}

Certificate make_certificate(const Certificate& authority, const std::string& name, int days) {
  check_name(name);
  const Cert issuer(PEM_read_bio_X509(memory_of(authority.certificate).get(), nullptr, nullptr, nullptr));
  const Key issuer_key(PEM_read_bio_PrivateKey(memory_of(authority.key).get(), nullptr, nullptr, nullptr));
  if (!issuer || !issuer_key) fail("the authority's certificate or key cannot be read; expected PEM");
  if (X509_check_private_key(issuer.get(), issuer_key.get()) != 1)
    fail("the authority's key is not that of its certificate");
  const Key key = make_key();
  const Cert certificate = make_body(key, name, days);
  add_extension(certificate.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate.get(), issuer.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(certificate.get(), issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(certificate.get(), issuer.get(), NID_subject_alt_name, "DNS:" + name);
  add_extension(certificate.get(), issuer.get(), NID_authority_key_identifier, "keyid");
  sign(certificate, issuer.get(), issuer_key.get());
  return written(certificate, key);
}

}  // namespace troupe
