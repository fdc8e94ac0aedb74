/** Arguments and results of verbs as JSON, with tags for the types that JSON lacks. */

/** Converts a value to JSON. Bigints, bytes and non-finite numbers are tagged; of memory, only the length is kept. */
export function toJson(value: unknown): string {
  // The second argument would already be the result of a Buffer's toJSON().
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

/** Parses the output of toJson(). Functions and memory stay tagged. */
export function fromJson(text: string): unknown {
  return JSON.parse(text, (_key, part) => {
    if (typeof part !== 'object' || part === null) return part;
    if (typeof part.$bigint === 'string') return BigInt(part.$bigint);
    if (typeof part.$number === 'string') return Number(part.$number);
    if (typeof part.$bytes === 'string') return new Uint8Array(Buffer.from(part.$bytes, 'base64'));
    return part;
  });
}
