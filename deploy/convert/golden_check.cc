// Asks a converted model for each golden case and compares the answers.
#include "deploy/convert/golden_check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t golden_bytes_max = std::uint64_t{1} << 30, model_config_bytes_max = 1 << 20;
constexpr std::size_t golden_values_max = 20'000'000;
// Similarities this close are equal up to float32's rounding, and may change places in a list.
constexpr double tie = 1e-6;

using Item = std::uint64_t;

// Members of a model's config.json that decide how a case is asked.
struct AskedModel {
  Item num_items = 0;
  double temperature = 1;
  bool reads_ratings = false;  // ratings of events are its actions
  bool ranks_tasks = false;
};

AskedModel asked_model_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const nlohmann::json document = kernels::read_json_file(file, model_config_bytes_max);
  const kernels::JsonFields fields(file, document);
  AskedModel model;
  model.num_items = fields.integer("num_items", 1, std::uint64_t{1} << 26);
  model.temperature = fields.maybe_number("temperature", 1e-6, 1e6).value_or(1);
  model.reads_ratings = fields.has("action_embedding");
  model.ranks_tasks = fields.has("task_head");
  return model;
}

template <class Number>
std::vector<Number> numbers_of(const nlohmann::json& list, const std::string& name) {
  std::vector<Number> numbers;
  if (!list.is_array())
    throw std::invalid_argument(name + " is " + kernels::describe(list) + "; expected a list");
  for (const nlohmann::json& value : list) {
    const bool fits = std::is_floating_point_v<Number> ? value.is_number() : value.is_number_unsigned();
    if (!fits)
      throw std::invalid_argument(name + " has " + kernels::describe(value) + "; expected " +
                                  (std::is_floating_point_v<Number> ? "numbers" : "items"));
    numbers.push_back(value.get<Number>());
  }
  return numbers;
}

// Returns the items of the catalog: a list, or a text such as "1..1682"; all rows by default.
std::vector<Item> catalog_of(const nlohmann::json& document, const AskedModel& model) {
  const auto found = document.find("all_item_ids");
  if (found != document.end() && found->is_array()) return numbers_of<Item>(*found, "all_item_ids");
  Item first = 1, last = model.num_items;
  if (found != document.end()) {
    if (!found->is_string())
      throw std::invalid_argument("all_item_ids is " + kernels::describe(*found) +
                                  "; expected a list, or a text FIRST..LAST");
    const std::string& text = found->get_ref<const std::string&>();
    const std::size_t dots = text.find("..");
    const char* const end = text.data() + text.size();
    const auto is_whole = [](const char* from, const char* to, Item& item) {
      const auto read = std::from_chars(from, to, item);
      return read.ec == std::errc() && read.ptr == to;
    };
    if (dots == text.npos || !is_whole(text.data(), text.data() + dots, first) ||
        !is_whole(text.data() + dots + 2, end, last))
      throw std::invalid_argument("all_item_ids is " + kernels::in_quotes(text) + "; expected FIRST..LAST");
  }
  if (first < 1 || first > last || last > model.num_items)
    throw std::invalid_argument("all_item_ids leaves the model's items, 1 to " +
                                std::to_string(model.num_items) + "; expected items of the model");
  std::vector<Item> items(last - first + 1);
  std::iota(items.begin(), items.end(), first);
  return items;
}

class CaseCheck {
 public:
  CaseCheck(const ModelFamily& family, const std::filesystem::path& folder, const AskedModel& model,
            const std::vector<Item>& catalog, GoldenReport& report)
      : family_(family), folder_(folder), model_(model), catalog_(catalog), report_(report) {}

  // Returns the first fault of the case, if there is one.
  std::optional<std::string> run(const nlohmann::json& golden) {
    fault_.reset();
    const std::vector<Item> candidates = candidates_of(golden);
    const nlohmann::json answer = family_.logits(folder_, request_of(golden, candidates));
    const std::size_t before = report_.numbers + report_.lists;
    model_.ranks_tasks ? check_tasks(golden, answer) : check_similarities(golden, answer, candidates);
    if (golden.contains("similarity") && !model_.ranks_tasks && !golden.contains("item_ids_scored"))
      throw std::invalid_argument("similarity is without items; expected item_ids_scored beside it");
    if (report_.numbers + report_.lists == before)
      throw std::invalid_argument(
          "there is nothing to compare; expected item_ids_scored with similarity, top "
          "lists, or candidate_ids with task_logits");
    return fault_;
  }

 private:
  void fail(const std::string& what) {
    if (!fault_) fault_ = what;
  }

