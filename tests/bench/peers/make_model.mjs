// Writes a decoder of the Qwen2 family with random weights, for llama.cpp (GGUF) or onnxruntime (ONNX).
// It serves to measure cost, not quality: weights are uniform, tokens are numbers, there is no vocabulary.
//
//   node make_model.mjs gguf f32|f16|bf16|q8_0 LAYERS,HIDDEN,HEADS,KV_HEADS,INTERMEDIATE,VOCABULARY OUT
//   node make_model.mjs onnx f32|int8          LAYERS,HIDDEN,HEADS,KV_HEADS,INTERMEDIATE,VOCABULARY OUT
//
// A file is a list of parts: bytes, or a function that returns `size` bytes. So no model is held in memory.
import { closeSync, openSync, writeSync } from 'node:fs';

const [form, weights, shapeText, out] = process.argv.slice(2);
const [layers, hidden, heads, kvHeads, intermediate, vocabulary] = (shapeText ?? '').split(',').map(Number);
if (!out || !vocabulary) {
  console.error(
    'usage: make_model.mjs gguf|onnx WEIGHTS LAYERS,HIDDEN,HEADS,KV_HEADS,INTERMEDIATE,VOCABULARY OUT');
  process.exit(2);
}
const headSize = hidden / heads, kvSize = kvHeads * headSize;
const positions = 8192, ropeBase = 1e6, epsilon = 1e-6;

// ---- values ----

let state = 1;
// Their spread is 1 / sqrt(inputs), so that activations neither grow nor vanish.
function randomFloats(count, inputs) {
  const values = new Float32Array(count), scale = Math.sqrt(3 / inputs) / 2 ** 31;
  for (let i = 0; i < count; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    values[i] = state * scale;
  }
  return values;
}

const bytesOf = array => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const floatBits = new Float32Array(1), wordBits = new Uint32Array(floatBits.buffer);
function toHalf(value) {  // values too small for a normal number become 0
  floatBits[0] = value;
  const bits = wordBits[0], exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return (bits >>> 16) & 0x8000;
  return ((bits >>> 16) & 0x8000) | ((exponent << 10) + ((bits >>> 13) & 0x3ff) + ((bits >>> 12) & 1));
}

// ---- GGUF ----

const u32 = value => { const b = Buffer.alloc(4); b.writeUInt32LE(value); return b; };
const u64 = value => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(value)); return b; };
const f32 = value => { const b = Buffer.alloc(4); b.writeFloatLE(value); return b; };
const text = value => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const pad = size => Buffer.alloc((32 - size % 32) % 32);

const ggufFormats = {
  f32: { type: 0, file: 0, size: n => 4 * n, encode: bytesOf },
  f16: { type: 1, file: 1, size: n => 2 * n, encode: encodeHalves },
  bf16: { type: 30, file: 32, size: n => 2 * n, encode: encodeUpperHalves },
  q8_0: { type: 8, file: 7, size: n => n / 32 * 34, encode: encodeQ8 },
};

function encodeHalves(floats) {
  const halves = new Uint16Array(floats.length);
  for (let i = 0; i < floats.length; ++i) halves[i] = toHalf(floats[i]);
  return bytesOf(halves);
}

// bf16: the upper half of each float, rounded to nearest, ties to even.
function encodeUpperHalves(floats) {
  const words = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const halves = new Uint16Array(floats.length);
  for (let i = 0; i < floats.length; ++i)
    halves[i] = (words[i] + 0x7fff + ((words[i] >>> 16) & 1)) >>> 16;
  return bytesOf(halves);
}

// Blocks of 32: the scale as a half, then bytes.
function encodeQ8(floats) {
  const bytes = Buffer.alloc(floats.length / 32 * 34);
  for (let block = 0; block * 32 < floats.length; ++block) {
    const from = block * 32, to = block * 34;
    let most = 0;
    for (let i = 0; i < 32; ++i) most = Math.max(most, Math.abs(floats[from + i]));
    bytes.writeUInt16LE(toHalf(most / 127), to);
    for (let i = 0; i < 32; ++i) bytes[to + 2 + i] = Math.round(floats[from + i] * 127 / most);
  }
  return bytes;
}

function ggufTensors() {
  const matrix = (name, rows, columns) => ({ name, dims: [columns, rows], format: ggufFormats[weights],
    values: () => randomFloats(rows * columns, columns) });
  const constant = (name, size, value) => ({ name, dims: [size], format: ggufFormats.f32,
    values: () => new Float32Array(size).fill(value) });
  const tensors = [
    matrix('token_embd.weight', vocabulary, hidden), constant('output_norm.weight', hidden, 1)];
  for (let i = 0; i < layers; ++i) {
    const at = `blk.${i}.`;
    tensors.push(
      constant(at + 'attn_norm.weight', hidden, 1), constant(at + 'ffn_norm.weight', hidden, 1),
      matrix(at + 'attn_q.weight', hidden, hidden), constant(at + 'attn_q.bias', hidden, 0),
      matrix(at + 'attn_k.weight', kvSize, hidden), constant(at + 'attn_k.bias', kvSize, 0),
      matrix(at + 'attn_v.weight', kvSize, hidden), constant(at + 'attn_v.bias', kvSize, 0),
      matrix(at + 'attn_output.weight', hidden, hidden), matrix(at + 'ffn_gate.weight', intermediate, hidden),
      matrix(at + 'ffn_up.weight', intermediate, hidden),
      matrix(at + 'ffn_down.weight', hidden, intermediate));
  }
  return tensors;
}

