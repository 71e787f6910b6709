// Translates between KServe's Open Inference Protocol (named tensors) and rankings or generations.
// Clients of Triton or KServe can use this server unchanged.
#include "server/formats/inference_protocol.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "runtime/actor/row_rules.h"
#include "server/formats/json_tree.h"
#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

using OrderedTree = nlohmann::ordered_json;

void flatten(const JsonTree& data, const std::string& where, std::vector<JsonTree>& out) {
  if (!data.is_array()) return out.push_back(data);
  for (const JsonTree& element : data) flatten(element, where, out);
}

constexpr std::string_view binary_help =
    "data as JSON: of tritonclient, set_data_from_numpy(…, binary_data=False) and "
    "InferRequestedOutput(…, binary_data=False)";

[[noreturn]] void refuse_binary(const std::string& where) {
  tree_fault("unsupported_value", "the binary extension is not supported", where, std::string(binary_help));
}

// Parameters of a tensor: those of the binary extension may say that there is none.
void take_tensor_parameters(const JsonTree& parameters, const std::string& where) {
  if (!parameters.is_object()) tree_type_fault(parameters, where, "an object, or none");
  for (const auto& [name, value] : parameters.items()) {
    const std::string at = where + "." + name;
    if (name == "binary_data_size" || (name == "binary_data" && value != false)) refuse_binary(at);
    if (name != "binary_data") tree_fault("unknown_field", "the parameter is unknown", at, "none");
  }
}

InferTensor tensor_of(const JsonTree& value, const std::string& where) {
  if (!value.is_object()) tree_type_fault(value, where, "a tensor: name, shape, datatype, data");
  InferTensor tensor{.where = where, .data_where = where + ".data"};
  std::uint64_t elements = 1;
  for (const auto& [name, member] : value.items()) {
    const std::string at = where + "." + name;
    if (name == "name")
      tensor.name = tree_text(member, at);
    else if (name == "datatype")
      tensor.datatype = tree_text(member, at);
    else if (name == "data")
      flatten(member, at, tensor.data);
    else if (name == "shape" && !member.is_array())
      tree_type_fault(member, at, "a list of whole numbers");
    else if (name == "shape")
      elements = shape_elements(member, at);
    else if (name == "parameters")
      take_tensor_parameters(member, at);
    else
      tree_fault("unknown_field", "there is no such field", at, "name, shape, datatype, data or parameters");
  }
  for (const char* needed : {"name", "shape", "datatype", "data"})
    if (!value.contains(needed))
      tree_fault("missing_field", where + " has no " + needed, where + "." + needed, "a complete tensor");
  reject_if_other_size(elements, tensor);
  return tensor;
}

std::vector<std::string> texts_of(const InferTensor& tensor, std::uint32_t most, const char* setting) {
  if (tensor.datatype != "BYTES")
    tree_fault("wrong_type", tensor.name + " has the datatype " + tensor.datatype, tensor.where + ".datatype",
               "BYTES");
  if (tensor.data.size() > most)
    throw Refusal{RefusalKind::too_large, "too_many_candidates",
                  "there are " + std::to_string(tensor.data.size()), tensor.where,
                  "at most " + std::to_string(most) + " (" + setting + ")"};
  std::vector<std::string> texts;
  for (const JsonTree& element : tensor.data)
    texts.push_back(tree_text(element, tensor.data_where + "[" + std::to_string(texts.size()) + "]"));
  return texts;
}

void reject_if_not_whole(const InferTensor& tensor, const char* expected) {
  if (!tensor.datatype.starts_with("INT") && !tensor.datatype.starts_with("UINT"))
    tree_fault("wrong_type", tensor.name + " has the datatype " + tensor.datatype, tensor.where, expected);
}

std::int64_t number_of(const InferTensor& tensor, std::int64_t most) {
  reject_if_not_whole(tensor, "one INT64");
  if (tensor.data.size() != 1)
    tree_fault("wrong_type", tensor.name + " has " + std::to_string(tensor.data.size()) + " elements",
               tensor.where, "one INT64");
  return tree_number(tensor.data.front(), tensor.data_where + "[0]", 0, most);
}

