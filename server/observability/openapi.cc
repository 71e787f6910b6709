#include "server/observability/openapi.h"

#include <map>

#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"

namespace troupe::server {

namespace {

constexpr ApiPath paths[] = {
    {"post", "/v1/rank", "Orders candidate items for a user", "RankRequest", "RankReply"},
    {"post", "/v1/generate", "Finds items of the whole catalog for a user", "GenerateRequest",
     "GenerateReply"},
    {"post", "/v1/score", "Scores label tokens behind each item; or in the forms of vLLM and SGLang",
     "ScoreBody", "ScoreAnswer"},
    {"post", "/score", "The same, where vLLM has it", "ScoreBody", "ScoreAnswer"},
    {"post", "/generative_scoring", "Probabilities of a first label, in vLLM's form", "Any", "ScoreList"},
    {"post", "/v1/completions", "Continues a prompt, in OpenAI's form", "CompletionRequest", "Completion"},
    {"post", "/v1/rerank", "Orders items for a user, in Cohere's and Jina's form", "Any", "Any"},
    {"post", "/v2/rerank", "The same, in Cohere's second form", "Any", "Any"},
    {"get", "/v1/users/{id}", "A user as it is stored", "", "Any"},
    {"post", "/v1/users/{id}/events", "Appends events, each once by its id", "Any", "Appended"},
    {"put", "/v1/users/{id}", "Replaces a user's profile", "PutUser", "Stored"},
    {"delete", "/v1/users/{id}", "Removes a user", "", "Stored"},
    {"post", "/v1/users", "Puts and removes many users, a line each", "", "", "application/x-ndjson"},
    {"post", "/v1/items", "Puts and removes many items, a line each", "", "", "application/x-ndjson"},
    {"post", "/v1/events", "Appends events of many users, a line each", "", "", "application/x-ndjson"},
    {"get", "/v1/items/{id}", "An item as it is stored", "", "Any"},
    {"put", "/v1/items/{id}", "Puts an item into the catalog", "PutItem", "Stored"},
    {"delete", "/v1/items/{id}", "Removes an item", "", "Stored"},
    {"post", "/v1/models/reload", "Serves another version of the model", "Reload", "Stored"},
    {"post", "/v1/catalog/reload", "Serves another version of the catalog", "Reload", "Stored"},
    {"get", "/v1/models", "The models that are served", "", "ModelList"},
    {"get", "/v1/cluster", "What each actor says of itself", "", "Cluster"},
    {"get", "/v1/slowest", "The slowest requests of the last five minutes", "", "Slowest"},
    {"get", "/v2", "What the server is, as the Open Inference Protocol has it", "", "Any"},
    {"get", "/v2/models/{model}", "What a model takes and gives", "", "Any"},
    {"get", "/v2/models/{model}/ready", "Whether a model can be asked", "", "Any"},
    {"post", "/v2/models/{model}/infer", "Orders items for a user, as tensors", "Any", "Any"},
    {"get", "/v2/health/live", "Whether the process runs", "", "Live"},
    {"get", "/v2/health/ready", "Whether it can serve", "", "Ready"},
    {"get", "/openapi.json", "This file", "", "Any"},
    {"get", "/metrics", "Prometheus' text form, or OpenMetrics", "", "", "text/plain"},
    {"get", "/", "The live page", "", "", "text/html"},
};

// What has no Cap'n Proto schema.
constexpr std::pair<const char*, const char*>
    by_hand
        [] =
            {
                {"Error",
                 R"({"type":"object","required":["error"],"additionalProperties":false,"properties":{"error":{"type":"object","additionalProperties":false,"required":["status","code","message","where","expected","type","param"],"properties":{"status":{"type":"integer","minimum":400,"maximum":599},"code":{"type":"string"},"message":{"type":"string"},"where":{"type":"string"},"expected":{"type":"string"},"type":{"type":"string","enum":["invalid_request_error","permission_error","rate_limit_error","server_error"]},"param":{"type":"string"}}}}})"},
                {"CompletionRequest",
                 R"({"type":"object","required":["prompt"],"properties":{"prompt":{},"max_tokens":{"type":"integer","minimum":0},"n":{"type":"integer","minimum":1},"beam_width":{"type":"integer","minimum":0},"items":{"type":"boolean"},"logprobs":{"type":["integer","null"]},"model":{"type":"string"},"budget_us":{"type":"integer","minimum":0}}})"},
                {"Completion",
                 R"({"type":"object","required":["id","object","created","model","choices","usage"],"properties":{"id":{"type":"string"},"object":{"type":"string","enum":["text_completion"]},"created":{"type":"integer"},"model":{"type":"string"},"choices":{"type":"array","items":{"type":"object","required":["index","text","finish_reason","tokens","log_probability"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},"finish_reason":{"type":"string","enum":["stop","length"]},"tokens":{"type":"array","items":{"type":"integer"}},"log_probability":{"type":"number"}}}},"usage":{"type":"object","required":["prompt_tokens","completion_tokens","total_tokens"]}}})"},
                {"ScoreBody",
                 R"({"anyOf":[{"$ref":"#/components/schemas/ScoreRequest"},{"type":"object"}]})"},
                {"ScoreAnswer",
                 R"({"anyOf":[{"$ref":"#/components/schemas/ScoreReply"},{"$ref":"#/components/schemas/ScoreList"},{"$ref":"#/components/schemas/ScoreRows"}]})"},
                {"ScoreList",
                 R"({"type":"object","required":["id","object","created","model","data","usage"],"additionalProperties":false,"properties":{"id":{"type":"string"},"object":{"type":"string","enum":["list"]},"created":{"type":"integer"},"model":{"type":"string"},"data":{"type":"array","items":{"type":"object","required":["index","object","score"],"additionalProperties":false,"properties":{"index":{"type":"integer"},"object":{"type":"string","enum":["score"]},"score":{"type":"number"}}}},"usage":{"type":"object"}}})"},
                {"ScoreRows",
                 R"({"type":"object","required":["scores","model","usage","object"],"additionalProperties":false,"properties":{"scores":{"type":"array","items":{"type":"array","items":{"type":"number"}}},"model":{"type":"string"},"usage":{"type":"object"},"object":{"type":"string","enum":["scoring"]}}})"},
                {"ModelList",
                 R"({"type":"object","required":["object","data"],"additionalProperties":false,"properties":{"object":{"type":"string","enum":["list"]},"data":{"type":"array","items":{"type":"object","required":["id","object","created","owned_by","serves"],"additionalProperties":false,"properties":{"id":{"type":"string"},"object":{"type":"string","enum":["model"]},"created":{"type":"integer"},"owned_by":{"type":"string"},"serves":{"type":"string"},"version":{"type":"string"}}}}}})"},
                {"Cluster",
                 R"({"type":"object","required":["actors","silent","names"],"additionalProperties":false,"properties":{"actors":{"type":"array","items":{"$ref":"#/components/schemas/StatusReply"}},"silent":{"type":"array","items":{"type":"object","required":["node","role"],"properties":{"node":{"type":"integer"},"role":{"type":"string"},"model":{"type":"string"}}}},"names":{"type":"object"}}})"},
                {"Slowest",
                 R"({"type":"object","required":["requests"],"additionalProperties":false,"properties":{"requests":{"type":"array","items":{"type":"object","required":["request","trace","kind","tenant","status","us","ago_ms","timings"]}}}})"},
                {"Live",
                 R"({"type":"object","required":["live"],"additionalProperties":false,"properties":{"live":{"type":"boolean"}}})"},
                {"Ready",
                 R"({"type":"object","required":["ready"],"additionalProperties":false,"properties":{"ready":{"type":"boolean"}}})"},
                {"Any", R"({"type":"object"})"},
};

std::string content(std::string_view type, std::string_view schema) {
  std::string out = "{\"" + std::string(type) + "\":{\"schema\":";
  if (schema.empty()) return out + R"({"type":"string"}}})";
  return out + R"({"$ref":"#/components/schemas/)" + std::string(schema) + "\"}}}";
}

// Every error has one form, whatever its status.
std::string operation(const ApiPath& of) {
  std::string out = "\"" + std::string(of.method) + "\":{\"summary\":";
  append_json_string(out, of.summary);
  out +=
      R"(,"parameters":[{"$ref":"#/components/parameters/tenant"},{"$ref":"#/components/parameters/request_id"},{"$ref":"#/components/parameters/traceparent"})";
  for (const std::string name : {"id", "model"})
    if (of.path.find("{" + name + "}") != of.path.npos)
      out += ",{\"name\":\"" + name +
             R"(","in":"path","required":true,"schema":{"type":"string","minLength":1,"maxLength":256}})";
  out += "]";
  if (!of.body.empty())
    out += R"(,"requestBody":{"required":true,"content":)" + content("application/json", of.body) + "}";
  return out + R"(,"responses":{"200":{"description":"done","content":)" + content(of.type, of.answer) +
         R"(},"default":{"description":"refused, by its status and code","content":)" +
         content("application/json", "Error") + "}}}";
}

std::string make_openapi() {
  std::map<std::string_view, std::string> operations;  // by path
  for (const ApiPath& path : paths) {
    std::string& of = operations[path.path];
    of += (of.empty() ? "" : ",") + operation(path);
  }
  std::string out =
      R"({"openapi":"3.1.0","info":{"title":"Troupe","version":"1","description":"Ranks and generates items for users. API.md says what each member is for."},"security":[{},{"key":[]}],"paths":{)";
  for (const auto& [path, of] : operations) {
    append_json_string(out += out.back() == '{' ? "" : ",", path);
    out += ":{" + of + "}";
  }
  out +=
      R"(},"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}},"parameters":{"tenant":{"name":"x-troupe-tenant","in":"header","schema":{"type":"string"},"description":"of users, rankings and scores"},"request_id":{"name":"x-request-id","in":"header","schema":{"type":"string","maxLength":128}},"traceparent":{"name":"traceparent","in":"header","schema":{"type":"string"}}},"schemas":{)";
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
