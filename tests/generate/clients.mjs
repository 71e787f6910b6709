// Checks a node that serves a generator with OpenAI's own client. clients.py calls it with the folder of the
// package, the node's address, the model's golden file and its vocabulary. The node has users with the golden
// histories.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, server, golden_file, vocabulary_file] = process.argv.slice(2);
const OpenAI = createRequire(join(folder, 'package.json'))('openai');
const client = new OpenAI({ baseURL: `http://${server}/v1`, apiKey: 'none', maxRetries: 0 });
const golden = JSON.parse(readFileSync(golden_file));
const ids = JSON.parse(readFileSync(vocabulary_file));
const words = Object.fromEntries(Object.entries(ids).map(([word, id]) => [id, word]));
const in_words = (tokens) => tokens.map((token) => words[token]);

let checks = 0;
async function check(name, run) {
  await run();
  ++checks;
  console.log(`ok: ${name}`);
}
async function refused(name, body, status, code, param) {
  await check(`refused: ${name}`, async () => {
    const error = await client.completions.create({ model, ...body }).then(() => null, (fault) => fault);
    assert(error instanceof OpenAI.APIError, `no error of the client's, but ${error}`);
    const seen = [error.status, error.code, error.param, error.type];
    assert.deepEqual(seen, [status, code, param, 'invalid_request_error']);
  });
}
const generate = async (user, width) => {
  const reply = await fetch(`http://${server}/v1/generate`, {
    method: 'POST', body: JSON.stringify({ user, width, top_k: width }),
  });
  const paths = [];
  for (const { tokens, log_probability } of (await reply.json()).items)
    if (paths.at(-1)?.tokens.join() !== tokens.join()) paths.push({ tokens, log_probability });
  return paths;
};
const same_paths = (choices, paths, tolerance) => choices.forEach((choice, i) => {
  assert.deepEqual(choice.tokens, paths[i].tokens);
  assert(Math.abs(choice.log_probability - paths[i].log_probability) <= tolerance,
         `${choice.log_probability} where ${paths[i].log_probability} was expected`);
});

let model;
await check('the served model is listed', async () => {
  const models = [];
  for await (const each of client.models.list()) models.push(each);
  assert.equal(models.length, 1);
  assert.equal(models[0].object, 'model');
  assert.match(models[0].serves, /generate/);
  model = models[0].id;
});

const { beam_width } = golden;
for (const [number, { prompt, beams }] of golden.cases.entries()) {
  await check(`case ${number}: items by token ids and by words`, async () => {
    const asked = { model, n: beam_width, beam_width, items: true };
    const by_ids = await client.completions.create({ ...asked, prompt });
    assert.equal(by_ids.object, 'text_completion');
    assert.equal(by_ids.model, model);
    assert(Math.abs(by_ids.created - Date.now() / 1000) < 60);
    assert.equal(by_ids.choices.length, beam_width);
    assert.deepEqual(by_ids.choices.map((choice) => choice.index), [...Array(beam_width).keys()]);
    for (const choice of by_ids.choices) {
      assert.equal(choice.finish_reason, 'stop');
      assert.equal(choice.text, in_words(choice.tokens).join(' '));
      assert.equal(choice.logprobs, null);
    }
    const told = beams.map(({ tokens, logprob }) => ({ tokens, log_probability: logprob }));
    same_paths(by_ids.choices, told, 1e-4);
    const generated = await generate(`golden-${number}`, beam_width);
    same_paths(by_ids.choices.slice(0, generated.length), generated, 1e-4);
    const { usage } = by_ids;
    assert.equal(usage.prompt_tokens, prompt.length);
    const completed = by_ids.choices.reduce((sum, { tokens }) => sum + tokens.length, 0);
    assert.equal(usage.completion_tokens, completed);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    const words_of_prompt = in_words(prompt);
    for (const text of [words_of_prompt.join(' '), words_of_prompt.join(''), [words_of_prompt.join(' ')]])
      assert.deepEqual((await client.completions.create({ ...asked, prompt: text })).choices, by_ids.choices);
  });
}