// Reads whole numbers by the rule of a history's member.
std::vector<std::int64_t> numbers_of(const InferTensor& tensor, const RowLimits& rows,
                                     const NumberRule& rule) {
  reject_if_not_whole(tensor, "INT64");
  if (tensor.data.size() > rows.history_events_max)
    throw Refusal{RefusalKind::too_large, "too_many_events",
                  "there are " + std::to_string(tensor.data.size()), tensor.where,
                  "at most " + std::to_string(rows.history_events_max) + " (router.history_events_max)"};
  std::vector<std::int64_t> numbers;
  for (const JsonTree& element : tensor.data) {
    const std::string where = tensor.data_where + "[" + std::to_string(numbers.size()) + "]";
    if (!element.is_number_integer()) throw no_number(element.type_name(), rule, where);
    auto read = read_number(element.dump(), rule, where);
    if (auto* refusal = std::get_if<Refusal>(&read)) throw std::move(*refusal);
    numbers.push_back(std::get<std::int64_t>(read));
  }
  return numbers;
}

// Takes an input that belongs to a history of the request's own; returns false for another one.
template <class Request>
bool take_history_input(const InferTensor& tensor, const RowLimits& rows, Request& request) {
  if (tensor.name == "history") {
    request.history = texts_of(tensor, rows.history_events_max, "router.history_events_max");
    return request.own_history = true;
  }
  if (tensor.name == "tokens") {
    for (const std::int64_t token : numbers_of(tensor, rows, {.least = 0, .most = INT32_MAX}))
      request.history_tokens.push_back(static_cast<Token>(token));
    return request.own_history = true;
  }
  if (std::ranges::find(rows.event_features, tensor.name) == rows.event_features.end()) return false;
  request.event_features.push_back({tensor.name, numbers_of(tensor, rows, number_rule(tensor.name))});
  return true;
}

// Lists the inputs of a history for a refusal.
std::string history_inputs(const RowLimits& rows) {
  std::string names = "user, history, tokens, ";
  for (const std::string& feature : rows.event_features) names += feature + ", ";
  return names;
}

std::string user_of(const InferTensor& tensor) {
  std::vector<std::string> users = texts_of(tensor, 1, "one user per request");
  if (users.empty()) tree_fault("wrong_type", "user is empty", tensor.where, "one text");
  return std::move(users.front());
}

[[noreturn]] void unknown_input(const InferTensor& tensor, std::string expected) {
  tree_fault("unknown_field", "unknown input " + tensor.name, tensor.where + ".name", std::move(expected));
}

RankRequest ranking_of(const std::vector<InferTensor>& inputs, std::uint32_t candidates_max,
                       const RowLimits& rows) {
  RankRequest rank;
  for (const InferTensor& tensor : inputs)
    if (tensor.name == "user")
      rank.user = user_of(tensor);
    else if (tensor.name == "candidates")
      rank.candidates = texts_of(tensor, candidates_max, "router.candidates_max");
    else if (tensor.name == "top_k")
      rank.top_k = static_cast<std::uint32_t>(number_of(tensor, UINT32_MAX));
    else if (tensor.name == "request_timestamp")
      rank.request_timestamp = number_of(tensor, INT64_MAX);
    else if (tensor.name == "scenario")
      rank.scenario = static_cast<std::uint32_t>(number_of(tensor, UINT32_MAX));
    else if (!take_history_input(tensor, rows, rank))
      unknown_input(tensor, history_inputs(rows) + "candidates, top_k, request_timestamp or scenario");
  return rank;
}

GenerateRequest generation_of(const std::vector<InferTensor>& inputs, const RowLimits& rows) {
  GenerateRequest generate;
  for (const InferTensor& tensor : inputs)
    if (tensor.name == "user")
      generate.user = user_of(tensor);
    else if (tensor.name == "top_k")
      generate.top_k = static_cast<std::uint32_t>(number_of(tensor, UINT32_MAX));
    else if (tensor.name == "width")
      generate.width = static_cast<std::uint32_t>(number_of(tensor, UINT32_MAX));
    else if (tensor.name == "request_timestamp")
      generate.request_timestamp = number_of(tensor, INT64_MAX);
    else if (!take_history_input(tensor, rows, generate))
      unknown_input(tensor,
                    history_inputs(rows) + "top_k, width or request_timestamp; of a ranker candidates");
  return generate;
}

