#pragma once
// A connected stream socket between two processes that have proved to each other who they are, with
// the TLS session that protects it, if there is one. Reads and writes never block. Used by one
// thread at a time, which must have SIGPIPE blocked (page_loop.h) unless the process ignores it.
#include <cstddef>
#include <cstdint>
#include <span>

struct ssl_st;

namespace troupe {

class PageSocket {
 public:
  PageSocket() = default;
  // Owns both. `session`: TLS over `fd`, after its handshake; null: bytes travel in the clear.
  explicit PageSocket(int fd, ssl_st* session = nullptr);
  ~PageSocket();
  PageSocket(PageSocket&& other) noexcept;
  PageSocket& operator=(PageSocket&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  enum class Progress : std::uint8_t {
    some,    // `bytes` were moved
    later,   // nothing now: wait until the socket is ready
    closed,  // by the peer, or broken
  };
  struct Moved {
    Progress progress = Progress::later;
    std::size_t bytes = 0;
  };
  Moved read(std::span<std::uint8_t> to);
  // After `later`, the next call must offer the same bytes. Of a TLS session, the span may be at most
  // one record.
  Moved write(std::span<const std::uint8_t> from);

 private:
  Moved result_of(int moved) const;

  int fd_ = -1;
  ssl_st* session_ = nullptr;
};

}  // namespace troupe
