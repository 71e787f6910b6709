// Summarises the status of a cluster for people.
#include "deploy/reports/status_report.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deploy/reports/table.h"
#include "runtime/pool/pool_areas.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

constexpr std::size_t version_shown = 12;  // characters of a version
constexpr std::string_view role_order[] = {"router", "cache_meta", "inference_worker"};

std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string name_of(const json& names, std::uint64_t node) {
  const std::string number = std::to_string(node);
  return names.is_object() ? names.value(number, number) : number;
}

// The fields of one actor.
struct ActorFields {
  std::uint64_t node = 0;
  std::string role;
  bool ready = false;
  std::vector<std::pair<std::string, std::string>> fields;

  std::string text(std::string_view name) const {
    for (const auto& [known, value] : fields)
      if (known == name) return value;
    return "";
  }
  std::uint64_t number(std::string_view name) const { return number_in(text(name)); }
};

std::vector<ActorFields> actors_of(const json& cluster) {
  std::vector<ActorFields> actors;
  for (const json& document : cluster.at("actors")) {
    ActorFields actor{document.at("node"), document.at("role"), document.at("ready"), {}};
    for (const json& field : document.at("fields"))
      actor.fields.emplace_back(field.at("name"), field.at("value"));
    actors.push_back(std::move(actor));
  }
  return actors;
}

// One line of the summary: a node with what its actors say, over all models.
struct NodeLine {
  std::set<std::string> roles;
  bool ready = true, leads = false;
  std::uint64_t slots = 0, busy = 0, waiting = 0, flights = 0;
  std::uint64_t hits[2] = {}, misses[2] = {};  // of item blocks and of user blocks
  std::uint64_t pages = 0, pages_used = 0;
};

void add(NodeLine& node, const ActorFields& actor) {
  node.roles.insert(actor.role);
  node.ready = node.ready && actor.ready;
  node.leads = node.leads || (actor.role == "cache_meta" && actor.text("leader") == "yes");
  if (actor.role == "router") {
    node.flights += actor.number("requests_in_flight");
    node.waiting += actor.number("requests_waiting");
  } else if (actor.role == "inference_worker") {
    node.slots += actor.number("lanes");
    node.busy += actor.number("lanes_busy");
    node.waiting += actor.number("plans_waiting");
  } else if (actor.role == "kv_worker") {
    for (const AreaRow& area : area_table) {
      const std::string name(area.name);
      node.pages += actor.number(name + "_pages");
      node.pages_used += actor.number(name + "_pages_used");
    }
    for (const auto& [at, name] : {std::pair{0, "item"}, {1, "user"}}) {
      node.hits[at] += actor.number(std::string(name) + "_hits");
      node.misses[at] += actor.number(std::string(name) + "_misses");
    }
  }
}

std::string roles_text(const NodeLine& node) {
  std::string text;
  for (const std::string_view role : role_order) {
    if (!node.roles.contains(std::string(role))) continue;
    text += text.empty() ? "" : ", ";
    text += role == "inference_worker" ? "worker" : std::string(role);
    if (role == "cache_meta" && node.leads) text += " (leads)";
  }
  return text;
}

std::string load_text(const NodeLine& node) {
  std::string text;
  if (node.roles.contains("router")) text = std::to_string(node.flights) + " in flight";
  if (node.roles.contains("inference_worker"))
    text += (text.empty() ? "" : ", ") + std::to_string(node.busy) + " of " + std::to_string(node.slots) +
            " executors busy";
  return node.waiting == 0 ? text : text + ", " + std::to_string(node.waiting) + " waiting";
}

std::string share_text(std::uint64_t part, std::uint64_t rest) {
  const std::uint64_t all = part + rest;
  return all == 0 ? "-" : percent(static_cast<double>(part) / static_cast<double>(all));
}

class Summary {
 public:
  explicit Summary(const json& cluster)
      : names_(cluster.value("names", json::object())),
        silent_(cluster.value("silent", json::array())),
        actors_(actors_of(cluster)) {
    for (const ActorFields& actor : actors_) add(nodes_[actor.node], actor);
    for (const json& actor : silent_) {
      NodeLine& node = nodes_[actor.at("node")];
      node.ready = false;
      node.roles.insert(actor.at("role").get<std::string>());
    }
    find_warnings();
  }

  void print(std::ostream& out) const {
    const auto ready = std::ranges::count_if(nodes_, [](const auto& node) { return node.second.ready; });
    out << ready << " of " << nodes_.size() << (nodes_.size() == 1 ? " node is ready" : " nodes are ready");
    out << ", " << warnings_.size() << (warnings_.size() == 1 ? " warning\n" : " warnings\n");
    print_models(out);
    print_requests(out);
    print_nodes(out);
    const std::size_t shown = std::min(warnings_.size(), warnings_shown);
    for (std::size_t i = 0; i < shown; ++i) out << "! " << warnings_[i] << "\n";
    if (shown < warnings_.size()) out << "! and " << warnings_.size() - shown << " more (--all)\n";
  }