function gguf() {
  const string = (key, value) => Buffer.concat([text(key), u32(8), text(value)]);
  const whole = (key, value) => Buffer.concat([text(key), u32(4), u32(value)]);
  const real = (key, value) => Buffer.concat([text(key), u32(6), f32(value)]);
  const fields = [
    string('general.architecture', 'qwen2'), string('tokenizer.ggml.model', 'no_vocab'),
    whole('general.file_type', ggufFormats[weights].file), whole('qwen2.block_count', layers),
    whole('qwen2.context_length', 32768), whole('qwen2.embedding_length', hidden),
    whole('qwen2.feed_forward_length', intermediate), whole('qwen2.attention.head_count', heads),
    whole('qwen2.attention.head_count_kv', kvHeads), whole('qwen2.vocab_size', vocabulary),
    real('qwen2.attention.layer_norm_rms_epsilon', epsilon), real('qwen2.rope.freq_base', ropeBase)];
  const infos = [], data = [];
  let offset = 0;
  for (const { name, dims, format, values } of ggufTensors()) {
    const size = format.size(dims.reduce((a, b) => a * b));
    infos.push(text(name), u32(dims.length), ...dims.map(u64), u32(format.type), u64(offset));
    data.push({ size, bytes: () => format.encode(values()) }, pad(size));
    offset += size + pad(size).length;
  }
  const counts = [u32(3), u64(data.length / 2), u64(fields.length)];
  const head = Buffer.concat([Buffer.from('GGUF'), ...counts, ...fields, ...infos]);
  return [head, pad(head.length), ...data];
}

// ---- ONNX: protocol buffers, written by hand ----

function varint(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push(value % 128 + 128);
  return Buffer.from([...bytes, value]);
}
const sizeOf = parts => parts.reduce((sum, part) => sum + (part.size ?? part.length), 0);
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const message = (field, parts) => [varint(field * 8 + 2), varint(sizeOf(parts)), ...parts];
const word = (field, value) => Buffer.concat(message(field, [Buffer.from(value)]));

const onnxTypes = { float: 1, int8: 3, int32: 6, int64: 7 };
const microsoft = 'com.microsoft';

class Graph {
  nodes = []; inputs = []; outputs = []; tensors = [];

  // `dims` are numbers, or names of dimensions that are known at run time.
  static value(field, name, type, dims) {
    const shape = dims.flatMap(dim => message(1, [typeof dim === 'number' ? number(1, dim) : word(2, dim)]));
    const tensor = message(1, [number(1, onnxTypes[type]), ...message(2, shape)]);
    return message(field, [word(1, name), ...message(2, tensor)]);
  }
  input(name, type, dims) { this.inputs.push(...Graph.value(11, name, type, dims)); return name; }
  output(name, type, dims) { this.outputs.push(...Graph.value(12, name, type, dims)); }

  tensor(name, type, dims, size, bytes) {
    const raw = message(9, [{ size, bytes }]);
    this.tensors.push(...message(
      5, [...dims.map(dim => number(1, dim)), number(2, onnxTypes[type]), word(8, name), ...raw]));
    return name;
  }
  floats(name, dims, values) {
    return this.tensor(name, 'float', dims, 4 * dims.reduce((a, b) => a * b), () => bytesOf(values()));
  }

  node(type, inputs, outputs, attributes = {}, domain = '') {
    const settings = Object.entries(attributes).flatMap(([name, value]) => message(5, [word(1, name),
      ...(typeof value === 'number' ? [number(3, value), number(20, 2)]
        : [varint(2 * 8 + 5), f32(value.real), number(20, 1)])]));
    this.nodes.push(...message(1, [
      ...inputs.map(name => word(1, name)), ...outputs.map(name => word(2, name)),
      word(4, type), ...settings, word(7, domain)]));
    return outputs[0];
  }

  parts() {
    const graph = [...this.nodes, word(2, 'decoder'), ...this.tensors, ...this.inputs, ...this.outputs];
    const opset = (domain, version) => message(8, [word(1, domain), number(2, version)]);
    return [number(1, 8), ...message(7, graph), ...opset('', 17), ...opset(microsoft, 1)];
  }
}

