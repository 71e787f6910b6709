// Runs onnxruntime on a Climber that climber_torch.py exported: a peer of tests/bench/climber.py. It runs one
// pass for each line of input.
//
//   node climber_onnx.mjs INSTALLED MODEL.onnx ITEMS EVENTS CANDIDATES THREADS [SETTING=VALUE,...]
//
// INSTALLED: where setup.sh installed the peers. Settings: spin=0|1, level=all|extended|basic,
// mode=sequential|parallel, flush=0|1 (denormal numbers as zero), prepack=0|1.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [installed, model, items, events, candidates, threads, settings = ''] = process.argv.slice(2);
const ort = createRequire(installed + '/npm/node_modules/')('onnxruntime-node');
const set = { spin: '0', level: 'all', mode: 'sequential', flush: '0', prepack: '1',
  ...Object.fromEntries(settings.split(',').filter(Boolean).map(one => one.split('='))) };
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1,
  executionMode: set.mode, graphOptimizationLevel: set.level,
  logSeverityLevel: 3,
  extra: { session: { intra_op: { allow_spinning: set.spin }, set_denormal_as_zero: set.flush,
    disable_prepacking: set.prepack === '1' ? '0' : '1' } } });

const whole = values => new ort.Tensor('int64', BigInt64Array.from(values, BigInt), [values.length]);
const range = (count, of) => Array.from({ length: Number(count) }, (_, i) => of(i));
// The same values as climber_bench.cc draws.
const feeds = {
  items: whole(range(events, i => 1 + 7919 * i % Number(items))),
  actions: whole(range(events, i => 4 + i % 2)),
  candidates: whole(range(candidates, j => 1 + 104729 * j % Number(items))),
};
const fmaRate = () => 1e9 * Number(execFileSync(installed + '/fma_now', [threads]).toString());

let outputs;
for (let i = 0; i < 3; ++i) outputs = await session.run(feeds);
const tasks = outputs.logits.dims[1];
console.log(JSON.stringify({ first: range(8, i => outputs.logits.data[i * tasks]) }));
for await (const _ of createInterface({ input: process.stdin })) {
  const rate = fmaRate(), cpu = process.cpuUsage(), begin = performance.now();
  await session.run(feeds);
  const wall = performance.now() - begin, used = process.cpuUsage(cpu);
  console.log(JSON.stringify(
    { wall_ms: wall, cpu_ms: (used.user + used.system) / 1e3, fma: (rate + fmaRate()) / 2 }));
}
