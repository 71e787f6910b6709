// Reads experiments from JSON.
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "deploy/lab/experiments/experiment.h"
#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using Json = nlohmann::json;

constexpr std::size_t file_bytes_max = 1 << 20;
constexpr JsonBounds bounds{.values_max = 100'000, .depth_max = 8};

using Setter = std::function<bool(Experiment&, const Json&)>;

template <class T>
Setter number(T Experiment::*member, double least, double most) {
  return [=](Experiment& e, const Json& value) {
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most)) return false;
    e.*member = static_cast<T>(value.get<double>());
    return true;
  };
}

Setter flag(bool Experiment::*member) {
  return [=](Experiment& e, const Json& value) {
    if (!value.is_boolean()) return false;
    e.*member = value.get<bool>();
    return true;
  };
}

Setter text(std::string Experiment::*member) {
  return [=](Experiment& e, const Json& value) {
    if (!value.is_string()) return false;
    e.*member = value.get<std::string>();
    return true;
  };
}

Setter texts(std::vector<std::string> Experiment::*member) {
  return [=](Experiment& e, const Json& value) {
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text)) return false;
    e.*member = value.get<std::vector<std::string>>();
    return true;
  };
}

struct MemberRule {
  Setter set;
  std::string expected;
};

MemberRule in_range(auto Experiment::*member, double least, double most) {
  return {number(member, least, most), Json(least).dump() + " to " + Json(most).dump()};
}
MemberRule any_text(std::string Experiment::*member) { return {text(member), "a text"}; }

const std::map<std::string, MemberRule>& members() {
  using E = Experiment;
  static const std::map<std::string, MemberRule> all{
      {"name", any_text(&E::name)},
      {"nodes", in_range(&E::nodes, 1, 1'000)},
      {"device", any_text(&E::device)},
      {"shape", any_text(&E::shape)},
      {"link", any_text(&E::link)},
      {"host_link", any_text(&E::host_link)},
      {"devices", in_range(&E::devices, 1, 64)},
      {"efficiency", in_range(&E::efficiency, 0, 1)},
      {"memory_gb", in_range(&E::memory_gb, 0.001, 1e6)},
      {"users", in_range(&E::users, 1, 4e9)},
      {"items", in_range(&E::items, 1, 4e9)},
      {"user_tokens", in_range(&E::user_tokens, 1, 1e6)},
      {"user_sigma", in_range(&E::user_sigma, 0, 4)},
      {"user_tokens_max", in_range(&E::user_tokens_max, 1, 100'000)},
      {"item_tokens", in_range(&E::item_tokens, 1, 256)},
      {"candidates", in_range(&E::candidates, 1, 2'000)},
      {"item_skew", in_range(&E::item_skew, 0, 4)},
      {"user_skew", in_range(&E::user_skew, 0, 4)},
      {"return_share", in_range(&E::return_share, 0, 1)},
      {"return_after", in_range(&E::return_after, 1, 1e9)},
      {"return_sigma", in_range(&E::return_sigma, 0, 4)},
      {"drawn_by_length", in_range(&E::drawn_by_length, 0, 4)},
      {"returns_by_length", in_range(&E::returns_by_length, 0, 4)},
      {"group_items", in_range(&E::group_items, 0, 1e6)},
      {"group_share", in_range(&E::group_share, 0, 1)},
      {"group_skew", in_range(&E::group_skew, 0, 4)},
      {"candidates_sigma", in_range(&E::candidates_sigma, 0, 2)},
      {"arrangements", {texts(&E::arrangements), "a list of arrangements"}},
      {"interchangeable", {texts(&E::interchangeable), "a list of arrangements"}},
      {"system_tokens", in_range(&E::system_tokens, 1, 2'000)},
      {"event_tokens", in_range(&E::event_tokens, 0, 256)},
      {"known_events", in_range(&E::known_events, 0, 1e6)},
      {"known_share", in_range(&E::known_share, 0, 1)},
      {"training", in_range(&E::training, 1, 1e6)},
      {"approximate", in_range(&E::approximate, 0, 1)},
      {"routing", any_text(&E::routing)},
      {"routing_alpha", in_range(&E::routing_alpha, 0, 1)},
      {"routers", in_range(&E::routers, 0, 1'000)},
      {"requests_per_s", in_range(&E::requests_per_s, 0, 1e6)},
      {"policy", any_text(&E::policy)},
      {"placement", any_text(&E::placement)},
      {"undivided", {flag(&E::shared_areas), "true or false"}},
      {"pulls_stall", {flag(&E::pulls_stall), "true or false"}},
      {"overlap", {flag(&E::overlap), "true or false"}},
      {"pull_share", in_range(&E::pull_share, 0, 1)},
      {"alpha", in_range(&E::alpha, 1e-6, 10)},
      {"window", in_range(&E::window, 1, 1e9)},
      {"window_s", in_range(&E::window_s, 0, 1e6)},
      {"item_gb", in_range(&E::item_gb, 0, 1e6)},
      {"batch_tokens", in_range(&E::batch_tokens, 1, 1e6)},
      {"scale", in_range(&E::scale, 1, 1e6)},
      {"in_flight", in_range(&E::in_flight, 1, 1'000)},
      {"warm_up", in_range(&E::warm_up, 0, 1e9)},
      {"measured", in_range(&E::measured, 1, 1e9)},
      {"seed", in_range(&E::seed, 0, 1e15)}};
  return all;
}

Experiment read_experiment(const Json& json, const std::string& where) {
  if (!json.is_object()) throw ImportError(where + ": expected an object");
  Experiment experiment;
  for (const auto& [name, value] : json.items()) {
    const auto at = members().find(name);
    if (at == members().end()) {
      std::string names;
      for (const auto& [known, member] : members()) names += (names.empty() ? "" : ", ") + known;
      throw ImportError(where + ": \"" + name + "\" is not a member; expected some of " + names);
    }
    if (!at->second.set(experiment, value))
      throw ImportError(where + ": " + name + " is " + value.dump().substr(0, 60) + "; expected " +
                        at->second.expected);
  }
  if (experiment.overlap && experiment.pulls_stall)
    throw ImportError(
        where + ": overlap is true, but pulls stall the engine; expected \"pulls_stall\": false beside it");
  return experiment;
}

std::string text_of(const std::string& path) {
  try {
    return read_whole_file(path, file_bytes_max, "a file with a JSON list of experiments");
  } catch (const FileError& error) {
    throw ImportError(error.what());
  }
}

}  // namespace

std::vector<Experiment> read_experiments(const std::string& path) {
  const std::string text = text_of(path);
  if (const std::string excess = exceeded_bound(text, bounds); !excess.empty())
    throw ImportError(path + ": has " + excess + "; expected fewer experiments");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) throw ImportError(path + ": expected a JSON list of experiments");
  std::vector<Experiment> experiments;
  for (std::size_t i = 0; i < json.size(); ++i)
    experiments.push_back(read_experiment(json[i], path + ": experiment " + std::to_string(i)));
  return experiments;
}

}  // namespace troupe::deploy