const { prompt, argmax } = golden.cases[0];
await check('greedy decoding is a search of width 1', async () => {
  const greedy = await client.completions.create(
    { model, prompt, max_tokens: 3, temperature: 0, logprobs: 0 });
  assert.equal(greedy.choices.length, 1);
  assert.equal(greedy.choices[0].finish_reason, 'length');
  assert.equal(greedy.choices[0].tokens.length, 3);
  assert.equal(greedy.choices[0].tokens[0], argmax);
  let so_far = prompt, sum = 0;
  const each = greedy.choices[0].logprobs.token_logprobs;
  for (const [at, token] of greedy.choices[0].tokens.entries()) {  // requests of single tokens give the same
    const answer = await client.completions.create({ model, prompt: so_far, max_tokens: 1, logprobs: 1 });
    const one = answer.choices[0];
    assert.equal(one.tokens[0], token);
    assert.deepEqual(one.logprobs.tokens, in_words([token]));
    assert.deepEqual(one.logprobs.token_logprobs, [one.log_probability]);
    assert(Math.abs(each[at] - one.log_probability) < 1e-4);
    sum += one.log_probability;
    so_far = [...so_far, token];
  }
  assert(Math.abs(sum - greedy.choices[0].log_probability) < 1e-4);
});
await check('a wider search finds completions at least as probable, best first', async () => {
  const ask = (width) => client.completions.create(
    { model, prompt, max_tokens: 3, n: Math.min(width, 4), beam_width: width });
  const [greedy, wide] = [(await ask(1)).choices, (await ask(16)).choices];
  assert.equal(wide.length, 4);
  assert(wide[0].log_probability >= greedy[0].log_probability - 1e-4);
  for (let i = 1; i < wide.length; ++i) assert(wide[i].log_probability <= wide[i - 1].log_probability);
  assert.equal(new Set(wide.map(({ tokens }) => tokens.join())).size, 4);
});
await check('max_tokens defaults to 16, and the model may be omitted', async () => {
  const { choices, model: served } = await client.completions.create({ prompt: [1] });
  assert.equal(choices[0].tokens.length, 16);
  assert.equal(served, model);
});

await refused('a word outside the vocabulary', { prompt: '<bos> <a_999>' }, 422, 'unknown_word', 'prompt');
await refused('a token outside the vocabulary', { prompt: [1, 999999] }, 422, 'unknown_token', 'prompt[1]');
await refused('no prompt', {}, 400, 'missing_field', 'prompt');
await refused('an empty prompt', { prompt: '' }, 400, 'no_tokens', 'prompt');
await refused('several prompts', { prompt: ['<bos>', '<bos>'] }, 400, 'several_prompts', 'prompt');
await refused('another model', { model: 'davinci-002', prompt: [1] }, 404, 'unknown_model', 'model');
await refused('sampling', { prompt: [1], temperature: 0.7 }, 400, 'unsupported_value', 'temperature');
await refused('a stream', { prompt: [1], stream: true }, 400, 'unsupported_value', 'stream');
await refused('an echo', { prompt: [1], echo: true }, 400, 'unsupported_value', 'echo');
await refused('a stop', { prompt: [1], stop: ['<eos>'] }, 400, 'unsupported_value', 'stop');
await refused('other tokens', { prompt: [1], logprobs: 5 }, 400, 'unsupported_value', 'logprobs');
const narrow = { prompt: [1], n: 3, beam_width: 2 };
await refused('less width than completions', narrow, 400, 'too_narrow', 'beam_width');
await refused('too much width', { prompt: [1], beam_width: 100000 }, 413, 'too_wide', 'beam_width');
await refused('too many tokens', { prompt: [1], max_tokens: 100000 }, 413, 'too_wide', 'max_tokens');
await refused('an unknown field', { prompt: [1], colour: 'red' }, 400, 'unknown_field', 'colour');
const { version } = JSON.parse(readFileSync(join(folder, 'node_modules/openai/package.json')));
console.log(`${checks} checks by openai ${version}`);