void take_unknown_user(const std::string& word, const std::string& where, InferRequest& out) {
  auto fault = std::visit([&](auto& m) { return read_word(word, m.unknown_user); }, out.request);
  if (!fault) return;
  fault->where = where;
  throw *std::move(fault);
}

void take_parameters(const JsonTree& parameters, InferRequest& out) {
  if (!parameters.is_object()) tree_type_fault(parameters, "parameters", "an object");
  for (const auto& [name, value] : parameters.items()) {
    auto* rank = std::get_if<RankRequest>(&out.request);
    const std::string where = "parameters." + name;
    if (name == "binary_data_output" && value != false) refuse_binary(where);
    if (name == "binary_data_output" || (name == "priority" && value == 0)) continue;
    if (name == "timeout") {
      std::visit([&](auto& m) { m.budget_us = tree_number(value, where, 0, INT64_MAX); }, out.request);
      continue;
    }
    if (name == "unknown_user") {
      take_unknown_user(tree_text(value, where), where, out);
      continue;
    }
    if (!rank || (name != "policy" && name != "arrangement"))
      tree_fault("unknown_field", "the parameter is unknown", where,
                 "timeout, unknown_user, and for a ranker policy or arrangement");
    if (name == "policy") {
      rank->policy = tree_text(value, where);
    } else if (auto fault = read_word(tree_text(value, where), rank->arrangement)) {
      fault->where = where;
      throw *std::move(fault);
    }
  }
}

struct OutputName {
  const char *name, *datatype;
};
constexpr std::array ranking_outputs{OutputName{"items", "BYTES"}, OutputName{"scores", "FP64"},
                                     OutputName{"probabilities", "FP64"}};
constexpr std::array generation_outputs{OutputName{"items", "BYTES"},
                                        OutputName{"log_probabilities", "FP64"}};

std::span<const OutputName> outputs_of(const InferRequest& asked) {
  if (std::holds_alternative<RankRequest>(asked.request)) return ranking_outputs;
  return generation_outputs;
}

// Reads {"name":"scores"} or "scores".
std::string output_name(const JsonTree& wanted, const std::string& where) {
  if (!wanted.is_object()) return tree_text(wanted, where);
  for (const auto& [name, value] : wanted.items())
    if (name != "name" && (name != "parameters" || !value.is_object()))
      tree_fault("unknown_field", "there is no such field", where + "." + name, "name or parameters");
  if (!wanted.contains("name"))
    tree_fault("missing_field", where + " has no name", where + ".name", "the name of an output");
  return tree_text(wanted.at("name"), where + ".name");
}

void take_outputs(const JsonTree& list, InferRequest& out) {
  if (!list.is_array()) tree_type_fault(list, "outputs", "a list of outputs");
  std::string known;
  for (const OutputName& output : outputs_of(out))
    known += (known.empty() ? "" : ", ") + std::string(output.name);
  for (const JsonTree& wanted : list) {
    const std::string where = "outputs[" + std::to_string(out.outputs.size()) + "]";
    if (wanted.is_object() && wanted.contains("parameters"))
      take_tensor_parameters(wanted.at("parameters"), where + ".parameters");
    std::string name = output_name(wanted, where);
    if (std::ranges::find(outputs_of(out), name, [](const OutputName& o) {
          return std::string_view(o.name);
        }) == outputs_of(out).end())
      tree_fault("unknown_output", "the model has no output " + in_quotes(name), where, "one of " + known);
    if (std::ranges::count(out.outputs, name) > 0)
      tree_fault("unknown_output", "output " + in_quotes(name) + " is named twice", where,
                 "each output once");
    out.outputs.push_back(std::move(name));
  }
}

void reject_if_repeated(const std::vector<InferTensor>& inputs) {
  if (std::ranges::count(inputs, inputs.back().name, &InferTensor::name) > 1)
    tree_fault("malformed_json", inputs.back().name + " is given twice", inputs.back().where,
               "each input once");
}

