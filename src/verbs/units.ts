/** Quantities as people write them: 1MiB, 5us, 10Gbps. */
import { ConfigError } from './errors.ts';

/** A kind of quantity: the values of its units, and whether a number needs one. */
export interface Quantity {
  readonly units: Readonly<Record<string, number>>;
  /** Whether a number may have no unit; 0 never needs one. */
  readonly bare: boolean;
}

/** Bytes: KB is 1000, KiB is 1024. */
export const BYTES: Quantity = {
  units: { B: 1, KB: 1e3, KiB: 1024, MB: 1e6, MiB: 1024 ** 2, GB: 1e9, GiB: 1024 ** 3 },
  bare: true,
};
/** Nanoseconds. */
export const NANOSECONDS: Quantity = { units: { ns: 1, us: 1e3, ms: 1e6, s: 1e9 }, bare: false };
/** Microseconds. */
export const MICROSECONDS: Quantity = { units: { ns: 1e-3, us: 1, ms: 1e3, s: 1e6 }, bare: true };
/** Gbit/s. */
export const GBPS: Quantity = { units: { Kbps: 1e-6, Mbps: 1e-3, Gbps: 1 }, bare: false };

/** The quantity of a name that ends with a unit: chunkBytes, deadlineNs, targetUs, linkGbps. */
export function quantityOf(name: string): Quantity | undefined {
  if (name.endsWith('Bytes')) return BYTES;
  if (name.endsWith('Ns')) return NANOSECONDS;
  if (name.endsWith('Us')) return MICROSECONDS;
  return name.endsWith('Gbps') ? GBPS : undefined;
}

/**
 * The value of `text`, which is at least 0.
 * @throws ConfigError naming `what`, and the possible units
 */
export function parseQuantity(what: string, text: string, quantity: Quantity): number {
  const known = Object.keys(quantity.units).join(', ');
  const match = /^(\d+(?:\.\d+)?|\.\d+)([a-zA-Z]*)$/.exec(text);
  if (match === null) {
    throw new ConfigError(`${what}: '${text}' is not a number with one of the units ${known}`);
  }
  const value = Number(match[1]);
  const unit = match[2];
  if (unit === '') {
    if (value === 0 || quantity.bare) return value;
    throw new ConfigError(`${what}: '${text}' requires a unit; use one of ${known}`);
  }
  if (Object.hasOwn(quantity.units, unit)) return value * quantity.units[unit];
  throw new ConfigError(`${what}: unknown unit '${unit}'; use one of ${known}`);
}

/** A time in the largest unit of which it is at least one, as parseQuantity() reads it: 1s, 1.5ms, 0ns. */
export function durationText(ns: number): string {
  const [unit, value] = Object.entries(NANOSECONDS.units).findLast(([, value]) => ns >= value) ?? ['ns', 1];
  return `${ns / value}${unit}`;
}

/** The value of a whole number without a unit. @throws ConfigError */
export function parseWhole(what: string, text: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new ConfigError(`${what}: '${text}' is not a whole number`);
}

/** Returns a whole number from `min` to `max`. @throws ConfigError naming `what` */
export function requireWhole(what: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new ConfigError(`${what} must be a whole number from ${min} to ${max}, got ${value}`);
}
