// The table of the requests that hold blocks or wait for some. It writes their answers, and decides
// which readers compare a block's bytes with its checksum.
#include "actors/kv_worker/requests.h"

#include <algorithm>

#include "actors/kv_worker/block_identity.h"
#include "actors/kv_worker/bounds.h"
#include "kernels/base/hash.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t wait_us_max = 3'600'000'000;

}  // namespace

Requests::Requests(const KvWorkerConfig& config, PagePool& pool)
    : config_(config), pool_(pool), samples_(config.incarnation) {}

bool Requests::is_inference_worker(Address address) const {
  if (address.role != Role::inference_worker) return false;
  return config_.models.empty() ? address.node == config_.node
                                : std::ranges::find(config_.models, address.node) != config_.models.end();
}

bool Requests::is_full(bool remote) const {
  return requests_.size() >= config_.requests_max || (remote && remote_reads_ >= config_.remote_reads_max);
}

// Returns the key of a request. Workers of several models number their requests alike, so the id
// alone is not unique.
Requests::Key Requests::key_of(Address from, RequestId id) const { return {from, id}; }

Request& Requests::add(Instant now, Address from, AcquireBlocks&& ask, Serial serial) {
  serials_[key_of(from, ask.id)] = serial;
  Request& request = requests_[serial];
  request.from = from;
  request.holds.resize(ask.wants.size());
  request.received = now;
  request.wait_deadline = now + Duration{std::clamp<std::int64_t>(ask.budget_us, 0, wait_us_max)};
  request.lease_ends = now + Duration{config_.read_lease.us + config_.read_lease.us / 10};
  request.ask = std::move(ask);
  remote_reads_ += request.remote();
  return request;
}

Request* Requests::find(Serial serial) {
  const auto at = requests_.find(serial);
  return at == requests_.end() ? nullptr : &at->second;
}

const Request* Requests::find(Serial serial) const {
  const auto at = requests_.find(serial);
  return at == requests_.end() ? nullptr : &at->second;
}

std::optional<Serial> Requests::serial_of(Address from, RequestId id) const {
  const auto at = serials_.find(key_of(from, id));
  return at == serials_.end() ? std::nullopt : std::optional(at->second);
}

Request Requests::take(Serial serial) {
  Request request = std::move(requests_.extract(serial).mapped());
  serials_.erase(key_of(request.from, request.ask.id));
  remote_reads_ -= request.remote();
  return request;
}

// ---- grants ----

// A reader on another node verifies what arrives there, whatever this grant says. A block is
// verified until its bytes were once found to be right where they lie now; after that a sample of
// reads is verified.
Hold Requests::read(const PoolBlock& block, bool remote, Effects& effects) {
  pool_.pin(block);
  const bool first = !block.checked;
  const bool check = !remote && (first || is_sampled());
  if (check) effects.count(Metric::blocks_checked);
  return {.grant = Grant::read, .check = check, .block = &block, .generation = block.generation};
}

bool Requests::is_sampled() {
  constexpr double all = 18446744073709551616.0;  // 2^64
  // Hashed, so that the sample does not follow the order of the wants.
  return config_.check_reads > 0 && static_cast<double>(spread(++samples_)) < config_.check_reads * all;
}

BlockGrant Requests::grant_of(const Request& request, std::size_t want) const {
  const Hold& hold = request.holds[want];
  const BlockName& name = request.ask.wants[want].name;
  if (hold.waiting && hold.in_flight != 0)
    return {Grant::read, hold.in_flight, hold.in_flight_checksum, find_block(pool_, name)->pages, false,
            true};
  if (hold.grant == Grant::read)
    return {Grant::read, hold.generation, hold.block->checksum, hold.block->pages,
            hold.check,  false,           hold.pulled};
  if (hold.grant == Grant::none) return {};
  const PoolBlock* block = find_block(pool_, name);
  if (!block || block->generation != hold.generation) return {};  // forgotten: it would not be kept
  return {Grant::write, hold.generation, 0, block->pages};
}

void Requests::send_grants(const Request& request, Effects& effects) const {
  const std::int64_t lease_us = request.remote() ? config_.read_lease.us : 0;
  BlocksAcquired acquired{request.ask.id, config_.incarnation, lease_us, {}, request.pulling.us};
  acquired.grants.reserve(request.holds.size());
  for (std::size_t i = 0; i < request.holds.size(); ++i) acquired.grants.push_back(grant_of(request, i));
  effects.send(request.from, std::move(acquired));
}

void Requests::refuse(Address from, const AcquireBlocks& ask, Effects& effects) const {
  effects.count(Metric::blocks_refused, static_cast<double>(ask.wants.size()));
  const std::int64_t lease_us = from.role == Role::kv_worker ? config_.read_lease.us : 0;
  effects.send(from, BlocksAcquired{ask.id, config_.incarnation, lease_us,
                                    std::vector<BlockGrant>(ask.wants.size()), 0});
}

void Requests::answer(Serial serial, Effects& effects) {
  Request& request = requests_.at(serial);
  send_grants(request, effects);
  request.answered = true;
  request.ask.retention = {};  // only a request that waits may still reserve pages
  const bool holds = std::any_of(request.holds.begin(), request.holds.end(), [](const Hold& hold) {
    return hold.grant != Grant::none || hold.in_flight != 0;
  });
  if (!holds) take(serial);
}

// ---- for checkers ----

std::size_t Requests::unanswered() const {
  return static_cast<std::size_t>(std::count_if(requests_.begin(), requests_.end(),
                                                [](const auto& entry) { return !entry.second.answered; }));
}

std::string Requests::check_bounds() const {
  return first_fault({bound_fault("requests", requests_.size(), config_.requests_max),
                      bound_fault("request ids", serials_.size(), requests_.size()),
                      bound_fault("remote reads", remote_reads_, config_.remote_reads_max)});
}

}  // namespace troupe::actors