InferRequest request_of(const std::vector<InferTensor>& inputs, std::uint32_t candidates_max,
                        const RowLimits& rows) {
  InferRequest out;
  const auto candidates = std::ranges::find(inputs, "candidates", &InferTensor::name);
  if (candidates != inputs.end()) {
    out.request = ranking_of(inputs, candidates_max, rows);
    out.names.candidates = candidates->data_where;
  } else {
    out.request = generation_of(inputs, rows);
  }
  for (const InferTensor& input : inputs)
    if (input.name == "history" || input.name == "tokens" ||
        std::ranges::find(rows.event_features, input.name) != rows.event_features.end())
      out.names.lists.emplace(input.name, input.data_where);
  return out;
}

InferRequest infer_of(const JsonTree& tree, std::uint32_t candidates_max, const RowLimits& rows) {
  if (!tree.is_object()) tree_type_fault(tree, "body", "an object");
  if (!tree.contains("inputs") || !tree.at("inputs").is_array())
    tree_fault("missing_field", "the body has no list `inputs`", "inputs", "a list of tensors");
  std::vector<InferTensor> inputs;
  for (const JsonTree& input : tree.at("inputs")) {
    inputs.push_back(tensor_of(input, "inputs[" + std::to_string(inputs.size()) + "]"));
    reject_if_repeated(inputs);
  }
  InferRequest out = request_of(inputs, candidates_max, rows);
  for (const auto& [name, value] : tree.items()) {
    if (name == "id")
      out.id = tree_text(value, name);
    else if (name == "parameters")
      take_parameters(value, out);
    else if (name == "outputs")
      take_outputs(value, out);
    else if (name != "inputs")
      tree_fault("unknown_field", "there is no such field", name, "id, inputs, outputs or parameters");
  }
  return out;
}

std::vector<InferOutput> ranking_data(const RankRequest& asked, const RankReply& reply) {
  InferOutput items{"items", "BYTES"}, scores{"scores", "FP64"}, probabilities{"probabilities", "FP64"};
  const auto add = [&](const RankedItem& item) {
    items.texts.push_back(item.id);
    scores.numbers.push_back(item.score);
    probabilities.numbers.push_back(item.probability);
  };
  std::unordered_map<std::string_view, const RankedItem*> by_id;
  for (const RankedItem& item : reply.items) by_id.emplace(item.id, &item);
  if (asked.top_k > 0)
    std::ranges::for_each(reply.items, add);
  else
    for (const std::string& candidate : asked.candidates)
      if (const auto at = by_id.find(candidate); at != by_id.end()) add(*at->second);
  return {std::move(items), std::move(scores), std::move(probabilities)};
}

std::vector<InferOutput> generation_data(const GenerateReply& reply) {
  InferOutput items{"items", "BYTES"}, log_probabilities{"log_probabilities", "FP64"};
  for (const GeneratedItem& item : reply.items) {
    items.texts.push_back(item.id);
    log_probabilities.numbers.push_back(item.log_probability);
  }
  return {std::move(items), std::move(log_probabilities)};
}

OrderedTree tensor_metadata(const char* name, const char* datatype, int length) {
  return {{"name", name}, {"datatype", datatype}, {"shape", {length}}};
}

}  // namespace

std::size_t infer_values_max(std::uint32_t candidates_max, const RowLimits& rows) {
  constexpr std::size_t others = 256;
  return 2 * std::size_t{candidates_max} + history_values_max(rows) + others;
}

std::uint64_t shape_elements(const JsonTree& shape, const std::string& where) {
  std::uint64_t elements = 1;
  for (const JsonTree& value : shape) {
    const auto length = static_cast<std::uint64_t>(tree_number(value, where, 0, UINT32_MAX));
    elements = length > 0 && elements > UINT64_MAX / length ? UINT64_MAX : elements * length;
  }
  return elements;
}

void reject_if_other_size(std::uint64_t shape_elements, const InferTensor& tensor) {
  if (shape_elements != tensor.data.size())
    tree_fault("wrong_type",
               "the shape has " + std::to_string(shape_elements) + " elements and the data " +
                   std::to_string(tensor.data.size()),
               tensor.where + ".shape", "the same number in both");
}