 private:
  std::string name(std::uint64_t node) const { return name_of(names_, node); }

  std::string names_in(std::string_view numbers) const {
    std::string text;
    while (!numbers.empty()) {
      const std::size_t blank = std::min(numbers.find(' '), numbers.size());
      text += (text.empty() ? "" : ", ") + name(number_in(numbers.substr(0, blank)));
      numbers.remove_prefix(std::min(blank + 1, numbers.size()));
    }
    return text;
  }

  void warn(const std::string& line) {
    const std::string text = terminal_text(line);  // it has other people's texts
    if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(text);
  }

  void find_warnings() {
    for (const json& actor : silent_)
      warn(name(actor.at("node")) + " does not answer (" + actor.at("role").get<std::string>() + ")");
    for (const ActorFields& actor : actors_) {
      const std::string who = name(actor.node);
      const std::string why = actor.text("not_ready");
      if (!actor.ready) warn(who + " is not ready (" + actor.role + ")" + (why.empty() ? "" : ": " + why));
      if (actor.role == "router") find_router_warnings(actor, who);
      if (actor.role == "inference_worker" && actor.text("draining") == "yes") warn(who + " drains");
      if (actor.number("blocks_corrupt") > 0)
        warn(who + " found " + actor.text("blocks_corrupt") + " corrupt blocks");
      for (const auto& [field, value] : actor.fields)
        if (field == "degraded") warn(who + ": " + value);
      for (const char* fault : {"store_damaged", "store_lost", "store_set_aside"})
        if (const std::string text = actor.text(fault); !text.empty()) warn(who + ": " + text);
    }
    find_version_warnings();
  }

  // Workers that a router lost or finds slow are in its lines "NUMBER: lost, heard …".
  void find_router_warnings(const ActorFields& router, const std::string& who) {
    for (const auto& [field, value] : router.fields) {
      if (field != "worker") continue;
      const std::size_t colon = value.find(": ");
      const std::string_view state = std::string_view(value).substr(std::min(colon + 2, value.size()));
      for (const std::string_view bad : {"lost", "slow"})
        if (state.starts_with(bad)) warn(name(number_in(value)) + " is " + std::string(bad) + " for " + who);
    }
    if (router.text("precompute") == "full")
      warn("the item areas are full: some item blocks are computed only on request");
    if (router.number("answers_different") > 0)
      warn(who + " found " + router.text("answers_different") +
           " answers that differ from their recomputation");
    if (const std::string leaving = router.text("leaving_workers"); !leaving.empty()) {
      std::string text = names_in(leaving) + " leaves: ";
      if (router.text("handed_on") == "yes") {
        text += who + " has item blocks copied";
      } else {
        text += who + " has " + router.text("item_blocks_to_copy") + " item blocks to copy, " +
                router.text("items_looked_up") + " items looked up";
        const std::string awaited = names_in(router.text("awaited_workers"));
        if (!awaited.empty()) text += ", awaits " + awaited;
      }
      warn(text);
    }
  }

  void find_version_warnings() {
    std::map<std::string, std::set<std::string>> epochs;
    for (const ActorFields& actor : actors_)
      if (actor.role == "router") epochs[actor.text("model")].insert(actor.text("versions_epoch"));
    for (const auto& [model, seen] : epochs)
      if (seen.size() > 1)
        warn("the routers follow different versions" + (model.empty() ? "" : " of " + model) +
             "; this ends within a heartbeat unless one is cut off");
  }

  // Returns a version, and the name of its directory before it, if it is known.
  static std::string named(const ActorFields& router, const std::string& version, const std::string& name) {
    const std::string names = router.text(name);
    return (names.empty() ? "" : names + " ") + shortened(router.text(version), version_shown);
  }

  // Prints a line per model: what its first router serves, and how far precomputing is on all routers. Models
  // and catalogs have other people's names.
  void print_models(std::ostream& out) const {
    std::set<std::string> shown;
    for (const ActorFields& router : actors_) {
      if (router.role != "router" || !shown.insert(router.text("model")).second) continue;
      const std::string catalog = router.text("catalog_version"), next = router.text("next_model");
      std::ostringstream line;
      line << "model " << (router.text("model").empty() ? "" : router.text("model") + " ")
           << named(router, "model_version", "model_version_name") << " (" << router.text("model_serves")
           << ")";
      if (!catalog.empty()) line << ", catalog " << shortened(catalog, version_shown);
      if (!next.empty()) {
        const std::string share = router.text("next_share");
        line << ", next " << named(router, "next_model", "next_model_name")
             << (share.empty() ? " is loading" : " for " + share + " of the users");
      }
      line << "; precompute " << precompute_text(router.text("model")) << ", placement "
           << router.text("placement");
      out << terminal_text(line.str()) << "\n";
    }
  }

