#pragma once
// Which model and catalog new requests are pinned to (promise 4). The truth is one key of the Coordination,
// "model\ncatalog\nnext model\nnext catalog\nshare"; its revision is the epoch. Every router reads it once
// per heartbeat and follows the highest epoch that it hears of. An operator's wish is carried out in steps,
// each a compare-and-set:
//
//   announce the next model, and the catalog that comes with it → every live worker has the model → flip both
//
// A next model that only a share of users is to have stays announced, once it was seen everywhere: then they
// are pinned to it, by their hash (share_place in fingerprint.h), and the others to the present one. Another
// share, all of it, or the present model for all (the way back) is another wish.
//
// A catalog alone is flipped to at once. Any router flips once it sees the announced model everywhere, so a
// swap goes on when the router that was asked dies. Any router takes the announcement back when a worker can
// never load the model, or when it has stood for longer than a wish is waited for and was never everywhere. A
// later wish replaces an earlier one and all that this has announced. One question at a time is on its way.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/fleet/step.h"
#include "router/fleet/worker_table.h"

namespace troupe::router {

inline constexpr std::string_view versions_key = "versions";

// The key's value. Lines that say nothing are left out at the end, so that older readers take it; they do not
// take a share.
std::string versions_text(const Versions& versions);
std::optional<Versions> parse_versions(std::uint64_t epoch, std::string_view text);

class VersionKeeper {
 public:
  // Without a Coordination the initial versions stay, with epoch 0.
  // `patience`: how long an announced model is waited for by those who have not wished for it.
  VersionKeeper(Versions initial, bool coordinate, Duration heartbeat = {200'000},
                Duration patience = {120'000'000})
      : now_(std::move(initial)), coordinate_(coordinate), heartbeat_(heartbeat), patience_(patience) {}

  const Versions& versions() const { return now_; }
  // False until the key was read once: what this process was started with may have been replaced long ago.
  bool known() const { return !coordinate_ || now_.epoch > 0; }

  // False also while something newer has been rumoured for more than three heartbeats: then nobody may be
  // pinned to what is known here.
  bool current(Instant now) const {
    return known() && (!behind_since_ || now.us - behind_since_->us <= 3 * heartbeat_.us);
  }

  void hear(Instant now, const Versions& heard, const WorkerTable& workers);
  // Somebody follows this epoch. A newer one is read for, once per heartbeat.
  void rumour(Step step, std::uint64_t epoch, const WorkerTable& workers);
  void tick(Step step,
            const WorkerTable& workers);  // once per heartbeat, and whenever something newer is rumoured
  enum class Answer : std::uint8_t { foreign, read, written };
  Answer on_done(Step step, std::uint64_t job, const JobResult& result, const WorkerTable& workers);

  // An empty version keeps the present one. There is no wish yet, and there is a Coordination.
  // `share`: of users, in thousandths, that get the model.
  void wish(const std::string& model, const std::string& catalog, std::uint32_t share = Versions::all_users);
  // `served` is said after the key was read or written since the wish; `refused` once nothing of it is left.
  enum class Wish : std::uint8_t { none, pending, served, replaced, wrong_catalog, refused };
  Wish wish_state() const;
  bool wish_changes() const { return wish_ && wish_->changes; }  // false: it was served when it came
  std::string why_refused() const { return wish_ ? wish_->why_refused : ""; }
  void end_wish(Instant now, bool kept = false);  // what it has announced is taken back, unless it is `kept`
  bool swapping() const { return wish_.has_value() || !now_.next_model.empty(); }

 private:
  struct Wished {
    std::string model, catalog;  // as named
    std::uint32_t share = Versions::all_users;
    bool catalog_known = false, catalog_wrong = false;
    bool confirmed = false, changes = false;
    std::uint64_t earlier_job = 0;  // was under way when it came: its answer says nothing of this wish
    std::uint64_t job = 0;          // that writes it
    Revision over = 0;              // what that job replaces
    bool in_place = false;          // it was announced or served
    bool replaced = false;
    std::string why_refused;
  };
  // The announcement of a wish that has ended; it must not stand.
  struct Withdrawn {
    Versions announced;  // its epoch is 0 while nobody knows whether it was written
    std::uint64_t job = 0;
    Revision over = 0;
    Instant since;
  };
  enum class Question : std::uint8_t { none, read, write, find_catalog };
  bool advance(Step step, const WorkerTable& workers);  // true if it asked something
  std::optional<Versions> next_step(Instant now, const WorkerTable& workers);
  std::optional<Versions> next_of_wish();
  Versions target() const;   // of the wish: announced, or served
  Versions settled() const;  // without what is announced
  void note_announcement(Instant now, const WorkerTable& workers);
  void note_load_refusal(Instant now, const WorkerTable& workers);
  bool must_take_back(Instant now, const WorkerTable& workers) const;
  void on_catalog_found(const JobResult& result);
  void trace_withdrawn(const Coordinated& answer, Question question, bool written);
  void forget_withdrawn(Instant now);
  void write(Step step, const Versions& next, Revision expected);
  void ask_key(Step step);
  void adopt(Step step, const Coordinated& answer, const WorkerTable& workers);

  Versions now_;
  bool coordinate_;
  Duration heartbeat_, patience_;
  std::uint64_t heard_epoch_ = 0;  // the highest
  std::optional<Instant> behind_since_, rumour_read_;
  bool catalog_asked_ = false;  // since the last tick
  Question question_ = Question::none;
  std::uint64_t job_ = 0;
  std::optional<Wished> wish_;
  std::optional<Withdrawn> withdrawn_;
  std::uint64_t announced_epoch_ = 0;  // of the versions that were seen last
  Instant announced_since_;
  bool was_everywhere_ = false;  // every worker that lived had the next model, once in that epoch
};

}  // namespace troupe::router
