// Finds out which of several served models a request is for, from its body or query, and refuses
// ambiguous ones.
#include "server/http/model_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/wire/json_text.h"
#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

// Request kinds, how a message says them, and the refusal code of a model that does not serve one.
struct Kind {
  std::string_view name, does, code;
};
constexpr Kind kinds[] = {
    {"rank", "rank candidates", "not_a_ranker"},       {"score", "score labels", "not_a_scorer"},
    {"generate", "generate items", "not_a_generator"}, {"complete", "complete prompts", "not_a_generator"},
    {"tokenize", "tokenize texts", "no_tokenizer"},    {"embed", "embed texts or users", "not_an_embedder"}};

bool serves(const ServerModel& model, std::string_view kind) {
  if (kind == "tokenize") return model.text.tokenizer != nullptr;
  if (kind == "embed") return model.text.form && model.text.form->embeds();
  for (std::string_view rest = model.serves; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(", "), rest.size());
    if (rest.substr(0, comma) == kind) return true;
    rest.remove_prefix(std::min(comma + 2, rest.size()));
  }
  return kind.empty();
}

std::string names_of(std::span<const ServerModel> models, std::string_view kind) {
  std::string names;
  for (const ServerModel& model : models)
    if (serves(model, kind)) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

// ---- where a body names its model ----

constexpr std::string_view blanks = " \t\r\n";

// Returns the position after the string that begins at `at`; npos = it does not end.
std::size_t behind_string(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\';
  return at < json.size() ? at + 1 : json.npos;
}

// Returns the position of the comma or bracket after the value that begins at `at`; npos = it does
// not end.
std::size_t behind_value(std::string_view json, std::size_t at) {
  for (std::size_t depth = 0; at < json.size();) {
    const char c = json[at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
    if (c == '"') {
      at = behind_string(json, at);
      continue;
    }
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    ++at;
  }
  return json.npos;
}

struct ModelMember {
  std::size_t begin = 0, end = 0;  // including one comma, if there is one
  std::string_view value;
};
struct Members {
  std::optional<ModelMember> model;
  bool twice = false;
};

// Finds the outermost members called "model". Invalid JSON is left to the parser of the body.
Members find_model(std::string_view json) {
  Members found;
  std::size_t at = json.find_first_not_of(blanks), comma = json.npos;
  if (at == json.npos || json[at] != '{') return found;
  ++at;
  for (;;) {
    const std::size_t begin = at = json.find_first_not_of(blanks, at);
    if (at == json.npos || json[at] != '"') return found;
    const std::size_t key_end = behind_string(json, at);
    if (key_end == json.npos) return found;
    const std::size_t colon = json.find_first_not_of(blanks, key_end);
    if (colon == json.npos || json[colon] != ':') return found;
    const std::size_t value = json.find_first_not_of(blanks, colon + 1);
    const std::size_t end = value == json.npos ? value : behind_value(json, value);
    if (end == json.npos) return found;
    const bool last = json[end] != ',';
    if (json.substr(begin, key_end - begin) == "\"model\"") {
      const std::size_t next = last ? json.npos : json.find_first_not_of(blanks, end + 1);
      // a comma without a member after it must stay, so that the body stays invalid
      if (!last && (next == json.npos || json[next] != '"')) return {};
      found.twice = found.model.has_value();
      const std::string_view text = json.substr(value, end - value);
      const bool comma_before = last && comma != json.npos;
      found.model = ModelMember{comma_before ? comma : begin, last ? end : end + 1,
                                text.substr(0, text.find_last_not_of(blanks) + 1)};
    }
    if (last) return found;
    comma = end;
    at = end + 1;
  }
}

struct Named {
  std::optional<std::string> name;
  std::string body;  // without the member, if it was there
  bool in_body = false;
};
std::variant<Named, Refusal> name_in_body(std::string_view body) {
  const Members found = find_model(body);
  if (found.twice)
    return Refusal{RefusalKind::malformed, "malformed_json", "a key is given twice", "model", "it once"};
  if (!found.model) return Named{};
  const ModelMember& member = *found.model;
  if (member.value.empty() || member.value.front() != '"' || member.value.size() < 2)
    return Refusal{RefusalKind::malformed, "wrong_type",
                   "model is " + printable(std::string(member.value.substr(0, quoted_bytes_max))), "model",
                   "the name of a model, as text"};
  Named named{std::string(member.value.substr(1, member.value.size() - 2)), std::string(body), true};
  // Blanks keep the positions of errors in the rest of the body.
  std::fill(named.body.begin() + static_cast<std::ptrdiff_t>(member.begin),
            named.body.begin() + static_cast<std::ptrdiff_t>(member.end), ' ');
  return named;
}

std::optional<std::string> name_in_query(std::string_view target) {
  constexpr std::string_view key = "model=";
  const std::size_t question = target.find('?');
  std::string_view query = question == target.npos ? "" : target.substr(question + 1);
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    if (query.starts_with(key)) return std::string(query.substr(key.size(), end - key.size()));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return std::nullopt;
}

// ---- the choice ----

Refusal not_served(std::string what, std::string_view kind, std::string others, const Kind& row) {
  return {RefusalKind::unprocessable, std::string(row.code), std::move(what), "model",
          others.empty() ? "a node with a model that serves " + std::string(kind)
                         : "one of " + std::move(others)};
}

std::variant<const ServerModel*, Refusal> choose(const std::optional<std::string>& name,
                                                 std::string_view kind, std::span<const ServerModel> models) {
  const auto row = std::ranges::find(kinds, kind, &Kind::name);
  const std::string able = names_of(models, kind);
  if (name) {
    const auto model = std::ranges::find(models, *name, &ServerModel::name);
    if (model == models.end())
      return Refusal{RefusalKind::not_found, "unknown_model", "no model is named " + in_quotes(*name),
                     "model", "one of " + names_of(models, "")};
    if (serves(*model, kind)) return &*model;
    return not_served(
        "model " + in_quotes(*name) + " does not " + std::string(row->does) + ", it serves " + model->serves,
        kind, able, *row);
  }
  const auto may = [&](const ServerModel& model) { return serves(model, kind); };
  const auto first = std::ranges::find_if(models, may);
  if (first == models.end()) return not_served("no model here can " + std::string(row->does), kind, "", *row);
  if (std::ranges::count_if(models, may) == 1) return &*first;
  return Refusal{
      RefusalKind::malformed, "which_model", "no model is named, and several are possible", "model",
      "one of " + able + (kind.empty() ? ", as ?model=NAME after the path" : ", as `model` in the body")};
}

}  // namespace

std::variant<ChosenModel, Refusal> choose_model(const HttpRequest& request,
                                                std::span<const ServerModel> models) {
  const std::optional<std::string_view> kind = asked_of_model(request.method, request.target);
  if (!kind || models.empty()) return ChosenModel{};
  Named named;
  if (!kind->empty()) {
    auto read = name_in_body(request.body);
    if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
    named = std::get<Named>(std::move(read));
  }
  if (!named.name) named.name = model_in_path(request.target);
  if (!named.name) named.name = name_in_query(request.target);
  const auto chosen = choose(named.name, *kind, models);
  if (const auto* refusal = std::get_if<Refusal>(&chosen)) return *refusal;
  return ChosenModel{std::get<const ServerModel*>(chosen), std::move(named.body), named.in_body};
}

ChosenModel without_served_name(const HttpRequest& request, std::span<const std::string> names) {
  const std::optional<std::string_view> kind = asked_of_model(request.method, request.target);
  if (names.empty() || !kind || kind->empty()) return {};
  auto read = name_in_body(request.body);
  auto* named = std::get_if<Named>(&read);
  if (!named || !named->name || std::ranges::find(names, *named->name) == names.end()) return {};
  return {nullptr, std::move(named->body), true};
}

std::variant<const ServerModel*, Refusal> choose_model(const std::string& name, std::string_view kind,
                                                       std::span<const ServerModel> models) {
  if (models.empty()) return nullptr;
  return choose(name.empty() ? std::nullopt : std::optional(name), kind, models);
}

}  // namespace troupe::server
