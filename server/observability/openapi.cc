// Builds the OpenAPI document of the HTTP API from the schemas that parse the bodies, so that
// document and server agree.
#include "server/observability/openapi.h"

#include <algorithm>
#include <map>

#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"
#include "server/observability/openapi_errors.h"
#include "server/observability/openapi_examples.h"

namespace troupe::server {

namespace {

constexpr ApiPath paths[] = {
    {"post", "/v1/rank", "Orders candidate items for a user.", "RankRequest", "RankReply"},
    {"post", "/v1/generate", "Finds items of the whole catalog for a user.", "GenerateRequest",
     "GenerateReply"},
    {"post", "/v1/score", "Scores label tokens after each item, also in the forms of vLLM and SGLang.",
     "ScoreBody", "ScoreAnswer"},
    {"post", "/score", "Scores texts or labels, at vLLM's path.", "ScoreBody", "ScoreAnswer"},
    {"post", "/generative_scoring", "Returns the first label's probability per item, in vLLM's form.", "Any",
     "ScoreList"},
    {"post", "/v1/completions", "Continues a prompt, in OpenAI's form.", "CompletionRequest", "Completion"},
    {"post", "/v1/rerank", "Orders items or texts, in the form of Cohere and Jina.", "RerankBody",
     "RerankAnswer"},
    {"post", "/v2/rerank", "Orders items or texts, in Cohere's version 2 form.", "RerankBody",
     "RerankAnswer"},
    {"post", "/rerank", "Orders items or texts, in the form of vLLM, or of TEI if the body has `texts`.",
     "RerankBody", "AnyRerankAnswer"},
    {"post", "/v1/embeddings", "Returns the embeddings of texts, or of a user, in OpenAI's form.",
     "EmbeddingsBody", "EmbeddingList"},
    {"post", "/tokenize", "Returns the tokens of a text, in the form of vLLM.", "TokenizeBody", "Tokenized"},
    {"post", "/v1/tokenize", "Returns the tokens of a text, in the form of SGLang.", "TokenizeBody",
     "Tokenized"},
    {"get", "/v1/users/{id}", "Returns a user's stored profile.", "", "StoredUser"},
    {"post", "/v1/users/{id}/events", "Appends events to a user's history, each event id once.", "EventList",
     "Appended"},
    {"put", "/v1/users/{id}", "Replaces a user's profile.", "PutUser", "Stored"},
    {"delete", "/v1/users/{id}", "Removes a user.", "", "Stored"},
    {"post", "/v1/users", "Puts and removes many users, one per line.", "Lines", "", "application/x-ndjson"},
    {"post", "/v1/items", "Puts and removes many items, one per line.", "Lines", "", "application/x-ndjson"},
    {"post", "/v1/events", "Appends events of many users, one event list per line.", "Lines", "",
     "application/x-ndjson"},
    {"get", "/v1/items/{id}", "Returns an item as it is stored.", "", "StoredItem"},
    {"put", "/v1/items/{id}", "Puts an item into the catalog.", "PutItem", "Stored"},
    {"delete", "/v1/items/{id}", "Removes an item from the catalog.", "", "Stored"},
    {"post", "/v1/models/reload", "Switches to another version of the model.", "Reload", "Stored"},
    {"post", "/v1/catalog/reload", "Switches to another version of the catalog.", "Reload", "Stored"},
    {"post", "/v1/replay", "Answers a recorded request again and compares the answers.", "ReplayRequest",
     "ReplayReply"},
    {"get", "/v1/models", "Lists the served models.", "", "ModelList"},
    {"get", "/v1/cluster", "Returns the status of each actor.", "", "Cluster"},
    {"get", "/v1/slowest", "Lists the slowest requests of the last five minutes.", "", "Slowest"},
    {"get", "/info", "Returns the model's name and limits, in the form of TEI.", "", "Info"},
    {"get", "/v2", "Returns the server's metadata, in the form of the Open Inference Protocol.", "", "Any"},
    {"get", "/v2/models/{model}", "Lists the inputs and outputs of a model.", "", "Any"},
    {"get", "/v2/models/{model}/ready", "Tells whether a model is ready for requests.", "", "Any"},
    {"post", "/v2/models/{model}/infer", "Orders or generates items for a user, as tensors.", "InferBody",
     "InferAnswer"},
    {"get", "/v2/health/live", "Tells whether the process runs.", "", "Live"},
    {"get", "/v2/health/ready", "Tells whether the node can serve requests.", "", "Ready"},
    {"get", "/livez", "Tells whether the process runs, for liveness probes.", "", "Live"},
    {"get", "/healthz", "Tells whether the process runs, for liveness probes.", "", "Live"},
    {"get", "/readyz", "Tells whether the node can serve requests, for load balancers.", "", "Ready"},
    {"get", "/health", "Tells whether the node can serve requests, as vLLM and TEI do.", "", "Ready"},
    {"get", "/ping", "Tells whether the node can serve requests, for hosts of models.", "", "Ready"},
    {"get", "/openapi.json", "Returns this OpenAPI document.", "", "Any"},
    {"get", "/metrics", "Returns the metrics in Prometheus' text format, or in OpenMetrics.", "", "",
     "text/plain"},
    {"get", "/", "Returns the live page.", "", "", "text/html"},
};

// Schemas of bodies without a Cap'n Proto schema.
constexpr std::pair<const char*, const char*> by_hand[] = {
    {"Error", R"({"type":"object","required":["error"],"additionalProperties":false,"properties":{)"
              R"("error":{"type":"object","additionalProperties":false,"required":["status","code",)"
              R"("message","where","expected","type","param"],"properties":{"status":{)"
              R"("type":"integer","minimum":400,"maximum":599},"code":{"type":"string"},"message":{)"
              R"("type":"string"},"where":{"type":"string"},"expected":{"type":"string"},"type":{)"
              R"("type":"string","enum":["invalid_request_error","authentication_error",)"
              R"("permission_error","rate_limit_error","server_error"]},"param":{"type":"string"}}}}})"},
    {"CompletionRequest",
     R"({"type":"object","required":["prompt"],"properties":{"prompt":{},"max_tokens":{)"
     R"("type":"integer","minimum":0},"n":{"type":"integer","minimum":1},"beam_width":{)"
     R"("type":"integer","minimum":0},"items":{"type":"boolean"},"logprobs":{)"
     R"("type":["integer","null"]},"model":{"type":"string"},"budget_us":{"type":"integer",)"
     R"("minimum":0}}})"},
    {"Completion", R"({"type":"object","required":["id","object","created","model","choices","usage"],)"
                   R"("properties":{"id":{"type":"string"},"object":{"type":"string",)"
                   R"("enum":["text_completion"]},"created":{"type":"integer"},"model":{"type":"string"},)"
                   R"("choices":{"type":"array","items":{"type":"object","required":["index","text",)"
                   R"("finish_reason","tokens","log_probability"],"properties":{"index":{"type":"integer"})"
                   R"(,"text":{"type":"string"},"finish_reason":{"type":"string","enum":["stop","length"]})"
                   R"(,"tokens":{"type":"array","items":{"type":"integer"}},"log_probability":{)"
                   R"("type":"number"}}}},"usage":{"type":"object","required":["prompt_tokens",)"
                   R"("completion_tokens","total_tokens"]}}})"},
    {"EmbeddingsBody", R"({"type":"object","required":["input"],"properties":{"input":{},)"
                       R"("encoding_format":{"type":["string","null"],"enum":["float","base64",null]},)"
                       R"("add_special_tokens":{"type":["boolean","null"]},"model":{"type":"string"},)"
                       R"("user":{"type":"string"},"request_timestamp":{"type":"integer"},"budget_us":{)"
                       R"("type":"integer","minimum":0}}})"},
    {"EmbeddingList", R"({"type":"object","required":["object","data","model","usage"],)"
                      R"("additionalProperties":false,"properties":{"object":{"type":"string",)"
                      R"("enum":["list"]},"data":{"type":"array","items":{"type":"object",)"
                      R"("required":["object","index","embedding"],"additionalProperties":false,)"
                      R"("properties":{"object":{"type":"string","enum":["embedding"]},"index":{)"
                      R"("type":"integer"},"embedding":{"anyOf":[{"type":"array","items":{)"
                      R"("type":"number"}},{"type":"string"}]}}}},"model":{"type":"string"},"usage":{)"
                      R"("type":"object","required":["prompt_tokens","total_tokens"]}}})"},
    {"ScoreBody", R"({"anyOf":[{"$ref":"#/components/schemas/ScoreRequest"},{"type":"object"}]})"},
    {"ScoreAnswer",
     R"({"anyOf":[{"$ref":"#/components/schemas/ScoreReply"},{)"
     R"("$ref":"#/components/schemas/ScoreList"},{"$ref":"#/components/schemas/ScoreRows"}]})"},
    {"ScoreList", R"({"type":"object","required":["id","object","created","model","data","usage"],)"
                  R"("additionalProperties":false,"properties":{"id":{"type":"string"},"object":{)"
                  R"("type":"string","enum":["list"]},"created":{"type":"integer"},"model":{)"
                  R"("type":"string"},"data":{"type":"array","items":{"type":"object",)"
                  R"("required":["index","object","score"],"additionalProperties":false,"properties":{)"
                  R"("index":{"type":"integer"},"object":{"type":"string","enum":["score"]},"score":{)"
                  R"("type":"number"}}}},"usage":{"type":"object"}}})"},
    {"ScoreRows", R"({"type":"object","required":["scores","model","usage","object"],)"
                  R"("additionalProperties":false,"properties":{"scores":{"type":"array","items":{)"
                  R"("type":"array","items":{"type":"number"}}},"model":{"type":"string"},"usage":{)"
                  R"("type":"object"},"object":{"type":"string","enum":["scoring"]}}})"},
    {"ModelList",
     R"({"type":"object","required":["object","data"],"additionalProperties":false,)"
     R"("properties":{"object":{"type":"string","enum":["list"]},"data":{"type":"array",)"
     R"("items":{"type":"object","required":["id","object","created","owned_by","serves"],)"
     R"("additionalProperties":false,"properties":{"id":{"type":"string"},"object":{)"
     R"("type":"string","enum":["model"]},"created":{"type":"integer"},"owned_by":{)"
     R"("type":"string"},"serves":{"type":"string"},"version":{"type":"string"},"version_name":{)"
     R"("type":"string","description":"Directories of model.versions that hold it."}}}}}})"},
    {"Cluster", R"({"type":"object","required":["actors","silent","names"],)"
                R"("additionalProperties":false,"properties":{"actors":{"type":"array","items":{)"
                R"("$ref":"#/components/schemas/StatusReply"}},"silent":{"type":"array","items":{)"
                R"("type":"object","required":["node","role"],"properties":{"node":{"type":"integer"},)"
                R"("role":{"type":"string"},"model":{"type":"string"}}}},"names":{"type":"object"}}})"},
    {"Slowest", R"({"type":"object","required":["requests"],"additionalProperties":false,"properties":{)"
                R"("requests":{"type":"array","items":{"type":"object","required":["request","trace",)"
                R"("kind","tenant","status","us","ago_ms","timings"]}}}})"},
    {"Live", R"({"type":"object","required":["live"],"additionalProperties":false,"properties":{)"
             R"("live":{"type":"boolean"}}})"},
    {"Ready", R"({"type":"object","required":["ready"],"additionalProperties":false,"properties":{)"
              R"("ready":{"type":"boolean"},"degraded":{"type":"array","items":{"type":"string"}}}})"},
    {"RerankBody",
     R"({"type":"object","required":["query"],"properties":{"query":{"anyOf":[{"type":"string"},{)"
     R"("type":"array","items":{"type":"string"}},{"type":"object"}]},"documents":{"type":"array","items":{)"
     R"("anyOf":[{"type":"string"},{"type":"object"}]}},"texts":{"type":"array","items":{"type":"string"}},)"
     R"("top_n":{"type":["integer","null"],"minimum":1},"return_documents":{"type":["boolean","null"]},)"
     R"("model":{"type":["string","null"]},"max_tokens_per_doc":{"type":["integer","null"]}}})"},
    {"RerankAnswer",
     R"({"type":"object","required":["id","model","results","usage","meta"],"properties":{"id":{)"
     R"("type":"string"},"model":{"type":"string"},"results":{"type":"array","items":{"type":"object",)"
     R"("required":["index","relevance_score"],"properties":{"index":{"type":"integer"},)"
     R"("relevance_score":{"type":"number"},"document":{"type":"object"}}}},"usage":{"type":"object"},)"
     R"("meta":{"type":"object"},"skipped":{"type":"array","items":{"type":"string"}},"unknown_user":{)"
     R"("type":"string"}}})"},
    {"TeiRanks", R"({"type":"array","items":{"type":"object","required":["index","score"],"properties":{)"
                 R"("index":{"type":"integer"},"score":{"type":"number"},"text":{"type":"string"}}}})"},
    {"AnyRerankAnswer", R"({"anyOf":[{"$ref":"#/components/schemas/RerankAnswer"},{)"
                        R"("$ref":"#/components/schemas/TeiRanks"}]})"},
    {"TokenizeBody",
     R"({"type":"object","required":["prompt"],"properties":{"prompt":{"anyOf":[{"type":"string"},{)"
     R"("type":"array","items":{"type":"string"}}]},"add_special_tokens":{"type":"boolean"},)"
     R"("return_token_strs":{"type":"boolean"},"model":{"type":"string"}}})"},
    {"Tokenized", R"({"type":"object","required":["count","max_model_len","tokens"],"properties":{)"
                  R"("count":{},"max_model_len":{"type":"integer"},"tokens":{"type":"array"},)"
                  R"("token_strs":{"type":["array","null"]}}})"},
    {"StoredUser", R"({"type":"object","required":["user","version","history"],"properties":{"user":{)"
                   R"("type":"string"},"version":{"type":"integer"},"history":{"type":"array","items":{)"
                   R"("type":"string"}}}})"},
    {"StoredItem", R"({"type":"object","required":["item","tokens","identifier","version"],"properties":{)"
                   R"("item":{"type":"string"},"title":{"type":"string"},"tokens":{"type":"array","items":{)"
                   R"("type":"integer"}},"identifier":{"type":"integer"},"version":{"type":"integer"}}})"},
    {"EventList", R"({"type":"object","required":["events"],"properties":{"user":{"type":"string"},)"
                  R"("events":{"type":"array","items":{"type":"object"}}}})"},
    {"Info", R"({"type":"object","required":["model_id","model_sha","model_type","max_input_length",)"
             R"("max_client_batch_size","version"],"properties":{"model_id":{"type":"string"},"model_sha":{)"
             R"("type":"string"},"model_type":{"type":"object"},"max_input_length":{"type":"integer"},)"
             R"("max_client_batch_size":{"type":"integer"},"version":{"type":"string"}}})"},
    {"InferBody", R"({"type":"object","required":["inputs"],"properties":{"id":{"type":"string"},"inputs":{)"
                  R"("type":"array","items":{"$ref":"#/components/schemas/Tensor"}},"outputs":{)"
                  R"("type":"array","items":{"type":"object"}},"parameters":{"type":"object"}}})"},
    {"InferAnswer",
     R"({"type":"object","required":["model_name","model_version","outputs"],"properties":{"model_name":{)"
     R"("type":"string"},"model_version":{"type":"string"},"id":{"type":"string"},"parameters":{)"
     R"("type":"object"},"outputs":{"type":"array","items":{"$ref":"#/components/schemas/Tensor"}}}})"},
    {"Tensor", R"({"type":"object","required":["name","datatype","shape","data"],"properties":{"name":{)"
               R"("type":"string"},"datatype":{"type":"string"},"shape":{"type":"array","items":{)"
               R"("type":"integer"}},"data":{"type":"array"}}})"},
    {"Any", R"({"type":"object"})"},
};

// `example`: JSON, or text for another type; "" = none.
std::string content(std::string_view type, std::string_view schema, std::string_view example) {
  std::string out = "{\"" + std::string(type) + "\":{\"schema\":";
  if (schema.empty())
    out += R"({"type":"string"})";
  else
    out += R"({"$ref":"#/components/schemas/)" + std::string(schema) + "\"}";
  if (!example.empty() && !schema.empty()) out += ",\"example\":" + std::string(example);
  if (!example.empty() && schema.empty()) append_json_string(out += ",\"example\":", example);
  return out + "}}";
}

// "post_v1_users_id_events": the method and the words of the path.
std::string operation_id(const ApiPath& of) {
  std::string id(of.method);
  for (const char c : of.path) {
    if (c == '{' || c == '}') continue;
    id += c == '/' || c == '.' ? '_' : c;
  }
  return of.path == "/" ? id + "page" : id;
}

// Statuses that do not depend on what a path does. All of them have keys and rates.
bool may_refuse_with(const ApiPath& of, unsigned status) {
  const bool has_body = !of.body.empty(), has_id = of.path.find('{') != of.path.npos;
  switch (status) {
    case 400:
    case 401:
    case 403:
    case 405:
    case 429:
    case 431:
    case 500:
    case 503:
      return true;
    case 404:
      return has_id || has_body;
    case 409:
      return of.path == "/v1/replay";
    case 412:
      return has_id && of.method != "get";
    case 504:
      return has_body || has_id;
    default:
      return has_body;
  }
}

// Every error has the same form, whatever its status; each status has its own codes.
std::string refusals(const ApiPath& of) {
  std::string out;
  for (const ApiError& error : api_errors())
    if (const std::string status = std::to_string(error.status); may_refuse_with(of, error.status))
      out += ",\"" + status + R"(":{"$ref":"#/components/responses/Error)" + status + "\"}";
  return out + R"(,"default":{"description":"The request was refused; status and code say why.","content":)" +
         content("application/json", "Error", "") + "}";
}

std::string operation(const ApiPath& of) {
  const ApiExample example = api_example(of.method, of.path);
  std::string out =
      "\"" + std::string(of.method) + R"(":{"operationId":")" + operation_id(of) + R"(","summary":)";
  append_json_string(out, of.summary);
  out += R"(,"parameters":[{"$ref":"#/components/parameters/tenant"},{)"
         R"("$ref":"#/components/parameters/request_id"},{"$ref":"#/components/parameters/traceparent"})";
  for (const std::string name : {"id", "model"})
    if (of.path.find("{" + name + "}") != of.path.npos)
      out += ",{\"name\":\"" + name +
             R"(","in":"path","required":true,"schema":{"type":"string","minLength":1,"maxLength":256}})";
  out += "]";
  const bool by_lines = of.body == "Lines";
  const std::string_view body = by_lines ? "" : of.body;
  if (!of.body.empty())
    out += R"(,"requestBody":{"required":true,"content":)" +
           content(by_lines ? of.type : "application/json", body, example.request) + "}";
  return out + R"(,"responses":{"200":{"description":"The request succeeded.","content":)" +
         content(of.type, of.answer, example.answer) + "}" + refusals(of) + "}}";
}

// Writes the errors of each status. Later versions may have further codes, so any text is valid.
std::string error_responses() {
  std::string out;
  for (const ApiError& error : api_errors()) {
    std::string codes(error.codes);
    for (std::size_t at = 0; (at = codes.find(' ', at)) != codes.npos; at += 3) codes.replace(at, 1, "\",\"");
    const std::string status = std::to_string(error.status);
    append_json_string(out += (out.empty() ? "\"Error" : ",\"Error") + status + "\":{\"description\":",
                       error.description);
    out += R"(,"content":{"application/json":{"schema":{"allOf":[{"$ref":"#/components/schemas/Error"},{)"
           R"("type":"object","properties":{"error":{"type":"object","properties":{"status":{"const":)" +
           status + R"(},"code":{"anyOf":[{"type":"string","enum":[")" + codes +
           R"("]},{"type":"string"}]}}}}}]},"example":{"error":{"status":)" + status + "," +
           std::string(error.example) + "}}}}}";
  }
  return out;
}

