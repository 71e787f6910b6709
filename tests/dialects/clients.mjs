// Queries a node with Cohere's own client; run by clients.py.
//   node clients.mjs FOLDER URL KEY
import { createRequire } from "node:module";

const [folder, url, key] = process.argv.slice(2);
const { CohereClient, CohereClientV2 } = createRequire(folder + "/")("cohere-ai");
let failed = 0;
function check(holds, what) {
  console.log((holds ? "ok      " : "FAILED  ") + what);
  if (!holds) failed = 1;
}
async function refusal(ask) {
  try {
    await ask();
    return { status: 200 };
  } catch (error) {
    return { status: error.statusCode, body: JSON.stringify(error.body ?? "") };
  }
}

const documents = ["camp-0001", "camp-0002", "camp-0003"];
const client = new CohereClientV2({ token: key, environment: url, maxRetries: 0 });
const all = await client.rerank({ model: "troupe", query: "ana", documents });
check(all.results.length === 3, "every document has a result");
const relevances = all.results.map((result) => result.relevanceScore);
check(relevances.every((score, i) => i === 0 || score <= relevances[i - 1]), "best first");
check(new Set(all.results.map((result) => result.index)).size === 3, "results have distinct indices");
const sum = all.results.reduce((total, result) => total + result.relevanceScore, 0);
check(Math.abs(sum - 1) < 1e-6, "relevance is the softmax over the documents");
const ranked = await (await fetch(url + "/v1/rank", {
  method: "POST",
  headers: { authorization: "Bearer " + key },
  body: JSON.stringify({ user: "ana", candidates: documents }),
})).json();
const theirs = all.results.map((result) => documents[result.index]);
check(JSON.stringify(ranked.items.map((item) => item.id)) === JSON.stringify(theirs),
  "the order is that of /v1/rank");
const best = await client.rerank({ model: "troupe", query: "ana", documents, topN: 1 });
check(best.results.length === 1 && best.results[0].index === all.results[0].index,
  "topN returns the best ones");
const old = new CohereClient({ token: key, environment: url, maxRetries: 0 });
const named = await old.rerank({ query: "ana", documents, returnDocuments: true });
check(named.results[0].document.text.length > 0, "v1 returns documents: titles of the items");
const one = await refusal(() => client.rerank({ model: "troupe", query: "ana", documents: [...documents, "nothing"] }));
check(one.status === 404 && one.body.includes('"where":"documents[3]"'), "one unknown document of four is named");
const long = await refusal(() => client.rerank({ model: "troupe", query: "ana", documents, maxTokensPerDoc: 4096 }));
check(long.status === 400 && long.body.includes('"where":"max_tokens_per_doc"'),
  "v2's bound of a document's tokens is refused by name, as items' ids have none");
const fields = await old.rerank({ query: "ana", documents: documents.map((text) => ({ text })),
  rankFields: ["text"], topN: 2, returnDocuments: false });
check(fields.results.length === 2, "v1 takes documents with the field that it ranks by");
const chunks = await refusal(() => old.rerank({ query: "ana", documents, maxChunksPerDoc: 10 }));
check(chunks.status === 400 && chunks.body.includes('"where":"max_chunks_per_doc"'),
  "v1's chunks are refused by name");
const nobody = await refusal(() => client.rerank({ model: "troupe", query: "nobody", documents }));
check(nobody.status === 404 && nobody.body.includes("unknown_user"), "an unknown user is 404");
const other = await refusal(() => client.rerank({ model: "rerank-v4.0-pro", query: "ana", documents }));
check(other.status === 404 && other.body.includes("unknown_model"), "an unknown model is 404");
const stranger = new CohereClientV2({ token: "tk-nonsense", environment: url, maxRetries: 0 });
const closed = await refusal(() => stranger.rerank({ model: "troupe", query: "ana", documents }));
check(closed.status === 401, "an invalid key is 401");
process.exit(failed);
