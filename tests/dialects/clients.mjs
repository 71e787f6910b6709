// Asks a box by Cohere's own client; clients.py says what it checks.
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
check(all.results.every((result, i) => i === 0 || result.relevanceScore <= all.results[i - 1].relevanceScore), "best first");
check(new Set(all.results.map((result) => result.index)).size === 3, "each by its index");
const sum = all.results.reduce((total, result) => total + result.relevanceScore, 0);
check(Math.abs(sum - 1) < 1e-6, "relevance is the softmax over the documents");
const ranked = await (await fetch(url + "/v1/rank", { method: "POST", headers: { authorization: "Bearer " + key },
  body: JSON.stringify({ user: "ana", candidates: documents }) })).json();
check(JSON.stringify(ranked.items.map((item) => item.id)) === JSON.stringify(all.results.map((result) => documents[result.index])),
  "the order is that of /v1/rank");
const best = await client.rerank({ model: "troupe", query: "ana", documents, topN: 1 });
check(best.results.length === 1 && best.results[0].index === all.results[0].index, "topN: the best of them");
const old = new CohereClient({ token: key, environment: url, maxRetries: 0 });
const named = await old.rerank({ query: "ana", documents, returnDocuments: true });
check(named.results[0].document.text.length > 0, "v1 returns documents: titles of the items");
const nobody = await refusal(() => client.rerank({ model: "troupe", query: "nobody", documents }));
check(nobody.status === 404 && nobody.body.includes("unknown_user"), "an unknown user is 404");
const other = await refusal(() => client.rerank({ model: "rerank-v4.0-pro", query: "ana", documents }));
check(other.status === 404 && other.body.includes("unknown_model"), "a model that is not served is 404");
const stranger = new CohereClientV2({ token: "tk-nonsense", environment: url, maxRetries: 0 });
const closed = await refusal(() => stranger.rerank({ model: "troupe", query: "ana", documents }));
check(closed.status === 401, "a key that is none is 401");
process.exit(failed);
