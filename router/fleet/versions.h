#pragma once
// Decides which model and catalog new requests are pinned to (promise 4). The truth is one key of
// the Coordination, "model\ncatalog\nnext model\nnext catalog\nshare"; its revision is the epoch.
// Every router reads it once per heartbeat and follows the highest epoch that it hears of. An
// operator's wish is carried out in steps, each a compare-and-set:
//
//   announce the next model, and the catalog that comes with it → every live worker has the model →
//   flip both
//
// A next model for only a share of users stays announced after every worker has it. Those users are
// pinned to it by their hash (share_position in fingerprint.h), the others to the current model.
// Another share, all users, or the current model for all (the way back) is another wish.
//
// A catalog alone is flipped to at once. Any router flips once it sees the announced model on every
// worker, so a swap continues when the router that was asked dies. Any router takes the
// announcement back when a worker can never load the model, or when the wait deadline of a wish has
// passed and not every worker had it. A later wish replaces an earlier one and everything that it
// announced. At most one question to the Coordination is in flight.
//
// A Coordination that lost its data, or went back to an older copy, shows an older epoch than this
// keeper follows, or than workers report. The keeper then raises the revisions and writes the key
// again, so that all nodes follow it: with the versions that it followed, or, if another node
// reports a newer epoch that a later read does not confirm, with those that it read.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/fleet/step.h"
#include "router/fleet/store_episode.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

inline constexpr std::string_view versions_key = "versions";

// Formats the key's value. Empty lines at the end are left out, so that older readers accept it;
// older readers do not accept a share.
std::string versions_text(const Versions& versions);
std::optional<Versions> parse_versions(std::uint64_t epoch, std::string_view text);

class VersionKeeper {
 public:
  // Without a Coordination the initial versions stay, with epoch 0. `wait_deadline`: how long routers
  // that did not wish for an announced model wait for it.
  VersionKeeper(Versions initial, bool coordinate, Duration heartbeat = {200'000},
                Duration wait_deadline = {120'000'000})
      : now_(std::move(initial)),
        coordinate_(coordinate),
        heartbeat_(heartbeat),
        wait_deadline_(wait_deadline) {}

  const Versions& versions() const { return now_; }
  // Returns false until the key was read once: the versions from the start may be outdated.
  bool known() const { return !coordinate_ || now_.epoch > 0; }

  // Returns why no request may be pinned to these versions, or "": they are not known yet, or a
  // newer epoch has been rumoured for more than three heartbeats and neither read nor disproved.
  std::string obstacle(Instant now) const;
  // Returns why the Coordination did not answer the last question; "" = it did.
  const std::string& away() const { return away_why_; }
  // Returns what cannot be read while it is away.
  const char* unread() const { return coordinate_ ? "the served versions" : "the cluster's members"; }
  // The members were read. A router that has no versions in the Coordination asks it nothing else, so
  // these answers tell whether it is away.
  void note_members_read(Step step, const JobResult& result);
  bool current(Instant now) const { return obstacle(now).empty(); }

  void hear(Instant now, const Versions& heard, const WorkerTable& workers);
  // Some node follows this epoch. If it is newer, the key is read, at most once per heartbeat.
  void rumour(Step step, std::uint64_t epoch, const WorkerTable& workers);
  void tick(Step step,
            const WorkerTable& workers);  // called once per heartbeat, and when a newer epoch is rumoured
  enum class Answer : std::uint8_t { foreign, read, written };
  Answer on_done(Step step, std::uint64_t job, const JobResult& result, const WorkerTable& workers);

  // Starts a wish; requires a Coordination and no wish in progress. An empty version keeps the
  // current one. `share`: users, in thousandths, that get the model.
  void wish(const std::string& model, const std::string& catalog, std::uint32_t share = Versions::all_users);
  // `served` is reported after the key was read or written since the wish; `refused` once nothing
  // of the wish is left.
  enum class Wish : std::uint8_t { none, pending, served, replaced, wrong_catalog, refused };
  Wish wish_state() const;
  // false: it was already served when it came
  bool wish_changes() const { return wish_ && wish_->changes; }
  std::string why_refused() const { return wish_ ? wish_->why_refused : ""; }
  void end_wish(Instant now, bool kept = false);  // takes its announcement back, unless it is `kept`
  bool swapping() const { return wish_.has_value() || !now_.next_model.empty(); }

 private:
  struct PendingWish {
    std::string model, catalog;  // as named in the wish
    std::uint32_t share = Versions::all_users;
    bool catalog_known = false, catalog_wrong = false;
    bool confirmed = false, changes = false;
    std::uint64_t earlier_job = 0;  // in flight when the wish came: its answer says nothing about this wish
    std::uint64_t job = 0;          // job that writes it
    Revision over = 0;              // revision that the job replaces
    bool in_place = false;          // it was announced or served
    bool replaced = false;
    std::string why_refused;
  };
  // Announcement of a wish that has ended; it must be taken back.
  struct WithdrawnWish {
    Versions announced;  // its epoch is 0 while it is unknown whether it was written
    std::uint64_t job = 0;
    Revision over = 0;
    Instant since;
  };
  enum class Question : std::uint8_t { none, read, write, find_catalog, raise };
  bool advance(Step step, const WorkerTable& workers);  // returns true if it asked something
  std::optional<Versions> next_step(Instant now, const WorkerTable& workers);
  std::optional<Versions> next_of_wish();
  Versions target() const;   // what the wish wants next: announced, or served
  Versions settled() const;  // current versions without the announcement
  void note_announcement(Instant now, const WorkerTable& workers);
  void note_load_refusal(Instant now, const WorkerTable& workers);
  bool must_take_back(Instant now, const WorkerTable& workers) const;
  void on_catalog_found(const JobResult& result);
  void trace_withdrawn(const CoordinationReply& answer, Question question, bool written);
  void forget_withdrawn(Instant now);
  void write(Step step, const Versions& next, Revision expected);
  void ask_key(Step step);
  void adopt(Step step, const CoordinationReply& answer, const WorkerTable& workers);
  void start(Step step, Question question, Job work);
  void note_answer(Step step, bool answered, const JobResult& result);
  bool leaves_to_others() const;
  bool shows_a_loss(Question question, const CoordinationReply& answer) const;
  bool disproves_a_rumour(Question question, const CoordinationReply& answer) const;
  void write_again(Step step, const CoordinationReply& answer, bool lost);

  Versions now_;
  bool coordinate_;
  Duration heartbeat_, wait_deadline_;
  std::uint64_t heard_epoch_ = 0;      // highest epoch heard
  std::uint64_t disproved_epoch_ = 0;  // highest epoch heard that a later read did not confirm
  std::uint64_t restored_epoch_ = 0;   // highest epoch that the Coordination had lost
  std::optional<Instant> behind_since_, rumour_read_;
  StoreEpisode episode_{"coordination", false};  // `note_answer` logs
  std::string away_why_;        // why the Coordination did not answer the last question; "" = it did
  bool catalog_asked_ = false;  // since the last tick
  Question question_ = Question::none;
  std::uint64_t job_ = 0;
  Instant asked_at_;  // of the question
  std::uint64_t epoch_when_asked_ = 0, heard_when_asked_ = 0;
  Revision raised_over_ = 0;  // revision of the key to write once the revisions are raised
  std::optional<PendingWish> wish_;
  std::optional<WithdrawnWish> withdrawn_;
  std::uint64_t announced_epoch_ = 0;  // of the versions that were seen last
  Instant announced_since_;
  bool was_everywhere_ = false;  // all live workers have had the next model at some time in that epoch
};

}  // namespace troupe::router
