/** Checks whether a program's memory can be registered. */
import { InvalidArgumentError, MemoryError } from '../verbs/errors.ts';

/** Memory that pd.register() accepts. */
export type Registrable = ArrayBuffer | SharedArrayBuffer | ArrayBufferView;

/** Part of a buffer. */
export interface RangeOptions {
  /** Start of the region, relative to the buffer or view. Default 0. */
  byteOffset?: number;
  /** Length of the region. Default: up to the end. */
  lengthBytes?: number;
}

interface Range {
  memory: ArrayBuffer | SharedArrayBuffer;
  byteOffset: number;
  lengthBytes: number;
}

/** Resolves and checks the range of bytes. @throws MemoryError, InvalidArgumentError */
export function rangeOf(verb: string, source: Registrable, options: RangeOptions): Range {
  const view = ArrayBuffer.isView(source);
  const memory = view ? source.buffer : source;
  if (!(memory instanceof ArrayBuffer) && !(memory instanceof SharedArrayBuffer)) {
    throw new InvalidArgumentError(`${verb} takes an ArrayBuffer, a SharedArrayBuffer or a view of one`);
  }
  refuseUnstable(source, memory);
  const start = view ? source.byteOffset : 0;
  const { byteOffset = 0, lengthBytes = source.byteLength - byteOffset } = options;
  const good = Number.isSafeInteger(byteOffset) && Number.isSafeInteger(lengthBytes);
  if (!good || byteOffset < 0 || lengthBytes <= 0 || byteOffset + lengthBytes > source.byteLength) {
    throw new InvalidArgumentError(
      `${verb}: byteOffset ${byteOffset} and lengthBytes ${lengthBytes} exceed the ` +
        `${source.byteLength} bytes of the buffer`,
    );
  }
  return { memory, byteOffset: start + byteOffset, lengthBytes };
}

function refuseUnstable(source: Registrable, memory: ArrayBuffer | SharedArrayBuffer): void {
  if (Buffer.isBuffer(source) && source.byteLength !== memory.byteLength) {
    throw new MemoryError(
      'this Buffer is a slice of a larger buffer (Node.js allocates small ones from a shared pool); ' +
        'use pd.allocate(), Buffer.alloc() or a SharedArrayBuffer',
    );
  }
  const flexible = memory as { resizable?: boolean; growable?: boolean };
  if (flexible.resizable || flexible.growable) {
    throw new MemoryError(
      'a resizable or growable buffer cannot be registered because it may move; create it without maxByteLength',
    );
  }
  if (memory.byteLength === 0) {
    throw new MemoryError('the buffer is empty or detached; register a buffer with at least one byte');
  }
}
