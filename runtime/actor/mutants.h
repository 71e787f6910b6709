#pragma once
// Mutants: bugs that are built in on purpose. In a build with TROUPE_MUTANTS one of them can be
// switched on, to show that the simulation finds it (promise 18). In every other build `mutated` is
// false at compile time and leaves no trace.
//
//   if (block->generation != generation && !mutated(Mutant::skip_generation_check)) return false;
//
// The same build can cut block names to a few bits, as containers see them, so that names collide
// often.
#include <cstdint>
#include <string_view>

namespace troupe {

// Set of promises, by their numbers.
using PromiseSet = std::uint32_t;
constexpr PromiseSet shown_by(auto... promises) { return (0U | ... | (1U << promises)); }

// One line per mutant: its name, the promise that it breaks, other promises whose checks may report
// it, and what the mutant does.
#define TROUPE_FOR_EACH_MUTANT(X)                                                                            \
  X(forget_refused_request, 1, shown_by(),                                                                   \
    "the router drops a request that its worker refused, without an answer")                                 \
  X(answer_without_check, 1, shown_by(),                                                                     \
    "the router forwards scores of the wrong shape or that are not finite")                                  \
  X(answer_at_other_server, 1, shown_by(), "the router sends an answer to the HTTP server of another node")  \
  X(answer_twice, 1, shown_by(), "a router sends each answer twice")                                         \
  X(answer_stranger, 1, shown_by(), "the router also answers a request that was never sent")                 \
  X(answer_other_kind, 1, shown_by(), "the router answers a ranking with Stored")                            \
  X(report_too_late, 1, shown_by(), "the router reports an expired request long after its deadline")         \
  X(answer_from_old_profile, 1, shown_by(), "a ranking uses the profile before the last one")                \
  X(refuse_without_status, 1, shown_by(), "the router forwards a worker's refusal unchecked, of any kind")   \
  X(refuse_known, 1, shown_by(), "the router refuses a known user as unknown")                               \
  X(refuse_sound, 1, shown_by(), "the router refuses a valid request as invalid")                            \
  X(end_behind_first_item, 1, shown_by(),                                                                    \
    "the end of a ranking's prompt starts behind its first item, not behind the longest")                    \
  X(approximate_unasked, 1, shown_by(), "the planner chooses an approximate plan that was not allowed")      \
  X(skip_identity_check, 2, shown_by(1, 4, 14), "a worker uses a block that was found by a colliding name")  \
  X(skip_generation_check, 2, shown_by(1, 3),                                                                \
    "a report about an older reservation of a block counts for the new one")                                 \
  X(skip_checksum, 2, shown_by(1), "pulled and loaded bytes are used without a check of their checksum")     \
  X(skip_first_check, 2, shown_by(1), "a locally computed block is used without a check of its checksum")    \
  X(skip_scrub, 2, shown_by(), "the scrubber does not compare what it reads")                                \
  X(spread_flipped_bits, 2, shown_by(1), "blocks are computed from other blocks that were not checked")      \
  X(trust_shards, 2, shown_by(1),                                                                            \
    "rows of embedding tables are read from shards whose checksums were not compared")                       \
  X(read_before_it_comes, 2, shown_by(1, 3, 14), "a block in flight is granted as a block that has arrived") \
  X(free_pinned_page, 3, shown_by(1, 2), "eviction takes blocks that are being read")                        \
  X(ignore_read_lease, 3, shown_by(1, 2), "the puller uses bytes that arrived after its lease had ended")    \
  X(keep_grants, 3, shown_by(), "a refused plan keeps its grants")                                           \
  X(keep_remote_pins, 3, shown_by(), "blocks granted to another node stay pinned after the lease has ended") \
  X(release_shards_early, 3, shown_by(1, 2),                                                                 \
    "shards of embedding tables are released while a batch reads them")                                      \
  X(answer_from_newest_model, 4, shown_by(1),                                                                \
    "a worker runs a plan on the newest model, not on the pinned one")                                       \
  X(answer_from_newest_catalog, 4, shown_by(),                                                               \
    "a worker runs a plan with the served catalog, not with the plan's own")                                 \
  X(refuse_reload, 4, shown_by(), "a reload is refused as if another one were running")                      \
  X(end_reload_early, 4, shown_by(), "a reload is answered when it begins, not when it is done")             \
  X(report_stale_as_fresh, 4, shown_by(1), "an expired profile is reported as fresh")                        \
  X(forget_own_write, 4, shown_by(1), "a router answers from a profile that it read before its own write")   \
  X(mix_row_versions, 4, shown_by(1),                                                                        \
    "rows of embedding tables are found by their number alone, whatever their model")                        \
  X(use_foreign_prototypes, 4, shown_by(1),                                                                  \
    "prototypes of one model version are used to answer requests for another version")                       \
  X(confuse_models, 4, shown_by(1, 2, 3, 14),                                                                \
    "block requests of two models' workers on a node are confused if their ids are equal")                   \
  X(ignore_fencing_token, 5, shown_by(), "a worker obeys any leader")                                        \
  X(no_retry_after_loss, 6, shown_by(), "a request whose worker was lost is refused at once")                \
  X(wait_for_index, 7, shown_by(1, 6), "the router waits for the index without a deadline")                  \
  X(no_inventory, 8, shown_by(), "a new cache-meta never asks for inventories")                              \
  X(read_members_once, 8, shown_by(), "a node reads the list of members once and never again")               \
  X(unbounded_queue, 10, shown_by(), "an inference worker queues without a bound and runs expired plans")    \
  X(miscount_attempts, 10, shown_by(), "the router does not count its retries")                              \
  X(unlimited_retries, 10, shown_by(), "retries have no budget")                                             \
  X(ignore_slowness, 11, shown_by(6), "the router ignores how slow its workers are")                         \
  X(retry_poison, 12, shown_by(10), "a request that was lost with its worker is retried without a limit")    \
  X(forget_suspects, 12, shown_by(), "the router forgets that a request is a suspect when it retries it")    \
  X(keep_suspects_private, 12, shown_by(), "the router does not report its suspects to other routers")       \
  X(convict_at_once, 12, shown_by(), "a request that was lost once with its worker is refused as poison")    \
  X(drop_on_drain, 13, shown_by(1, 6, 10), "a draining worker drops its waiting plans")                      \
  X(no_tenant_salt, 14, shown_by(), "user blocks of all tenants share their names")                          \
  X(one_queue_for_all, 14, shown_by(),                                                                       \
    "waiting requests of all tenants share one queue in order of arrival")                                   \
  X(take_nonsense, 15, shown_by(), "an invalid profile is stored")                                           \
  X(unseeded_choice, 17, shown_by(), "the router breaks ties by the address of an object")                   \
  X(ignore_held_blocks, 20, shown_by(), "the router plans as if no worker had any block")                    \
  X(misstate_tokens, 20, shown_by(), "a reply reports reused tokens as computed")                            \
  X(recompute_held, 20, shown_by(), "a present block is not granted, so it is computed again")               \
  X(pull_twice, 20, shown_by(), "a pull is started twice")                                                   \
  X(drop_waiters, 20, shown_by(), "requests that wait behind one that gets no pages are forgotten")          \
  X(forget_hotness, 20, shown_by(), "the popularity counts of blocks are cleared with every request")        \
  X(evict_one_more, 20, shown_by(), "eviction takes one block more than needed")                             \
  X(evict_newest, 20, shown_by(), "eviction takes the user block that was used last")                        \
  X(set_split_again, 20, shown_by(), "an unchanged split is set again with each report")                     \
  X(keep_users_blocks, 20, shown_by(), "a leaving worker reports user blocks as migrated that it keeps")

enum class Mutant : std::uint8_t {
#define TROUPE_X(name, promise, also, text) name,
  TROUPE_FOR_EACH_MUTANT(TROUPE_X)
#undef TROUPE_X
      none
};

#ifdef TROUPE_MUTANTS
namespace mutation {
inline Mutant bug = Mutant::none;  // the active mutant; set once, before anything runs
inline int name_bits = 256;        // bits of a block name that containers compare: 8..256
}  // namespace mutation
inline bool mutated(Mutant bug) { return mutation::bug == bug; }
inline bool names_collide() { return mutation::name_bits < 256; }
#else
constexpr bool mutated(Mutant) { return false; }
constexpr bool names_collide() { return false; }
#endif

}  // namespace troupe
