#pragma once
// Test helpers for transports: nodes with random pages, and a gate that can hold an owner's
// answers.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/testing/link_sockets.h"
#include "runtime/transfer/local_transport.h"
#include "runtime/transfer/ucx_transport.h"

namespace troupe {

constexpr std::int64_t patient_us = 60'000'000;  // only turns a hang into a failure
constexpr std::int64_t hasty_us = 100'000;

// Requests pass the gate before they are answered. While it is shut, they are counted and get no
// answer.
class Gate {
 public:
  ~Gate() { open(); }
  void shut() { set(false); }
  void open() { set(true); }
  // Waits until the gate is open, like a stopped process.
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  bool is_open() {
    std::lock_guard lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    return open_;
  }
  bool await_arrived(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return arrived_ >= count; });
  }

 private:
  void set(bool open) {
    std::lock_guard lock(mutex_);
    open_ = open;
    arrived_ = 0;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int arrived_ = 0;
};

struct LocalWorld {
  LocalNetwork network;
  std::unique_ptr<Transport> make(Incarnation incarnation, PageArena& arena, MetricRegistry& metrics,
                                  Gate& gate) {
    return std::make_unique<LocalTransport>(network, incarnation, arena, metrics,
                                            [&gate] { return gate.is_open(); });
  }
};
struct UcxWorld {
  bool sealed = false;
  std::unique_ptr<Transport> make(Incarnation incarnation, PageArena& arena, MetricRegistry& metrics,
                                  Gate& gate) {
    return std::make_unique<UcxTransport>(
        UcxOptions{.devices = "lo", .sealed = sealed, .before_answer = [&gate] { gate.pass(); }}, incarnation,
        arena, metrics);
  }
};
struct SealedWorld : UcxWorld {
  SealedWorld() : UcxWorld{true} {}
};
struct LinkWorld {
  LinkSockets sockets;
  explicit LinkWorld(bool tls = false) : sockets(tls) {}
  std::unique_ptr<Transport> make(Incarnation incarnation, PageArena& arena, MetricRegistry& metrics,
                                  Gate& gate) {
    LinkTransportOptions options;
    options.before_answer = [&gate] { gate.pass(); };
    return std::make_unique<ConnectedTransport>(sockets, std::move(options), incarnation, arena, metrics);
  }
};
struct TlsWorld : LinkWorld {
  TlsWorld() : LinkWorld(true) {}
};

inline void fill(PageArena& arena, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint32_t page = 0; page < arena.pages(); ++page)
    for (std::size_t i = 0; i < arena.page_bytes(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(arena.page(page) + i, &word, std::min<std::size_t>(8, arena.page_bytes() - i));
    }
}

inline std::vector<std::byte> bytes_of(const PageArena& arena) {
  std::vector<std::byte> bytes;
  for (std::uint32_t page = 0; page < arena.pages(); ++page)
    bytes.insert(bytes.end(), arena.page(page), arena.page(page) + arena.page_bytes());
  return bytes;
}

// A process, from the transport's point of view.
template <class World>
struct TestNode {
  TestNode(World& world, NodeId id, Incarnation incarnation, std::size_t page_bytes = 4096,
           std::size_t pages = 64)
      : id(id), incarnation(incarnation), arena(page_bytes, pages) {
    fill(arena, incarnation);
    transport = world.make(incarnation, arena, metrics, gate);
  }
  ~TestNode() { gate.open(); }
  void meet(const TestNode& other) {
    transport->meet(other.id, other.incarnation, other.transport->address());
  }
  double protocol_errors() const { return metrics.value(Metric::protocol_errors); }
  // Waits until that many are counted: a request may arrive after its reader has given it up.
  bool await_protocol_errors(double count) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(patient_us);
    while (protocol_errors() < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return protocol_errors() == count;
  }

  const NodeId id;
  const Incarnation incarnation;
  PageArena arena;
  MetricRegistry metrics;
  Gate gate;
  std::unique_ptr<Transport> transport;
};

// Returns a pull of `owner`'s pages without blocks.
template <class Node>
PullBlocks pull_from(const Node& owner, std::int64_t budget_us = patient_us) {
  return {owner.id, owner.incarnation, budget_us, {}};
}
// Returns a block with the present checksum of the owner's pages.
inline PullBlocks::One block_of(const PageArena& owner, std::vector<std::uint32_t> from,
                                std::vector<std::uint32_t> to) {
  PullBlocks::One one;
  one.checksum = checksum_pages(owner, from);
  one.tokens = static_cast<std::uint32_t>(from.size());
  one.from = std::move(from);
  one.to = std::move(to);
  return one;
}

using PullOutcome = std::variant<PullResult, Refusal>;
// Returns e.g. "ok 101", or the refusal's code.
inline std::string said(const PullOutcome& outcome) {
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) return refusal->code;
  std::string text = "ok ";
  for (const std::uint8_t ok : std::get<PullResult>(outcome).ok) text += ok ? '1' : '0';
  return text;
}

}  // namespace troupe
