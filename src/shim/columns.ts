/** Typed columns of policies, one element for each queue pair by its index. */

/** The column itself if it has a place for `index`, else a wider copy. */
export function withPlace<T extends Uint8Array | Float64Array>(column: T, index: number): T {
  if (index < column.length) return column;
  const Column = column.constructor as new (length: number) => T;
  const wider = new Column(Math.max(index + 1, column.length * 2));
  wider.set(column);
  return wider;
}
