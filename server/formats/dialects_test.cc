#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/formats/http_refusal.h"
#include "server/formats/inference_protocol.h"
#include "server/formats/json_tree.h"
#include "server/formats/rerank.h"

using namespace troupe;
using namespace troupe::server;

namespace dialects_test {

template <class Read>
std::string fault_in(const Read& read) {
  const auto* refusal = std::get_if<Refusal>(&read);
  return refusal ? std::to_string(http_status(refusal->kind)) + " " + refusal->code + " " + refusal->where
                 : "";
}
Rerank rerank_of(const std::string& body) {
  const auto read = read_rerank(body, 3, {5});
  REQUIRE(fault_in(read) == "");
  return std::get<Rerank>(read);
}
std::string rerank_fault(const std::string& body) { return fault_in(read_rerank(body, 3, {5})); }
InferRequest infer_of(const std::string& body) {
  const auto read = read_infer(body, 3, {5});
  REQUIRE(fault_in(read) == "");
  return std::get<InferRequest>(read);
}
std::string infer_fault(const std::string& body) { return fault_in(read_infer(body, 3, {5})); }

const RankReply ranked{
    .id = 7, .items = {{"b", "Bee", 2, 0.7}, {"a", "Ay", 1, 0.3}}, .tokens_total = 12, .model_version = "v1"};

TEST_SUITE("foreign formats") {
  TEST_CASE("rerank: it ranks items for a user, and results name documents by index") {
    const Rerank asked =
        rerank_of(R"({"model":"m","query":"ana","documents":["a",{"id":"b"},{"text":"c"}],"top_n":2,)"
                  R"("return_documents":true})");
    CHECK(asked.request.user == "ana");
    CHECK(asked.request.candidates == std::vector<std::string>{"a", "b", "c"});
    CHECK(asked.request.top_k == 2);
    CHECK(asked.model == "m");
    const auto body = nlohmann::json::parse(rerank_body(asked, ranked, "m"));
    CHECK(body.at("results") == nlohmann::json::parse(
                                    R"([{"index":1,"relevance_score":0.7,"document":{"id":"b","text":"Bee"}},
                                        {"index":0,"relevance_score":0.3,"document":{)"
                                    R"("id":"a","text":"Ay"}}])"));
    CHECK(body.at("model") == "m");
    CHECK(body.at("usage").at("total_tokens") == 12);
    CHECK(rerank_body(asked, ranked, "modèle").find("\"modèle\"") !=
          std::string::npos);  // unchanged, not escaped
  }

  TEST_CASE("rerank: a history may replace the user") {
    CHECK(rerank_of(R"({"query":["x","y"],"documents":["a"]})").request.history ==
          std::vector<std::string>{"x", "y"});
    CHECK(rerank_of(R"({"query":{"history":["x"]},"documents":["a"],"top_n":null})").request.history.size() ==
          1);
    CHECK_FALSE(
        nlohmann::json::parse(rerank_body(rerank_of(R"({"query":"u","documents":["a","b"]})"), ranked, ""))
            .at("results")
            .at(0)
            .contains("document"));
  }

  TEST_CASE("rerank: a history as an object has the members of a stored user") {
    const RowLimits rows{.history_events_max = 5, .event_features = {"timestamps"}};
    const auto read = [&](const std::string& query) {
      return read_rerank(
          R"({"documents":["a"],"unknown_user":"cold","request_timestamp":9,"query":)" + query + "}", 3,
          rows);
    };
    const auto asked = read(R"({"history":["x","y"],"timestamps":[5,6]})");
    REQUIRE(fault_in(asked) == "");
    const RankRequest& request = std::get<Rerank>(asked).request;
    CHECK(request.history == std::vector<std::string>{"x", "y"});
    CHECK(request.event_features == std::vector<Feature>{{"timestamps", {5, 6}}});
    CHECK(request.own_history);
    CHECK(request.unknown_user == UnknownUser::cold);
    CHECK(request.request_timestamp == 9);
    CHECK(std::get<Rerank>(asked).names == names_of_history("query", true));
    CHECK(std::get<Rerank>(read("[]")).names == names_of_history("query", false));
    CHECK(std::get<Rerank>(read("[]")).request.own_history);  // a user without events
    CHECK(fault_in(read(R"({"history":["x"],"features":[{"name":"timestamps","values":[5]}]})")) == "");
    CHECK(fault_in(read("{}")) == "400 missing_field query.history or tokens");
    CHECK(fault_in(read(R"({"history":["x"],"ages":[5]})")) == "400 unknown_field query.ages");
    CHECK(fault_in(read(R"({"history":["x"],"user":"u"})")) == "400 unknown_field query.user");
    CHECK(fault_in(read(R"({"history":["x"],"timestamps":[-1]})")) ==
          "400 bad_timestamp query.timestamps[0]");
    CHECK(fault_in(read(R"({"history":["1","2","3","4","5","6"]})")) == "413 too_many_events query.history");
  }

  TEST_CASE("inference protocol: a history is tensors with the names of its members") {
    const RowLimits rows{.history_events_max = 3, .event_features = {"timestamps"}};
    const auto read = [&](const std::string& inputs, const std::string& parameters = "{}") {
      return read_infer("{\"inputs\":[" + inputs + "],\"parameters\":" + parameters + "}", 3, rows);
    };
    const std::string history = R"({"name":"history","shape":[2],"datatype":"BYTES","data":["x","y"]},)"
                                R"({"name":"timestamps","shape":[2],"datatype":"INT64","data":[5,6]})";
    const std::string candidates = R"(,{"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]})";
    const auto ranked = read(history + candidates, R"({"unknown_user":"cold"})");
    REQUIRE(fault_in(ranked) == "");
    const auto& rank = std::get<RankRequest>(std::get<InferRequest>(ranked).request);
    CHECK(rank.event_features == std::vector<Feature>{{"timestamps", {5, 6}}});
    CHECK(rank.own_history);
    CHECK(rank.unknown_user == UnknownUser::cold);
    const auto generated = read(history);
    REQUIRE(fault_in(generated) == "");
    const auto& generate = std::get<GenerateRequest>(std::get<InferRequest>(generated).request);
    CHECK(generate.history == std::vector<std::string>{"x", "y"});
    const std::string tokens = R"({"name":"tokens","shape":[2],"datatype":"INT32","data":[7,8]})";
    CHECK(std::get<GenerateRequest>(std::get<InferRequest>(read(tokens)).request).history_tokens ==
          std::vector<Token>{7, 8});
    CHECK(fault_in(read(R"({"name":"timestamps","shape":[1],"datatype":"BYTES","data":["5"]})")) ==
          "400 wrong_type inputs[0]");
    CHECK(fault_in(read(R"({"name":"timestamps","shape":[1],"datatype":"INT64","data":[-5]})")) ==
          "400 bad_timestamp inputs[0].data[0]");
    CHECK(fault_in(read(R"({"name":"tokens","shape":[4],"datatype":"INT64","data":[1,2,3,4]})")) ==
          "413 too_many_events inputs[0]");
    CHECK(fault_in(read(R"({"name":"actions","shape":[1],"datatype":"INT64","data":[1]})")) ==
          "400 unknown_field inputs[0].name");
    CHECK(fault_in(read(history, R"({"unknown_user":"warm"})")) ==
          "400 bad_unknown_user parameters.unknown_user");
  }

  TEST_CASE("rerank: it may name an arrangement, with the words of rankings") {
    const Rerank asked = rerank_of(R"({"query":"u","documents":["a"],"arrangement":"user_first"})");
    CHECK(asked.request.arrangement == Arrangement::user_first);
    CHECK(rerank_of(R"({"query":"u","documents":["a"],"arrangement":null})").request.arrangement ==
          Arrangement::unnamed);
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"arrangement":"sideways"})") ==
          "400 unknown_arrangement arrangement");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"arrangement":1})") == "400 wrong_type arrangement");
  }

  TEST_CASE("inference protocol: a ranker's parameters may name an arrangement") {
    const auto with = [](const std::string& parameters) {
      return R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},)"
             R"({"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":)" +
             parameters + "}";
    };
    const InferRequest asked = infer_of(with(R"({"arrangement":"causal","policy":"planner"})"));
    CHECK(std::get<RankRequest>(asked.request).arrangement == Arrangement::causal);
    CHECK(std::get<RankRequest>(asked.request).policy == "planner");
    CHECK(infer_fault(with(R"({"arrangement":"sideways"})")) ==
          "400 unknown_arrangement parameters.arrangement");
    CHECK(infer_fault(with(R"({"task":"click"})")) == "400 unknown_field parameters.task");
    CHECK(infer_fault(R"({"inputs":[],"parameters":{"arrangement":"causal"}})") ==
          "400 unknown_field parameters.arrangement");
  }

  TEST_CASE("rerank: an invalid request is refused, naming the member") {
    CHECK(rerank_fault("") == "400 malformed_json byte 1");
    CHECK(rerank_fault("[]") == "400 wrong_type body");
    CHECK(rerank_fault("{\"top_n\":1" + std::string(400, '0') + "}") == "400 wrong_type top_n");
    CHECK(rerank_fault(R"({"query":"u"})") == "400 missing_field documents");
    CHECK(rerank_fault(R"({"query":7,"documents":["a"]})") == "400 wrong_type query");
    CHECK(rerank_fault(R"({"query":"u","documents":["a",7]})") == "400 wrong_type documents[1]");
    CHECK(rerank_fault(R"({"query":"u","documents":["a","b","c","d"]})") ==
          "413 too_many_candidates documents");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"top_n":0})") == "400 wrong_type top_n");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"max_tokens_per_doc":-1})") ==
          "400 wrong_type max_tokens_per_doc");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"max_tokens_per_doc":4096})") ==
          "400 unsupported_value max_tokens_per_doc");  // ids have no texts to bound
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"max_chunks_per_doc":10})") ==
          "400 unsupported_value max_chunks_per_doc");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"rank_fields":["title"]})") ==
          "400 unsupported_value rank_fields");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"docs":[]})") == "400 unknown_field docs");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"unknown":"drop"})") == "400 bad_unknown unknown");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"unknown":"skip"})") == "");
    CHECK(rerank_fault(R"({"query":"u","query":"v","documents":["a"]})") == "400 malformed_json query");
    CHECK(rerank_fault("{\"query\":\"u\",\"documents\":[" + std::string(400, '['))
              .starts_with("413 too_many_values"));
  }

  TEST_CASE("foreign formats: a value of the wrong type is named with what it is") {
    const auto said = [](const auto& read) {
      const auto* refusal = std::get_if<Refusal>(&read);
      return refusal ? refusal->code + ": " + refusal->what : "";
    };
    const auto rerank = [&](const std::string& body) { return said(read_rerank(body, 3, {5})); };
    CHECK(rerank("[]") == "wrong_type: body is array");
    CHECK(rerank(R"({"query":7,"documents":["a"]})") == "wrong_type: query is 7");
    CHECK(rerank(R"({"query":"u","documents":"a"})") == "wrong_type: documents is string");
    CHECK(rerank(R"({"query":"u","documents":[{"title":"x"}]})") ==
          "wrong_type: documents[0] is an object with other members");
    CHECK(rerank(R"({"query":"u","documents":["a"],"return_documents":1})") ==
          "wrong_type: return_documents is 1");
    CHECK(rerank(R"({"query":"u","texts":["a"],"raw_scores":"no"})") == "wrong_type: raw_scores is string");
    const auto infer = [&](const std::string& body) { return said(read_infer(body, 3, {5})); };
    const auto tensor = [](const std::string& more) {
      return R"({"inputs":[{"name":"top_k","datatype":"INT64",)" + more + "}]}";
    };
    CHECK(infer("7") == "wrong_type: body is 7");
    CHECK(infer(R"({"inputs":["x"]})") == "wrong_type: inputs[0] is string");
    CHECK(infer(tensor(R"("shape":1,"data":[1])")) == "wrong_type: inputs[0].shape is 1");
    CHECK(infer(tensor(R"("shape":[2],"data":[1,2])")) == "wrong_type: top_k has 2 elements");
    CHECK(infer(R"({"inputs":[{"name":"top_k","datatype":"FP32","shape":[1],"data":[1]}]})") ==
          "wrong_type: top_k has the datatype FP32");
    CHECK(infer(R"({"inputs":[],"parameters":[]})") == "wrong_type: parameters is array");
    CHECK(infer(R"({"inputs":[],"outputs":{}})") == "wrong_type: outputs is object");
  }

  TEST_CASE("rerank: what Cohere's clients of both versions can send is taken") {
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"model":"m","top_n":null,"rank_fields":null,
                           "return_documents":null,"max_chunks_per_doc":null})") == "");
    CHECK(rerank_fault(R"({"query":"u","documents":[{"text":"a"},{"id":"b"}],"rank_fields":["text"]})") ==
          "");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"max_tokens_per_doc":0})") == "");
    CHECK(rerank_fault(R"({"query":"u","documents":["a"],"max_tokens_per_doc":null})") == "");
    CHECK(rerank_fault(R"({"query":"u","documents":["a",{"title":"x","text":"y"}]})") ==
          "400 wrong_type documents[1]");
  }

  TEST_CASE("rerank: a body with texts has TEI's form, and its answer is a list") {
    const Rerank asked = rerank_of(R"({"query":"ana","texts":["a","b"],"raw_scores":false,"return_text":true,
                                       "truncate":true,"truncation_direction":"Right"})");
    CHECK(asked.documents == std::vector<std::string>{"a", "b"});
    CHECK(nlohmann::json::parse(rerank_body(asked, ranked, "m")) ==
          nlohmann::json::parse(
              R"([{"index":1,"score":0.7,"text":"Bee"},{"index":0,"score":0.3,"text":"Ay"}])"));
    CHECK(nlohmann::json::parse(rerank_body(rerank_of(R"({"query":"ana","texts":["b"]})"),
                                            RankReply{.items = {{"b", "Bee", 2, 1}}}, "")) ==
          nlohmann::json::parse(R"([{"index":0,"score":1.0}])"));
    CHECK(rerank_fault(R"({"query":"u","texts":["a"],"raw_scores":true})") ==
          "400 unsupported_value raw_scores");
    CHECK(rerank_fault(R"({"query":"u","texts":["a",7]})") == "400 wrong_type texts[1]");
    CHECK(rerank_fault(R"({"query":"u","texts":["a"],"top_n":1})") == "400 unknown_field top_n");
    CHECK(rerank_fault(R"({"query":"u","texts":["a"],"documents":["a"]})") == "400 unknown_field texts");
    CHECK(rerank_fault(R"({"texts":["a"]})") == "400 missing_field query");
  }

  TEST_CASE("inference protocol: data of the binary extension is refused by name") {
    const std::string user = R"({"name":"user","shape":[1],"datatype":"BYTES")";
    CHECK(infer_fault("{\"inputs\":[" + user + R"(,"parameters":{"binary_data_size":7}}]})") ==
          "400 unsupported_value inputs[0].parameters.binary_data_size");
    CHECK(infer_fault("{\"inputs\":[" + user + R"(,"parameters":{"binary_data_size":7}}]})" +
                      std::string("\x03\x00\x00\x00"
                                  "ana",
                                  7)) == "400 unsupported_value parameters.binary_data_size");
    const std::string data = R"(,"data":["ana"]})";
    CHECK(infer_fault("{\"inputs\":[" + user + data + R"(],"parameters":{"binary_data_output":true}})") ==
          "400 unsupported_value parameters.binary_data_output");
    CHECK(infer_fault("{\"inputs\":[" + user + data +
                      R"(],"outputs":[{"name":"items","parameters":{"binary_data":true}}]})") ==
          "400 unsupported_value outputs[0].parameters.binary_data");
    CHECK(infer_fault("{\"inputs\":[" + user + R"(,"parameters":{"content_type":"str"},"data":["ana"]}]})") ==
          "400 unknown_field inputs[0].parameters.content_type");
  }

  TEST_CASE("inference protocol: parameters that its clients can send are taken") {
    const InferRequest asked = infer_of(
        R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","parameters":{},"data":["ana"]},
                      {"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]}],
            "outputs":[{"name":"scores","parameters":{"binary_data":false}}],
            "parameters":{"binary_data_output":false,"priority":0,"timeout":2000000}})");
    CHECK(std::get<RankRequest>(asked.request).budget_us == 2'000'000);
    CHECK(asked.names == OwnNames{.candidates = "inputs[1].data"});
  }

  TEST_CASE("inference protocol: refusals of the router name the inputs of a history by their position") {
    const auto read = read_infer(
        R"({"inputs":[{"name":"timestamps","shape":[1],"datatype":"INT64","data":[5]},
                      {"name":"history","shape":[1],"datatype":"BYTES","data":["x"]},
                      {"name":"request_timestamp","shape":[1],"datatype":"INT64","data":[9]},
                      {"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]}]})",
        3, {.history_events_max = 5, .event_features = {"timestamps"}});
    CHECK(std::get<InferRequest>(read).names ==
          OwnNames{.candidates = "inputs[3].data",
                   .lists = {{"history", "inputs[1].data"}, {"timestamps", "inputs[0].data"}}});
  }

  TEST_CASE("inference protocol: a ranking's scores come in candidate order, or best first with top_k") {
    const std::string inputs =
        R"("inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},
                     {"name":"candidates","shape":[1,2],"datatype":"BYTES","data":[["a","b"]]})";
    InferRequest asked = infer_of("{\"id\":\"42\"," + inputs + R"(],"parameters":{"policy":"item"}})");
    const auto& rank = std::get<RankRequest>(asked.request);
    CHECK(rank.user == "ana");
    CHECK(rank.candidates == std::vector<std::string>{"a", "b"});
    CHECK(rank.policy == "item");
    auto body = nlohmann::json::parse(infer_body(asked, ranked, "m"));
    CHECK(body.at("id") == "42");
    CHECK(body.at("model_name") == "m");
    CHECK(body.at("model_version") == "v1");
    CHECK(body.at("outputs").size() == 3);
    CHECK(body.at("outputs").at(1) ==
          nlohmann::json::parse(R"({"name":"scores","datatype":"FP64","shape":[2],"data":[1.0,2.0]})"));
    asked = infer_of(
        "{" + inputs +
        R"(,{"name":"top_k","shape":[1],"datatype":"INT64","data":[2]}],"outputs":[{"name":"items"}]})");
    body = nlohmann::json::parse(infer_body(asked, ranked, "m"));
    CHECK(body.at("outputs") ==
          nlohmann::json::parse(R"([{"name":"items","datatype":"BYTES","shape":[2],"data":["b","a"]}])"));
  }

  TEST_CASE("inference protocol: an output that the model does not have is refused, naming those it has") {
    const auto asking = [](const std::string& inputs, const std::string& outputs) {
      return read_infer("{\"inputs\":[" + inputs + "],\"outputs\":" + outputs + "}", 3, {5});
    };
    const std::string user = R"({"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]})",
                      ranks = user + R"(,{"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]})";
    CHECK(fault_in(asking(ranks, R"([{"name":"nosuch"}])")) == "400 unknown_output outputs[0]");
    CHECK(std::get<Refusal>(asking(ranks, R"(["scores","nosuch"])")).expected ==
          "one of items, scores, probabilities");
    CHECK(std::get<Refusal>(asking(user, R"(["scores"])")).expected == "one of items, log_probabilities");
    CHECK(fault_in(asking(ranks, R"(["items","items"])")) == "400 unknown_output outputs[1]");
    CHECK(fault_in(asking(ranks, R"({"name":"items"})")) == "400 wrong_type outputs");
    CHECK(fault_in(asking(ranks, R"([{"shape":[1]}])")) == "400 unknown_field outputs[0].shape");
    CHECK(fault_in(asking(ranks, "[{}]")) == "400 missing_field outputs[0].name");
    CHECK(fault_in(asking(ranks, "[7]")) == "400 wrong_type outputs[0]");
    const auto read = asking(ranks, R"([{"name":"scores","parameters":{"binary_data":false}},"items"])");
    CHECK(std::get<InferRequest>(read).outputs == std::vector<std::string>{"scores", "items"});
  }

  TEST_CASE("foreign formats: the answer says that a user is not stored and was answered as cold") {
    RankReply cold = ranked;
    cold.unknown_user = "cold";
    const Rerank asked = rerank_of(R"({"query":"u","documents":["a","b"]})");
    CHECK(nlohmann::json::parse(rerank_body(asked, cold, "")).at("unknown_user") == "cold");
    CHECK_FALSE(nlohmann::json::parse(rerank_body(asked, ranked, "")).contains("unknown_user"));
    const InferRequest ranks{.request = RankRequest{}}, generates{.request = GenerateRequest{}};
    GenerateReply generated;
    CHECK_FALSE(nlohmann::json::parse(infer_body(ranks, ranked, "m")).contains("parameters"));
    CHECK_FALSE(nlohmann::json::parse(infer_body(generates, generated, "m")).contains("parameters"));
    generated.unknown_user = "cold";
    for (const auto& body : {infer_body(ranks, cold, "m"), infer_body(generates, generated, "m")})
      CHECK(nlohmann::json::parse(body).at("parameters") == nlohmann::json{{"unknown_user", "cold"}});
  }

  TEST_CASE("inference protocol: inputs with only a user ask for generated items") {
    const InferRequest asked =
        infer_of(R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},
                                               {"name":"top_k",)"
                 R"("shape":[1],"datatype":"INT32","data":[5]}]})");
    CHECK(std::get<GenerateRequest>(asked.request).top_k == 5);
    const GenerateReply reply{.items = {{"x", "", {1}, -0.5}}, .model_version = "v2"};
    CHECK(nlohmann::json::parse(infer_body(asked, reply, "v2")).at("outputs").at(1).at("data") ==
          nlohmann::json::parse("[-0.5]"));
  }

  TEST_CASE("inference protocol: invalid tensors are refused, naming the input") {
    const auto of = [](const std::string& tensor) { return infer_fault("{\"inputs\":[" + tensor + "]}"); };
    CHECK(infer_fault("{}") == "400 missing_field inputs");
    CHECK(of("7") == "400 wrong_type inputs[0]");
    CHECK(of(R"({"name":"user","datatype":"BYTES","data":["a"]})") == "400 missing_field inputs[0].shape");
    CHECK(of(R"({"name":"user","shape":[2],"datatype":"BYTES","data":["a"]})") ==
          "400 wrong_type inputs[0].shape");
    CHECK(of(R"({"name":"user","shape":[32768,32768,32768,32768,16],"datatype":"BYTES","data":[]})") ==
          "400 wrong_type inputs[0].shape");  // 2^64 elements, not 0
    CHECK(of(R"({"name":"user","shape":[1],"datatype":"INT64","data":[1]})") ==
          "400 wrong_type inputs[0].datatype");
    CHECK(of(R"({"name":"user","shape":[1],"datatype":"BYTES","data":[1]})") ==
          "400 wrong_type inputs[0].data[0]");
    CHECK(of(R"({"name":"embedding","shape":[1],"datatype":"FP32","data":[1]})") ==
          "400 unknown_field inputs[0].name");
    CHECK(of(R"({"name":"candidates","shape":[4],"datatype":"BYTES","data":["a","b","c","d"]})") ==
          "413 too_many_candidates inputs[0]");
    CHECK(of(R"({"name":"user","shape":[1],"datatype":"BYTES","data":["a"]},{"name":"user","shape":[1],)"
             R"("datatype":"BYTES","data":["b"]})") == "400 malformed_json inputs[1]");
    CHECK(infer_fault(R"({"inputs":[],"parameters":{"policy":"item"}})") ==
          "400 unknown_field parameters.policy");
    CHECK(infer_fault(R"({"inputs":[],"output":[]})") == "400 unknown_field output");
  }

  TEST_CASE("inference protocol: a shape may be as long as the longest list of a setting") {
    CHECK(shape_elements(JsonTree::parse("[1000000]"), "shape") == 1'000'000);  // router.history_events_max
    CHECK(shape_elements(JsonTree::parse("[3,0,2]"), "shape") == 0);
    CHECK(shape_elements(JsonTree::parse("[]"), "shape") == 1);
    CHECK(shape_elements(JsonTree::parse("[4294967295,4294967295,4294967295]"), "shape") == UINT64_MAX);
  }

  TEST_CASE("inference protocol: a number may equal its bounds, but must be whole and within them") {
    for (const std::int64_t fits : {std::int64_t{-3}, std::int64_t{0}, std::int64_t{7}})
      CHECK(tree_number(JsonTree(fits), "n", -3, 7) == fits);
    CHECK(tree_number(JsonTree(INT64_MAX), "n", 0, INT64_MAX) == INT64_MAX);
    for (const char* none : {"-4", "8", "1.0", "9223372036854775808", "true", "null", "\"1\"", "[1]"}) {
      CAPTURE(none);
      CHECK_THROWS_AS(tree_number(JsonTree::parse(none), "n", -3, 7), Refusal);
    }
    CHECK_THROWS_AS(tree_number(JsonTree::parse("9223372036854775808"), "n", INT64_MIN, INT64_MAX), Refusal);
  }

  TEST_CASE("inference protocol: metadata lists a model's inputs and outputs") {
    CHECK(nlohmann::json::parse(server_metadata("1.2")) ==
          nlohmann::json::parse(R"({"name":"troupe","version":"1.2","extensions":[]})"));
    const auto ranker = nlohmann::json::parse(model_metadata("m", "v1", "rank, score"));
    CHECK(ranker.at("versions") == nlohmann::json::parse(R"(["v1"])"));
    CHECK(ranker.at("inputs").at(1) ==
          nlohmann::json::parse(R"({"name":"candidates","datatype":"BYTES","shape":[-1]})"));
    CHECK(nlohmann::json::parse(model_metadata("m", "v1", "generate, complete, score"))
              .at("outputs")
              .at(1)
              .at("name") == "log_probabilities");
  }
}

}  // namespace dialects_test