  std::vector<Item> candidates_of(const nlohmann::json& golden) const {
    const bool lists = golden.contains("top20") || golden.contains("top20_unseen");
    if (model_.ranks_tasks || !lists)
      for (const char* const key : {"candidate_ids", "item_ids_scored"})
        if (const auto found = golden.find(key); found != golden.end()) return numbers_of<Item>(*found, key);
    std::vector<Item> all = catalog_;
    if (const auto scored = golden.find("item_ids_scored"); scored != golden.end())
      for (const Item item : numbers_of<Item>(*scored, "item_ids_scored"))
        if (!std::ranges::binary_search(catalog_, item)) all.push_back(item);
    return all;
  }

  nlohmann::json request_of(const nlohmann::json& golden, const std::vector<Item>& candidates) const {
    nlohmann::json request{{"candidate_ids", candidates}};
    for (const char* const key : {"item_ids", "timestamps", "request_timestamp", "actions", "context"})
      if (const auto found = golden.find(key); found != golden.end()) request[key] = *found;
    if (model_.reads_ratings && golden.contains("ratings")) request["actions"] = golden["ratings"];
    return request;
  }

  // Counts a difference; returns whether it is within the bound.
  bool agrees(double expected, double found, double scale) {
    ++report_.numbers;
    const double difference = std::abs(expected - found) / scale;
    if (difference > report_.largest || std::isnan(difference)) report_.largest = difference;
    return difference <= GoldenReport::bound;
  }

  std::map<Item, double> similarities_of(const nlohmann::json& answer,
                                         const std::vector<Item>& candidates) const {
    const bool direct = answer.contains("similarities");
    const auto values = numbers_of<double>(
        answer.value(direct ? "similarities" : "next_item_logits", nlohmann::json()), "the model's answer");
    if (values.size() != candidates.size())
      throw std::invalid_argument("the model answered " + std::to_string(values.size()) +
                                  " numbers; expected " + std::to_string(candidates.size()));
    if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
      throw std::invalid_argument("the model answered a number that is not finite; expected similarities");
    std::map<Item, double> similarities;
    for (std::size_t i = 0; i < values.size(); ++i)
      similarities[candidates[i]] = direct ? values[i] : values[i] * model_.temperature;
    return similarities;
  }

  void check_similarities(const nlohmann::json& golden, const nlohmann::json& answer,
                          const std::vector<Item>& candidates) {
    const std::map<Item, double> found = similarities_of(answer, candidates);
    if (const auto scored = golden.find("item_ids_scored"); scored != golden.end()) {
      const auto items = numbers_of<Item>(*scored, "item_ids_scored");
      const auto expected = numbers_of<double>(golden.value("similarity", nlohmann::json()), "similarity");
      if (items.size() != expected.size())
        throw std::invalid_argument("similarity has " + std::to_string(expected.size()) +
                                    " entries; expected as many as item_ids_scored");
      for (std::size_t i = 0; i < items.size(); ++i)
        if (const double number = similarity_of(found, items[i]); !agrees(expected[i], number, 1))
          fail("the similarity of item " + std::to_string(items[i]) + " is " + std::to_string(number) +
               "; expected " + std::to_string(expected[i]));
    }
    check_list(golden, "top20", found, {});
    if (golden.contains("top20_unseen"))
      check_list(golden, "top20_unseen", found,
                 numbers_of<Item>(golden.value("item_ids", nlohmann::json::array()), "item_ids"));
  }

  static double similarity_of(const std::map<Item, double>& found, Item item) {
    const auto similarity = found.find(item);
    if (similarity == found.end())
      throw std::invalid_argument("item_ids_scored has item " + std::to_string(item) +
                                  ", which is no candidate; expected candidates");
    return similarity->second;
  }

  // Compares a list of the best items of the catalog, less those of `seen`.
  void check_list(const nlohmann::json& golden, const std::string& key, const std::map<Item, double>& found,
                  std::vector<Item> seen) {
    if (!golden.contains(key)) return;
    const auto expected = numbers_of<Item>(golden[key], key);
    if (expected.empty()) throw std::invalid_argument(key + " is empty; expected the best items");
    if (std::set<Item>(expected.begin(), expected.end()).size() != expected.size())
      throw std::invalid_argument(key + " has an item twice; expected each item once");
    std::ranges::sort(seen);
    std::vector<Item> order;
    for (const Item item : catalog_)
      if (!std::ranges::binary_search(seen, item)) order.push_back(item);
    if (expected.size() > order.size())
      throw std::invalid_argument(key + " has more items than the catalog; expected at most " +
                                  std::to_string(order.size()));
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(expected.size());
    std::partial_sort(order.begin(), end, order.end(), [&](Item a, Item b) {
      return found.at(a) != found.at(b) ? found.at(a) > found.at(b) : a < b;
    });
    ++report_.lists;
    compare_list(key, expected, order, found);
  }