std::variant<InferRequest, Refusal> make_infer(InferParts parts, std::uint32_t candidates_max,
                                               const RowLimits& rows) {
  try {
    std::vector<InferTensor> inputs;
    for (InferTensor& input : parts.inputs) {
      inputs.push_back(std::move(input));
      reject_if_repeated(inputs);
    }
    InferRequest out = request_of(inputs, candidates_max, rows);
    out.id = std::move(parts.id);
    if (!parts.outputs.is_null()) take_outputs(parts.outputs, out);
    if (!parts.parameters.is_null()) take_parameters(parts.parameters, out);
    return out;
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

std::variant<InferRequest, Refusal> read_infer(std::string_view body, std::uint32_t candidates_max,
                                               const RowLimits& rows) {
  try {
    const std::size_t values = infer_values_max(candidates_max, rows);
    const ListLimit limits[] = {{"inputs", infer_inputs_max, "the most of any model", "inputs"}};
    return infer_of(parse_tree(body, {.values_max = values, .depth_max = 8}, "inputs", limits),
                    candidates_max, rows);
  } catch (const Refusal& refusal) {
    // Binary data follows the JSON, which then does not end where the body does.
    if (refusal.code != "malformed_json" || body.find("\"binary_data_size\"") == body.npos) return refusal;
    return Refusal{refusal.kind, "unsupported_value", "the binary extension is not supported",
                   "parameters.binary_data_size", std::string(binary_help)};
  }
}

std::vector<InferOutput> infer_outputs(const InferRequest& asked, const Message& reply) {
  std::vector<InferOutput> outputs;
  if (const auto* rank = std::get_if<RankReply>(&reply))
    outputs = ranking_data(std::get<RankRequest>(asked.request), *rank);
  else if (const auto* generate = std::get_if<GenerateReply>(&reply))
    outputs = generation_data(*generate);
  if (!asked.outputs.empty())
    std::erase_if(outputs, [&](const InferOutput& output) {
      return std::ranges::find(asked.outputs, output.name) == asked.outputs.end();
    });
  return outputs;
}

std::string infer_version(const Message& reply) {
  if (const auto* rank = std::get_if<RankReply>(&reply)) return rank->model_version;
  if (const auto* generate = std::get_if<GenerateReply>(&reply)) return generate->model_version;
  return "";
}

std::string infer_unknown_user(const Message& reply) {
  if (const auto* rank = std::get_if<RankReply>(&reply)) return rank->unknown_user;
  if (const auto* generate = std::get_if<GenerateReply>(&reply)) return generate->unknown_user;
  return "";
}

std::string infer_body(const InferRequest& asked, const Message& reply, const std::string& model) {
  const std::string version = infer_version(reply), unknown_user = infer_unknown_user(reply);
  OrderedTree body{{"model_name", model.empty() ? version : model}, {"model_version", version}};
  if (!asked.id.empty()) body["id"] = asked.id;
  if (!unknown_user.empty()) body["parameters"] = {{"unknown_user", unknown_user}};
  OrderedTree outputs = OrderedTree::array();
  for (const InferOutput& output : infer_outputs(asked, reply)) {
    OrderedTree tensor{{"name", output.name}, {"datatype", output.datatype}, {"shape", {output.size()}}};
    if (std::string_view(output.datatype) == "BYTES")
      tensor["data"] = output.texts;
    else
      tensor["data"] = output.numbers;
    outputs.push_back(std::move(tensor));
  }
  body["outputs"] = std::move(outputs);
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string server_metadata(std::string_view version) {
  return OrderedTree{{"name", "troupe"}, {"version", version}, {"extensions", OrderedTree::array()}}.dump();
}

std::string model_metadata(const std::string& model, const std::string& version, std::string_view serves) {
  const bool ranks = serves.starts_with("rank");
  OrderedTree inputs = OrderedTree::array({tensor_metadata("user", "BYTES", 1)}),
              outputs = OrderedTree::array({tensor_metadata("items", "BYTES", -1)});
  if (ranks) {
    inputs.push_back(tensor_metadata("candidates", "BYTES", -1));
    outputs.push_back(tensor_metadata("scores", "FP64", -1));
    outputs.push_back(tensor_metadata("probabilities", "FP64", -1));
  } else {
    inputs.push_back(tensor_metadata("top_k", "INT64", 1));
    outputs.push_back(tensor_metadata("log_probabilities", "FP64", -1));
  }
  return OrderedTree{{"name", model},
                     {"versions", {version}},
                     {"platform", "troupe"},
                     {"inputs", std::move(inputs)},
                     {"outputs", std::move(outputs)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe::server