std::string make_openapi() {
  std::map<std::string_view, std::string> operations;  // by path
  for (const ApiPath& path : paths) {
    std::string& of = operations[path.path];
    of += (of.empty() ? "" : ",") + operation(path);
  }
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Troupe","version":"1",)"
                    R"("description":"Ranks and generates items for users. )"
                    R"(docs/reference/request-fields.md describes every member."},)"
                    R"("security":[{},{"key":[]}],"paths":{)";
  for (const auto& [path, of] : operations) {
    append_json_string(out += out.back() == '{' ? "" : ",", path);
    out += ":{" + of + "}";
  }
  out += R"(},"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}},"parameters":{)"
         R"("tenant":{"name":"x-troupe-tenant","in":"header","schema":{"type":"string"},)"
         R"("description":"Tenant of the users, rankings and scores."},"request_id":{"name":"x-request-id",)"
         R"("in":"header","schema":{"type":"string","maxLength":128}},"traceparent":{"name":"traceparent",)"
         R"("in":"header","schema":{"type":"string"}}},"responses":{)" +
         error_responses() + R"(},"schemas":{)";
  for (const auto& [name, schema] : body_schemas()) {
    append_json_string(out += out.back() == '{' ? "" : ",", name);
    out += ":" + schema;
  }
  for (const auto& [name, schema] : by_hand) out += ",\"" + std::string(name) + "\":" + schema;
  return out + "}}}";
}

}  // namespace

std::span<const ApiPath> api_paths() { return paths; }

const std::string& openapi() {
  static const std::string text = make_openapi();
  return text;
}

}  // namespace troupe::server