  void compare_list(const std::string& key, const std::vector<Item>& expected, const std::vector<Item>& order,
                    const std::map<Item, double>& found) {
    bool swapped = false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == order[i]) continue;
      const auto other = found.find(expected[i]);
      if (other == found.end() || std::abs(other->second - found.at(order[i])) > tie) {
        fail(key + "[" + std::to_string(i) + "] is item " + std::to_string(order[i]) + "; expected item " +
             std::to_string(expected[i]));
        return;
      }
      swapped = true;
    }
    report_.swapped += swapped;
  }

  // A candidate's logits: a list with one number a task, or a number.
  static std::vector<double> flat(const nlohmann::json& list, const std::string& name) {
    std::vector<double> numbers;
    if (!list.is_array())
      throw std::invalid_argument(name + " is " + kernels::describe(list) + "; expected a list");
    for (const nlohmann::json& value : list) {
      const auto inner = numbers_of<double>(value.is_array() ? value : nlohmann::json::array({value}), name);
      numbers.insert(numbers.end(), inner.begin(), inner.end());
    }
    return numbers;
  }

  void check_tasks(const nlohmann::json& golden, const nlohmann::json& answer) {
    const auto expected = flat(golden.value("task_logits", nlohmann::json()), "task_logits");
    const auto found = flat(answer.value("task_logits", nlohmann::json()), "the model's answer");
    if (expected.size() != found.size())
      throw std::invalid_argument("the model answered " + std::to_string(found.size()) +
                                  " logits of tasks; expected " + std::to_string(expected.size()));
    double scale = 1;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (!agrees(expected[i], found[i], scale))
        fail("task_logits, number " + std::to_string(i) + ", is " + std::to_string(found[i]) + "; expected " +
             std::to_string(expected[i]));
  }

  const ModelFamily& family_;
  const std::filesystem::path& folder_;
  const AskedModel& model_;
  const std::vector<Item>& catalog_;
  GoldenReport& report_;
  std::optional<std::string> fault_;
};

std::string name_of_case(std::size_t index, const nlohmann::json& golden) {
  std::string name = "case " + std::to_string(index + 1);
  if (const auto user = golden.find("user_id"); user != golden.end())
    name += " (user " + kernels::describe(*user) + ")";
  return name;
}

}  // namespace

nlohmann::json read_golden(const std::filesystem::path& golden) {
  nlohmann::json document = kernels::read_json_file(golden, golden_bytes_max, golden_values_max);
  const nlohmann::json* const cases = kernels::JsonFields(golden, document).find("cases");
  if (cases == nullptr || !cases->is_array() || cases->empty())
    kernels::throw_load_error(golden, "there are no cases", "a list \"cases\" with at least one");
  return document;
}

GoldenReport check_golden(const ModelFamily& family, const std::filesystem::path& model,
                          const std::filesystem::path& golden) {
  const nlohmann::json document = read_golden(golden);
  return check_golden(family, model, golden, document);
}

GoldenReport check_golden(const ModelFamily& family, const std::filesystem::path& model,
                          const std::filesystem::path& golden, const nlohmann::json& document) {
  const nlohmann::json& cases = document["cases"];
  if (!family.logits)
    throw std::invalid_argument(model.string() + " is of the family \"" + family.name +
                                "\", which computes no logits; expected one that supports troupe logits");
  const AskedModel asked = asked_model_of(model);
  GoldenReport report;
  std::string where = golden.string();
  try {
    std::vector<Item> catalog = catalog_of(document, asked);
    std::ranges::sort(catalog);
    CaseCheck check(family, model, asked, catalog, report);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const nlohmann::json& one = cases[i];
      where = golden.string() + ": " + name_of_case(i, one);
      if (!one.is_object())
        throw std::invalid_argument("the case is " + kernels::describe(one) + "; expected an object");
      ++report.cases;
      const auto fault = check.run(one);
      if (fault) report.faults.push_back(name_of_case(i, one) + ": " + *fault);
      report.agreeing += !fault;
    }
  } catch (const std::invalid_argument& wrong) {
    throw std::invalid_argument(where + ": " + wrong.what());
  }
  return report;
}

}  // namespace troupe::deploy
