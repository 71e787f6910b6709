// Runs onnxruntime on the workloads of `troupe-lab bench engine`, with a model that make_model.mjs wrote: a
// prompt without a past, tokens after a cached history, and candidates after it, which a mask keeps from
// seeing each other. Wall and CPU time are of the process; the multiply-add rate is sampled before and
// after each pass.
//
//   node onnx_peer.mjs INSTALLED MODEL SHAPE THREADS ROUNDS prefill,suffix,rank LENGTH,...
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';

const [installed, model, shape, threads, rounds, work, lengths] = process.argv.slice(2);
const ort = createRequire(installed + '/npm/node_modules/')('onnxruntime-node');
const [layers, hidden, heads, kvHeads, intermediate, vocabulary] = shape.split(',').map(Number);
const headSize = hidden / heads;
const history = 1500, suffix = 1000, candidates = 100, candidateTokens = 10;

// No spinning: spinning threads would be charged for waiting.
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential',
  graphOptimizationLevel: 'all', extra: { session: { intra_op: { allow_spinning: '0' } } } });

const names = Array.from({ length: layers }, (_, i) => ['k', 'v'].map(
  name => [`layer${i}.past_${name}`, `layer${i}.now_${name}`])).flat();
const empty = () => new ort.Tensor('float32', new Float32Array(0), [1, kvHeads, 0, headSize]);
const nothing = () => Object.fromEntries(names.map(([past]) => [past, empty()]));
const pastOf = outputs => Object.fromEntries(names.map(([past, now]) => [past, outputs[now]]));
const whole = values => BigInt64Array.from(values, BigInt);
const fmaRate = () => Number(execFileSync(installed + '/fma_now', [threads]).toString());

// One pass. `positionOf`: the position of a token; `hides`: pairs of a token and a hidden position.
async function pass(past, before, tokens, rows, positionOf = i => before + i, hides = null) {
  const all = before + tokens, mask = new Float32Array(tokens * all);
  if (hides)
    for (let i = 0; i < tokens; ++i)
      for (let j = before; j < all; ++j) if (hides(i, j - before)) mask[i * all + j] = -1e30;
  const indices = Array.from({ length: tokens }, (_, i) => i);
  const feeds = { ...past,
    tokens: new ort.Tensor(
      'int64', whole(indices.map(() => Math.floor(Math.random() * vocabulary))), [1, tokens]),
    positions: new ort.Tensor('int64', whole(indices.map(positionOf)), [1, tokens]),
    mask: new ort.Tensor('float32', mask, [1, 1, tokens, all]),
    last: new ort.Tensor('int32', Int32Array.of(all - 1), [1]),
    length: new ort.Tensor('int32', Int32Array.of(all), [1]),
    rows: new ort.Tensor('int64', whole(rows), [rows.length]) };
  const rate = fmaRate(), wall = performance.now(), cpu = process.cpuUsage();
  const outputs = await session.run(feeds);
  const used = process.cpuUsage(cpu), time = performance.now() - wall;
  return { outputs, wall: time, cpu: (used.user + used.system) / 1e3, fma: (rate + fmaRate()) / 2 };
}

// Operations of the workload: `pairs` of tokens that see each other, `readouts` of all rows.
function operations(tokens, pairs, readouts) {
  const weights =
    layers * (2 * hidden * hidden + 2 * hidden * kvHeads * headSize + 3 * hidden * intermediate);
  return 2 * weights * tokens + 4 * layers * hidden * pairs + 2 * hidden * vocabulary * readouts;
}
const visible = (before, tokens) => tokens * before + tokens * (tokens + 1) / 2;
const median = values => [...values].sort((a, b) => a - b)[values.length >> 1];

async function measure(name, tokens, needed, run) {
  const wall = [], cpu = [], fma = [], share = [];
  for (let i = 0; i < Number(rounds); ++i) {
    const one = await run();
    wall.push(one.wall), cpu.push(one.cpu), fma.push(one.fma), share.push(needed / one.cpu / 1e4 / one.fma);
  }
  const figures = values => `med ${median(values).toFixed(1)} min ${Math.min(...values).toFixed(1)}`;
  console.log(`onnxruntime ${name} n=${tokens} | wall ${figures(wall)} | cpu ${figures(cpu)} ms` +
    ` | ${(tokens / Math.min(...cpu) * 1e3).toFixed(1)} tok/cpu-s` +
    ` | ${(needed / median(cpu) / 1e6).toFixed(1)} GF/cpu-s,` +
    ` peak now ${median(fma).toFixed(1)}, % of peak med ${median(share).toFixed(1)}` +
    ` max ${Math.max(...share).toFixed(1)}`);
}

await pass(nothing(), 0, 64, [63]);  // untimed
if (work.includes('prefill'))
  for (const length of lengths.split(',').map(Number))
    await measure(`prefill ${length}`, length, operations(length, visible(0, length), 1),
      () => pass(nothing(), 0, length, [length - 1]));
if (work.includes('suffix') || work.includes('rank')) {
  const past = pastOf((await pass(nothing(), 0, history, [history - 1])).outputs);
  if (work.includes('suffix'))
    await measure(`suffix ${suffix} on ${history}`, suffix, operations(suffix, visible(history, suffix), 1),
      () => pass(past, history, suffix, [suffix - 1]));
  const tokens = candidates * candidateTokens, candidateOf = i => Math.floor(i / candidateTokens);
  const lastOnes = Array.from({ length: candidates }, (_, c) => (c + 1) * candidateTokens - 1);
  if (work.includes('rank'))
    await measure(`rank ${candidates}x${candidateTokens} on ${history}`, tokens,
      operations(tokens, candidates * visible(history, candidateTokens), candidates),
      () => pass(past, history, tokens, lastOnes, i => history + i % candidateTokens,
        (i, j) => candidateOf(i) !== candidateOf(j)));
}
