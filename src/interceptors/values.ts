/** Arguments and results of verbs as JSON, with what JSON does not know. */

/** JSON of a value of the seam: bigint, bytes and numbers that are not finite are tagged; memory is its length. */
export function toJson(value: unknown): string {
  // Not the second argument: a Buffer's toJSON would have been called on it.
  function replacer(this: Record<string, unknown>, key: string): unknown {
    return tagValue(this[key]);
  }
  return JSON.stringify(value, replacer) ?? 'null';
}

function tagValue(value: unknown): unknown {
  if (typeof value === 'bigint') return { $bigint: String(value) };
  if (typeof value === 'function') return { $function: true };
  if (typeof value === 'number' && !Number.isFinite(value)) return { $number: String(value) };
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) {
    return { $memory: value.byteLength };
  }
  if (ArrayBuffer.isView(value)) {
    return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') };
  }
  return value;
}

/** What toJson wrote; functions and memory stay tagged. */
export function fromJson(text: string): unknown {
  return JSON.parse(text, (_key, part) => {
    if (typeof part !== 'object' || part === null) return part;
    if (typeof part.$bigint === 'string') return BigInt(part.$bigint);
    if (typeof part.$number === 'string') return Number(part.$number);
    if (typeof part.$bytes === 'string') return new Uint8Array(Buffer.from(part.$bytes, 'base64'));
    return part;
  });
}
