// The binary form of a run: magic number, length of the header, header (JSON), arrays. Written by payload.py.

const MAGIC = 0x3150534d; // "MSP1", little-endian
const TYPES = { f4: Float32Array, u1: Uint8Array, i4: Int32Array, u2: Uint16Array };

/** A run from its bytes: the header's fields, and typed arrays under their names. */
export function decode(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0, true) !== MAGIC) throw new Error("These bytes are not a run of metastable.");
  const length = view.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  for (const [name, { type, shape, at }] of Object.entries(header.arrays)) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new TYPES[type](buffer, 8 + length + at, count);
  }
  return { ...header, ...arrays, shapes: header.arrays };
}

/** Bytes from base64 text of gzip-compressed data, as exported pages hold them. */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
