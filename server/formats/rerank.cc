// Translates between the rerank APIs of Cohere, Jina, vLLM and TEI and this server's ranking requests.
// The query names a user, or is a text for models that rank texts.
#include "server/formats/rerank.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "server/formats/json_tree.h"

namespace troupe::server {
namespace {

constexpr std::string_view rerank_members =
    "query, documents, top_n, return_documents, rank_fields, max_tokens_per_doc, model, unknown, "
    "unknown_user, request_timestamp, policy, arrangement or budget_us";
constexpr std::string_view tei_members =
    "query, texts, raw_scores, return_text, truncate, truncation_direction, model or budget_us";

[[noreturn]] void refuse_value(const std::string& name, const std::string& expected) {
  tree_fault("unsupported_value", name + " has a value that is not supported", name, expected);
}

std::string document_of(const JsonTree& value, const std::string& where) {
  if (!value.is_object()) return tree_text(value, where);
  const auto id = value.find(value.contains("id") ? "id" : "text");
  if (id == value.end() || value.size() != 1)
    tree_fault("wrong_type", where + " is an object with other members", where,
               "an item's id: a text, or an object with `id` or `text`");
  return tree_text(*id, where);
}

// Each pair of texts is a prompt of its own, for which there is one plan.
void reject_if_not_apart(const RankRequest& request) {
  const Arrangement named = request.arrangement;
  if (named != Arrangement::unnamed && named != Arrangement::candidates_apart)
    throw Refusal{RefusalKind::malformed, "other_arrangement",
                  "pairs of texts cannot be ranked under arrangement \"" + std::string(word_of(named)) + "\"",
                  "arrangement", std::string(word_of(Arrangement::candidates_apart)) + ", or none"};
  if (!request.policy.empty())
    throw Refusal{RefusalKind::malformed, "other_policy", "pairs of texts have no policy to choose", "policy",
                  "none, or documents that are ids of items"};
}

// Returns true if query and documents are texts for a model that ranks texts.
bool has_texts(const JsonTree& tree, const std::string& list) {
  const auto names_item = [](const JsonTree& document) {
    return document.is_object() && document.contains("id");
  };
  return tree.at("query").is_string() && std::ranges::none_of(tree.at(list), names_item);
}

void take_query(const JsonTree& value, const RowLimits& rows, const ModelText& text, Rerank& out) {
  RankRequest& request = out.request;
  if (value.is_string()) return void(request.user = tree_text(value, "query"));
  out.names = names_of_history("query", value.is_object());
  if (value.is_object()) return take_history(read_history(value, "query", rows, text), request);
  if (!value.is_array()) tree_type_fault(value, "query", "a user's id, or a history: a list of item ids");
  request.own_history = true;
  for (const JsonTree& item : value)
    request.history.push_back(tree_text(item, "query[" + std::to_string(request.history.size()) + "]"));
}

void take_documents(const JsonTree& value, std::uint32_t candidates_max, Rerank& out) {
  if (!value.is_array()) tree_type_fault(value, out.list, "a list of texts or of item ids");
  if (value.size() > candidates_max)
    throw Refusal{RefusalKind::too_large, "too_many_candidates", "there are " + std::to_string(value.size()),
                  out.list, "at most " + std::to_string(candidates_max) + " (router.candidates_max)"};
  for (const JsonTree& document : value)
    out.documents.push_back(
        document_of(document, out.list + "[" + std::to_string(out.documents.size()) + "]"));
}

// A document has one field, so the fields to rank by can only name that one.
void require_rank_fields(const std::string& name, const JsonTree& value) {
  if (value != JsonTree::array({"text"}) && value != JsonTree::array({"id"}))
    refuse_value(name, "[\"text\"], [\"id\"], or none");
}

// Takes a member that both forms have, or that is this server's own. Returns false for others.
bool take_common_member(const std::string& name, const JsonTree& value, std::uint32_t candidates_max,
                        Rerank& out) {
  if (name == "query") return true;  // read at last
  if (name == out.list) return take_documents(value, candidates_max, out), true;
  if (name == "model") return out.model = tree_text(value, name), true;
  if (name == "budget_us") return out.request.budget_us = tree_number(value, name, 0, INT64_MAX), true;
  return false;
}

void take_cohere_member(const std::string& name, const JsonTree& value, Rerank& out) {
  if (name == "policy") return void(out.request.policy = tree_text(value, name));
  if (name == "unknown") {
    if (auto fault = read_word(tree_text(value, name), out.request.unknown)) throw *std::move(fault);
    return;
  }
  if (name == "unknown_user") {
    if (auto fault = read_word(tree_text(value, name), out.request.unknown_user)) throw *std::move(fault);
    return;
  }
  if (name == "request_timestamp")
    return void(out.request.request_timestamp = tree_number(value, name, 0, INT64_MAX));
  if (name == "arrangement") {
    if (auto fault = read_word(tree_text(value, name), out.request.arrangement)) throw *std::move(fault);
    return;
  }
  if (name == "top_n")
    return void(out.request.top_k = static_cast<std::uint32_t>(tree_number(value, name, 1, UINT32_MAX)));
  if (name == "return_documents") return void(out.return_documents = tree_flag(value, name));
  if (name == "rank_fields") return require_rank_fields(name, value);
  if (name == "max_tokens_per_doc")
    return void(out.document_tokens_max =
                    static_cast<std::uint32_t>(tree_number(value, name, 0, UINT32_MAX)));
  if (name == "priority" && value == 0) return;
  if (name == "max_chunks_per_doc" || name == "priority" || name == "truncate_prompt_tokens")
    refuse_value(name, "null, or none");
  tree_fault("unknown_field", "there is no such field", name, std::string(rerank_members));
}

void take_tei_member(const std::string& name, const JsonTree& value, Rerank& out) {
  if (name == "return_text") return void(out.return_documents = tree_flag(value, name));
  if (name == "truncate") return void(tree_flag(value, name));
  if (name == "truncation_direction" &&
      (value == "Right" || value == "Left" || value == "right" || value == "left"))
    return;
  if (name == "raw_scores") {
    if (tree_flag(value, name)) refuse_value(name, "false: scores are probabilities");
    return;
  }
  tree_fault("unknown_field", "there is no such field", name, std::string(tei_members));
}

void take_member(const std::string& name, const JsonTree& value, std::uint32_t candidates_max, Rerank& out) {
  if (value.is_null() || take_common_member(name, value, candidates_max, out)) return;
  out.list == "texts" ? take_tei_member(name, value, out) : take_cohere_member(name, value, out);
}

}  // namespace

std::variant<Rerank, Refusal> read_rerank(std::string_view body, std::uint32_t candidates_max,
                                          const RowLimits& rows, const ModelText& text,
                                          const ScoreLimits& limits) {
  try {
    const std::size_t values = 4 * std::size_t{candidates_max} + history_values_max(rows) + 64;
    const JsonTree tree =
        parse_tree(body, {.values_max = values, .depth_max = 1 + history_depth}, "documents");
    if (!tree.is_object()) tree_type_fault(tree, "body", "an object");
    Rerank out;
    if (tree.contains("texts") && !tree.contains("documents")) out.list = "texts";
    const std::string members(out.list == "texts" ? tei_members : rerank_members);
    for (const auto& [name, value] : tree.items()) take_member(name, value, candidates_max, out);
    for (const std::string& needed : {std::string("query"), out.list})
      if (!tree.contains(needed)) tree_fault("missing_field", "the body has no " + needed, needed, members);
    take_query(tree.at("query"), rows, text, out);
    out.request.candidates = out.documents;
    if (text.ranks_texts() && has_texts(tree, out.list)) {
      reject_if_not_apart(out.request);
      out.texts = score_pairs(text, {"query", {out.request.user}},
                              {out.list, out.documents, out.document_tokens_max}, limits);
      out.texts->budget_us = out.request.budget_us;
    } else if (out.document_tokens_max > 0) {
      refuse_value("max_tokens_per_doc", "0, null, or none: the documents are ids of items");
    }
    return out;
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

namespace {

nlohmann::ordered_json body_of(RequestId id, const std::string& model, nlohmann::ordered_json results,
                               std::uint32_t tokens) {
  return {{"id", "rerank-" + std::to_string(id)},
          {"model", model},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
          {"meta", {{"api_version", {{"version", "2"}}}, {"billed_units", {{"search_units", 1}}}}}};
}

// A list of positions and scores; `text`: of a position, in TEI's form.
std::string tei_body(const Rerank& asked, const nlohmann::ordered_json& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const nlohmann::ordered_json& result : results) {
    nlohmann::ordered_json row{{"index", result.at("index")}, {"score", result.at("relevance_score")}};
    if (asked.return_documents) row["text"] = result.at("document").at("text");
    list.push_back(std::move(row));
  }
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string written(const nlohmann::ordered_json& body) {
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string rerank_body(const Rerank& asked, const ScoreReply& reply, const std::string& model) {
  std::vector<std::size_t> order(reply.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto score = [&](std::size_t index) { return reply.items[index].scores.front(); };
  std::ranges::stable_sort(order, std::greater<>(), score);
  if (asked.request.top_k > 0 && order.size() > asked.request.top_k) order.resize(asked.request.top_k);
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const std::size_t index : order) {
    nlohmann::ordered_json result{{"index", index}, {"relevance_score", score(index)}};
    if (asked.return_documents) result["document"] = {{"text", asked.documents[index]}};
    results.push_back(std::move(result));
  }
  if (asked.list == "texts") return tei_body(asked, results);
  return written(
      body_of(reply.id, model.empty() ? reply.model_version : model, std::move(results), reply.tokens_total));
}

std::string rerank_body(const Rerank& asked, const RankReply& reply, const std::string& model) {
  std::unordered_map<std::string_view, std::size_t> indices;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) indices.emplace(asked.documents[i], i);
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const RankedItem& item : reply.items) {
    nlohmann::ordered_json result{{"index", indices.at(item.id)}, {"relevance_score", item.probability}};
    if (asked.return_documents) result["document"] = {{"id", item.id}, {"text", item.title}};
    results.push_back(std::move(result));
  }
  if (asked.list == "texts") return tei_body(asked, results);
  nlohmann::ordered_json body =
      body_of(reply.id, model.empty() ? reply.model_version : model, std::move(results), reply.tokens_total);
  if (!reply.skipped.empty()) body["skipped"] = reply.skipped;
  if (!reply.unknown_user.empty()) body["unknown_user"] = reply.unknown_user;
  return written(body);
}

}  // namespace troupe::server
