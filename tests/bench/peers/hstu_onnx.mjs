// Runs onnxruntime on an HSTU that hstu_torch.py exported, with one pass for each line of input.
//
//   node hstu_onnx.mjs INSTALLED FOLDER THREADS
//
// INSTALLED: where setup.sh installed the peers. FOLDER: model.onnx, and inputs.json, which describes the
// file of each input.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [installed, folder, threads] = process.argv.slice(2);
const ort = createRequire(installed + '/npm/node_modules/')('onnxruntime-node');
const session = await ort.InferenceSession.create(folder + '/model.onnx', {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1,
  executionMode: 'sequential', graphOptimizationLevel: 'all',
  logSeverityLevel: 3, extra: { session: { intra_op: { allow_spinning: '0' } } } });

const feeds = {};
for (const { name, type, shape } of JSON.parse(readFileSync(folder + '/inputs.json'))) {
  const bytes = readFileSync(`${folder}/${name}.bin`);
  const values = type === 'int64' ? new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8)
                                  : new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  feeds[name] = new ort.Tensor(type, values, shape);
}
console.log('{}');
for await (const _ of createInterface({ input: process.stdin })) {
  const cpu = process.cpuUsage();
  const { logits } = await session.run(feeds);
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify(
    { cpu_ms: (used.user + used.system) / 1e3, logits: [logits.data[0], logits.data[1]] }));
}
