#pragma once
// Mutants: bugs that are built in on purpose. In a build with TROUPE_PLANTED one of them can be
// switched on, to show that the simulation finds it (promise 18). In every other build `planted` is
// false at compile time and leaves no trace.
//
//   if (block->generation != generation && !planted(Bug::skip_generation_check)) return false;
//
// The same build can cut block names to a few bits, as containers see them, so that names collide
// often.
#include <cstdint>
#include <string_view>

namespace troupe {

// Set of promises, by their numbers.
using PromiseSet = std::uint32_t;
constexpr PromiseSet through(auto... promises) { return (0U | ... | (1U << promises)); }

// One line per mutant: its name, the promise that it breaks, other promises whose checks may report
// it, and what the mutant does.
#define TROUPE_FOR_EACH_BUG(X)                                                                               \
  X(forget_refused_request, 1, through(),                                                                    \
    "the router drops a request that its worker refused, without an answer")                                 \
  X(answer_without_check, 1, through(),                                                                      \
    "the router forwards scores of the wrong shape or that are not finite")                                  \
  X(answer_at_other_door, 1, through(), "the router sends an answer to the HTTP server of another node")     \
  X(answer_twice, 1, through(), "a router sends each answer twice")                                          \
  X(answer_stranger, 1, through(), "the router also answers a request that was never sent")                  \
  X(answer_other_kind, 1, through(), "the router answers a ranking with Stored")                             \
  X(tell_too_late, 1, through(), "the router reports an expired request long after its deadline")            \
  X(answer_from_old_profile, 1, through(), "a ranking uses the profile before the last one")                 \
  X(refuse_without_status, 1, through(),                                                                     \
    "the router forwards a worker's refusal unchecked, with any status")                                     \
  X(refuse_known, 1, through(), "the router refuses a known user as unknown")                                \
  X(refuse_sound, 1, through(), "the router refuses a valid request as invalid")                             \
  X(end_behind_first_item, 1, through(),                                                                     \
    "the end of a ranking's prompt starts behind its first item, not behind the longest")                    \
  X(approximate_unasked, 1, through(), "the planner chooses an approximate plan that was not allowed")       \
  X(skip_identity_check, 2, through(1, 4, 14), "a worker uses a block that was found by a colliding name")   \
  X(skip_generation_check, 2, through(1, 3),                                                                 \
    "a report about an older reservation of a block counts for the new one")                                 \
  X(skip_checksum, 2, through(1), "pulled and loaded bytes are used without a check of their checksum")      \
  X(skip_first_check, 2, through(1), "a locally computed block is used without a check of its checksum")     \
  X(skip_scrub, 2, through(), "the scrubber does not compare what it reads")                                 \
  X(spread_flipped_bits, 2, through(1), "blocks are computed from other blocks that were not checked")       \
  X(trust_shards, 2, through(1),                                                                             \
    "rows of embedding tables are read from shards whose checksums were not compared")                       \
  X(read_before_it_comes, 2, through(1, 3, 14), "a block in flight is granted as a block that has arrived")  \
  X(free_pinned_page, 3, through(1, 2), "eviction takes blocks that are being read")                         \
  X(ignore_read_lease, 3, through(1, 2), "the puller uses bytes that arrived after its lease had ended")     \
  X(keep_grants, 3, through(), "a refused plan keeps its grants")                                            \
  X(keep_remote_pins, 3, through(), "blocks granted to another node stay pinned after the lease has ended")  \
  X(release_shards_early, 3, through(1, 2),                                                                  \
    "shards of embedding tables are released while a batch reads them")                                      \
  X(answer_from_newest_model, 4, through(1),                                                                 \
    "a worker runs a plan on the newest model, not on the pinned one")                                       \
  X(answer_from_newest_catalog, 4, through(),                                                                \
    "a worker runs a plan with the served catalog, not with the plan's own")                                 \
  X(refuse_reload, 4, through(), "a reload is refused as if another one were running")                       \
  X(end_reload_early, 4, through(), "a reload is answered when it begins, not when it is done")              \
  X(tell_stale_as_fresh, 4, through(1), "an expired profile is reported as fresh")                           \
  X(forget_own_write, 4, through(1), "a router answers from a profile that it read before its own write")    \
  X(mix_row_versions, 4, through(1),                                                                         \
    "rows of embedding tables are found by their number alone, whatever their model")                        \
  X(use_foreign_prototypes, 4, through(1),                                                                   \
    "prototypes of one model version are used to answer requests for another version")                       \
  X(confuse_models, 4, through(1, 2, 3, 14),                                                                 \
    "block requests of two models' workers on a node are confused if their ids are equal")                   \
  X(ignore_fencing_token, 5, through(), "a worker obeys any leader")                                         \
  X(no_retry_after_loss, 6, through(), "a request whose worker was lost is refused at once")                 \
  X(wait_for_index, 7, through(1, 6), "the router waits for the index without a deadline")                   \
  X(no_inventory, 8, through(), "a new cache-meta never asks for inventories")                               \
  X(read_members_once, 8, through(), "a node reads the list of members once and never again")                \
  X(unbounded_queue, 10, through(), "an inference worker queues without a bound and runs expired plans")     \
  X(miscount_attempts, 10, through(), "the router does not count its retries")                               \
  X(unlimited_retries, 10, through(), "retries have no budget")                                              \
  X(ignore_slowness, 11, through(6), "the router ignores how slow its workers are")                          \
  X(retry_poison, 12, through(10), "a request that was lost with its worker is retried without a limit")     \
  X(forget_suspects, 12, through(), "the router forgets that a request is a suspect when it retries it")     \
  X(keep_suspects_private, 12, through(), "the router does not report its suspects to other routers")        \
  X(convict_at_once, 12, through(), "a request that was lost once with its worker is refused as poison")     \
  X(drop_on_drain, 13, through(1, 6, 10), "a draining worker drops its waiting plans")                       \
  X(no_tenant_salt, 14, through(), "user blocks of all tenants share their names")                           \
  X(one_queue_for_all, 14, through(), "waiting requests of all tenants share one queue in order of arrival") \
  X(take_nonsense, 15, through(), "an invalid profile is stored")                                            \
  X(unseeded_choice, 17, through(), "the router breaks ties by the address of an object")                    \
  X(ignore_held_blocks, 20, through(), "the router plans as if no worker had any block")                     \
  X(misstate_tokens, 20, through(), "a reply reports reused tokens as computed")                             \
  X(recompute_held, 20, through(), "a present block is not granted, so it is computed again")                \
  X(pull_twice, 20, through(), "a pull is started twice")                                                    \
  X(drop_waiters, 20, through(), "requests that wait behind one that gets no pages are forgotten")           \
  X(forget_hotness, 20, through(), "the popularity counts of blocks are cleared with every request")         \
  X(evict_one_more, 20, through(), "eviction takes one block more than needed")                              \
  X(evict_newest, 20, through(), "eviction takes the user block that was used last")                         \
  X(set_split_again, 20, through(), "an unchanged split is set again with each report")                      \
  X(keep_users_blocks, 20, through(), "a leaving worker reports user blocks as migrated that it keeps")

enum class Bug : std::uint8_t {
#define TROUPE_X(name, promise, also, text) name,
  TROUPE_FOR_EACH_BUG(TROUPE_X)
#undef TROUPE_X
      none
};

#ifdef TROUPE_PLANTED
namespace planting {
inline Bug bug = Bug::none;  // the active mutant; set once, before anything runs
inline int name_bits = 256;  // bits of a block name that containers compare: 8..256
}  // namespace planting
inline bool planted(Bug bug) { return planting::bug == bug; }
inline bool names_collide() { return planting::name_bits < 256; }
#else
constexpr bool planted(Bug) { return false; }
constexpr bool names_collide() { return false; }
#endif

}  // namespace troupe
