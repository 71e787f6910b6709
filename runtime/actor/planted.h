#pragma once
// Bugs planted on purpose. In a build with TROUPE_PLANTED one of them can be switched on, so that the
// simulation can show that it finds it (promise 18); in every other build `planted` is false at compile time
// and leaves no trace.
//
//   if (block->generation != generation && !planted(Bug::skip_generation_check)) return false;
//
// The same build can cut block names to a few bits, as containers see them, so that names collide all the
// time.
#include <cstdint>
#include <string_view>

namespace troupe {

// Of promises, by their numbers.
using PromiseSet = std::uint32_t;
constexpr PromiseSet through(auto... promises) { return (0U | ... | (1U << promises)); }

// One line per bug: its name, the promise that it breaks, others that may show it, what it does.
#define TROUPE_FOR_EACH_BUG(X)                                                                              \
  X(forget_refused_request, 1, through(),                                                                   \
    "the router drops a request whose worker refused it, without an answer")                                \
  X(answer_without_check, 1, through(),                                                                     \
    "the router passes on scores of another shape or that are not finite")                                  \
  X(answer_at_other_door, 1, through(), "an answer goes to the door of another router")                     \
  X(answer_twice, 1, through(), "a router sends each answer twice")                                         \
  X(answer_stranger, 1, through(), "a router also answers a request that nobody has asked")                 \
  X(answer_other_kind, 1, through(), "a ranking is answered as if something had been stored")               \
  X(tell_too_late, 1, through(), "what is too late is told when it should have been told long ago")         \
  X(answer_from_old_profile, 1, through(), "a ranking is answered from the profile before the last one")    \
  X(refuse_without_status, 1, through(),                                                                    \
    "a worker's refusal goes to the client as it came, with any status")                                    \
  X(refuse_known, 1, through(), "a user who is there is refused as unknown")                                \
  X(refuse_sound, 1, through(), "a request that is sound is refused as if it were not")                     \
  X(end_behind_first_item, 1, through(),                                                                    \
    "the end of a ranking's prompt stands behind its first item, not behind the longest")                   \
  X(approximate_unasked, 1, through(), "the planner answers approximately though nobody allowed it")        \
  X(skip_identity_check, 2, through(1, 4, 14), "a block that was found by a colliding name is used")        \
  X(skip_generation_check, 2, through(1, 3),                                                                \
    "a report about an older reservation of a block counts for the new one")                                \
  X(skip_checksum, 2, through(1), "pulled and loaded bytes are used without a look at their checksum")      \
  X(skip_first_check, 2, through(1), "what was computed here is used without a look at its checksum")       \
  X(skip_scrub, 2, through(), "the scrubber does not compare what it reads")                                \
  X(spread_flipped_bits, 2, through(1), "blocks are computed from others that are not checked for it")      \
  X(trust_shards, 2, through(1),                                                                            \
    "rows of embedding tables are taken from shards that are not checked for it")                           \
  X(read_before_it_comes, 2, through(1, 3, 14), "a block that is on its way is told as one that is there")  \
  X(free_pinned_page, 3, through(1, 2), "eviction takes blocks that somebody reads")                        \
  X(ignore_read_lease, 3, through(1, 2), "the puller uses what arrived after its lease had ended")          \
  X(keep_grants, 3, through(), "a plan that is refused keeps what it was granted")                          \
  X(keep_remote_pins, 3, through(), "what another node was granted stays pinned when its lease has ended")  \
  X(release_shards_early, 3, through(1, 2),                                                                 \
    "shards of embedding tables are given back while a batch reads them")                                   \
  X(answer_from_newest_model, 4, through(1),                                                                \
    "a worker runs a plan on the newest model, not on the pinned one")                                      \
  X(answer_from_newest_catalog, 4, through(),                                                               \
    "a worker runs a plan with the catalog that is served now, not with the plan's own")                    \
  X(refuse_reload, 4, through(), "a reload is refused as if another one were under way")                    \
  X(end_reload_early, 4, through(), "a reload is answered as done when it has begun")                       \
  X(tell_stale_as_fresh, 4, through(1), "a profile that has expired is told as one that has not")           \
  X(forget_own_write, 4, through(1), "a router answers from what it read before it wrote")                  \
  X(mix_row_versions, 4, through(1),                                                                        \
    "rows of embedding tables are found by their number alone, whatever model they are of")                 \
  X(use_foreign_prototypes, 4, through(1),                                                                  \
    "what stands for tokens of one version of the model does for those of another")                         \
  X(confuse_models, 4, through(1, 2, 3, 14),                                                                \
    "requests for blocks of two models' workers on a node are one if they have the same number")            \
  X(ignore_fencing_token, 5, through(), "a worker obeys any leader")                                        \
  X(no_retry_after_loss, 6, through(), "a request whose worker was lost is refused at once")                \
  X(wait_for_index, 7, through(1, 6), "the router waits for the index without end")                         \
  X(no_inventory, 8, through(), "a new cache-meta never asks for inventories")                              \
  X(read_members_once, 8, through(), "who has heard once of workers that join or leave does not ask again") \
  X(unbounded_queue, 10, through(), "an inference worker queues without a bound and runs what has expired") \
  X(miscount_attempts, 10, through(), "a router does not count what it sends again")                        \
  X(unlimited_retries, 10, through(), "retries have no budget")                                             \
  X(ignore_slowness, 11, through(6), "the router does not look at how fast its workers are")                \
  X(retry_poison, 12, through(10), "a request that was lost with its worker is tried without end")          \
  X(forget_suspects, 12, through(), "the router forgets who was a suspect when it sends a plan again")      \
  X(keep_suspects_private, 12, through(), "the router does not tell the others of its suspects")            \
  X(convict_at_once, 12, through(), "what was lost once with its worker is refused as poison")              \
  X(drop_on_drain, 13, through(1, 6, 10), "a draining worker drops what waits")                             \
  X(no_tenant_salt, 14, through(), "user blocks of all tenants share their names")                          \
  X(one_queue_for_all, 14, through(), "what waits for a worker goes as it came, whoever sent it")           \
  X(take_nonsense, 15, through(), "a profile that makes no sense is stored")                                \
  X(unseeded_choice, 17, through(), "the router breaks ties by the address of an object")                   \
  X(ignore_held_blocks, 20, through(), "the router plans as if no worker had any block")                    \
  X(misstate_tokens, 20, through(), "a reply tells of reused tokens as computed")                           \
  X(recompute_held, 20, through(), "a block that is there is not granted, so it is computed again")         \
  X(pull_twice, 20, through(), "a pull is started twice")                                                   \
  X(drop_waiters, 20, through(), "whoever waits behind one who finds no room is forgotten")                 \
  X(forget_hotness, 20, through(), "what was wanted is forgotten with every request")                       \
  X(evict_one_more, 20, through(), "room is made by one block more than it takes")                          \
  X(evict_newest, 20, through(), "of users' blocks the one that was used last goes")                        \
  X(set_split_again, 20, through(), "a split that stands is set again with each report")                    \
  X(keep_users_blocks, 20, through(), "a worker that leaves says that it has handed on what it keeps")

enum class Bug : std::uint8_t {
#define TROUPE_X(name, promise, also, text) name,
  TROUPE_FOR_EACH_BUG(TROUPE_X)
#undef TROUPE_X
      none
};

#ifdef TROUPE_PLANTED
namespace planting {
inline Bug bug = Bug::none;  // set once, before anything runs
inline int name_bits = 256;  // of a block name, that containers see: 8..256
}  // namespace planting
inline bool planted(Bug bug) { return planting::bug == bug; }
inline bool names_collide() { return planting::name_bits < 256; }
#else
constexpr bool planted(Bug) { return false; }
constexpr bool names_collide() { return false; }
#endif

}  // namespace troupe