// x × a random matrix [inputs, outputs].
function linear(graph, x, name, inputs, outputs) {
  const count = inputs * outputs;
  if (weights === 'f32')
    return graph.node(
      'MatMul', [x, graph.floats(name, [inputs, outputs], () => randomFloats(count, inputs))], [name + '.y']);
  const scale = Math.sqrt(3 / inputs) / 127;  // for every column, because all have the same spread
  const bytes = () => {
    const values = new Int8Array(count), floats = randomFloats(count, inputs);
    for (let i = 0; i < count; ++i) values[i] = Math.round(floats[i] / scale);
    return bytesOf(values);
  };
  graph.tensor(name, 'int8', [inputs, outputs], count, bytes);
  graph.floats(name + '.scale', [outputs], () => new Float32Array(outputs).fill(scale));
  return graph.node('DynamicQuantizeMatMul', [x, name, name + '.scale'], [name + '.y'], {}, microsoft);
}

function norm(graph, x, name) {
  const ones = graph.floats(name, [hidden], () => new Float32Array(hidden).fill(1));
  return graph.node(
    'SimplifiedLayerNormalization', [x, ones], [name + '.y'], { axis: 2, epsilon: { real: epsilon } });
}

function angles(of) {
  const half = headSize / 2;
  return Float32Array.from({ length: positions * half },
    (_, i) => of(Math.floor(i / half) / ropeBase ** (2 * (i % half) / headSize)));
}

function layer(graph, x, at) {
  const normed = norm(graph, x, at + 'norm1');
  const qkv = [['wq', hidden], ['wk', kvSize], ['wv', kvSize]].map(
    ([name, size]) => linear(graph, normed, at + name, hidden, size));
  const past = ['k', 'v'].map(
    name => graph.input(at + 'past_' + name, 'float', [1, kvHeads, 'past', headSize]));
  const now = ['k', 'v'].map(name => at + 'now_' + name);
  for (const name of now) graph.output(name, 'float', [1, kvHeads, 'total', headSize]);
  const attended = graph.node('GroupQueryAttention',
    [...qkv, ...past, 'last', 'length', 'cos', 'sin', 'positions', 'mask'], [at + 'attended', ...now],
    { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1, rotary_interleaved: 0 }, microsoft);
  const middle = graph.node('Add', [x, linear(graph, attended, at + 'wo', hidden, hidden)], [at + 'middle']);
  const inner = norm(graph, middle, at + 'norm2');
  const gateInput = linear(graph, inner, at + 'wg', hidden, intermediate);
  const gate = graph.node('QuickGelu', [gateInput], [at + 'gate'], { alpha: { real: 1 } }, microsoft);
  const up = linear(graph, inner, at + 'wu', hidden, intermediate);
  const product = graph.node('Mul', [gate, up], [at + 'product']);
  return graph.node('Add', [middle, linear(graph, product, at + 'wd', intermediate, hidden)], [at + 'end']);
}

// Keys and values of a past are inputs and outputs. `mask` is added to the attention scores, so that one run
// computes many independent candidates. Logits are computed for the requested rows only.
function onnx() {
  const graph = new Graph();
  graph.input('tokens', 'int64', [1, 'tokens']);
  graph.input('positions', 'int64', [1, 'tokens']);
  graph.input('mask', 'float', [1, 1, 'tokens', 'total']);
  graph.input('last', 'int32', [1]);    // the length - 1
  graph.input('length', 'int32', [1]);  // length of past and tokens
  graph.input('rows', 'int64', ['rows']);
  graph.floats('cos', [positions, headSize / 2], () => angles(Math.cos));
  graph.floats('sin', [positions, headSize / 2], () => angles(Math.sin));
  const table = graph.floats(
    'embedding', [vocabulary, hidden], () => randomFloats(vocabulary * hidden, hidden));
  let x = graph.node('Gather', [table, 'tokens'], ['embedded']);
  for (let i = 0; i < layers; ++i) x = layer(graph, x, `layer${i}.`);
  const picked = graph.node('Gather', [norm(graph, x, 'norm'), 'rows'], ['picked'], { axis: 1 });
  graph.tensor('flat', 'int64', [2], 16, () => bytesOf(BigInt64Array.of(-1n, BigInt(hidden))));
  const y = linear(graph, graph.node('Reshape', [picked, 'flat'], ['states']), 'output', hidden, vocabulary);
  graph.node('Identity', [y], ['logits']);
  graph.output('logits', 'float', ['rows', vocabulary]);
  return graph.parts();
}

// ---- the file ----

const file = openSync(out, 'w');
for (const part of form === 'gguf' ? gguf() : onnx()) {
  const bytes = part.bytes ? part.bytes() : part;
  if (part.size !== undefined && bytes.length !== part.size)
    throw new Error(`a part has ${bytes.length} bytes; expected ${part.size}`);
  for (let at = 0; at < bytes.length; )
    at += writeSync(file, bytes, at, Math.min(bytes.length - at, 1 << 30));
}
closeSync(file);