  std::string precompute_text(const std::string& model) const {
    std::map<std::string, std::string> states;  // state to the names of its routers
    for (const ActorFields& router : actors_)
      if (router.role == "router" && router.text("model") == model) {
        std::string& routers = states[router.text("precompute")];
        routers += (routers.empty() ? "" : ", ") + name(router.node);
      }
    if (states.size() == 1) return states.begin()->first;
    std::string text;
    for (const auto& [state, routers] : states)
      text += (text.empty() ? "" : ", ") + state + " (" + routers + ")";
    return text;
  }

  void print_requests(std::ostream& out) const {
    std::map<std::string, std::uint64_t> sums;
    for (const ActorFields& router : actors_)
      if (router.role == "router")
        for (const char* what :
             {"requests_answered", "requests_refused", "requests_in_flight", "requests_waiting", "retries"})
          sums[what] += router.number(what);
    out << "requests: " << sums["requests_answered"] << " answered, " << sums["requests_refused"]
        << " refused, " << sums["requests_in_flight"] << " in flight, " << sums["requests_waiting"]
        << " waiting; " << sums["retries"] << " plans sent again\n";
  }

  void print_nodes(std::ostream& out) const {
    std::vector<std::pair<std::uint64_t, const NodeLine*>> shown;
    for (const auto& [number, node] : nodes_) shown.emplace_back(number, &node);
    std::ranges::stable_partition(shown, [](const auto& node) { return !node.second->ready; });
    const std::size_t left_out = shown.size() - std::min(shown.size(), nodes_shown);
    shown.resize(shown.size() - left_out);
    Table table({{"node"},
                 {"roles"},
                 {"ready"},
                 {"load"},
                 {"item hits", Table::Align::right},
                 {"user hits", Table::Align::right},
                 {"pages used", Table::Align::right}});
    for (const auto& [number, node] : shown)
      table.row({name(number), roles_text(*node), node->ready ? "yes" : "no", load_text(*node),
                 share_text(node->hits[0], node->misses[0]), share_text(node->hits[1], node->misses[1]),
                 share_text(node->pages_used, node->pages - std::min(node->pages, node->pages_used))});
    table.print(out);
    if (left_out > 0) out << "and " << left_out << " more nodes (--all)\n";
  }

  const json names_, silent_;
  const std::vector<ActorFields> actors_;
  std::map<std::uint64_t, NodeLine> nodes_;
  std::vector<std::string> warnings_;
};

// Prints one line per area of each node's pool: compute time that its pages saved, as allocator
// agents report it.
void print_savings(const json& names, const std::vector<ActorFields>& actors, std::ostream& out) {
  Table table({{"node", Table::Align::right},
               {"area"},
               {"pages", Table::Align::right},
               {"hits", Table::Align::right},
               {"misses", Table::Align::right},
               {"saved ms", Table::Align::right},
               {"us a page", Table::Align::right},
               {"a page more, us/s", Table::Align::right},
               {"a page less, us/s", Table::Align::right}});
  bool any = false;
  for (const ActorFields& actor : actors) {
    if (actor.role != "allocator") continue;
    for (const AreaRow& area : area_table) {
      const std::string of(area.name);
      if (actor.text(of + "_saved_ms").empty()) continue;
      any = true;
      table.row({name_of(names, actor.node), of, actor.text(of + "_pages"), actor.text(of + "_hits"),
                 actor.text(of + "_misses"), actor.text(of + "_saved_ms"),
                 actor.text(of + "_saved_us_per_page"), actor.text(of + "_page_more_us_per_s"),
                 actor.text(of + "_page_less_us_per_s")});
    }
  }
  if (!any) return;
  out << "\nTime saved by each page\n";
  table.print(out);
}

}  // namespace

void print_status_summary(const json& cluster, std::ostream& out) { Summary(cluster).print(out); }

void print_status_fields(const json& cluster, std::ostream& out) {
  const json names = cluster.value("names", json::object());
  const std::vector<ActorFields> actors = actors_of(cluster);
  Table table(
      {{"node", Table::Align::right}, {"actor"}, {"ready"}, {"what"}, {"value", Table::Align::right}});
  for (const ActorFields& actor : actors) {
    std::string node = name_of(names, actor.node), role = actor.role, ready = actor.ready ? "yes" : "no";
    for (const auto& [field, value] : actor.fields) {
      table.row({node, role, ready, field, value});
      node = role = ready = "";
    }
  }
  table.print(out);
  print_savings(names, actors, out);
}

}  // namespace troupe::deploy
