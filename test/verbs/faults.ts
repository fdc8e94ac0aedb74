/** Wrong values for each type of argument. */
import type * as V from '../../src/verbs/index.ts';
import type { World } from './world.ts';

/** A wrong value, and the error codes that may result. */
export interface Fault {
  what: string;
  value: unknown;
  codes: readonly V.ErrorCode[];
}

/** A type of argument: creates a valid value and the wrong ones. */
export interface Arg {
  name: string;
  good(world: World): unknown;
  faults(world: World): Fault[];
}

const ARGUMENT = ['ISO_ERR_ARGUMENT'] as const;
const HANDLE = ['ISO_ERR_HANDLE'] as const;

const NO_NUMBERS: readonly [string, unknown][] = [
  ['undefined', undefined],
  ['null', null],
  ['a string', '1'],
  ['an object', {}],
  ['NaN', Number.NaN],
  ['a fraction', 1.5],
  ['a bigint', 1n],
  ['infinity', Number.POSITIVE_INFINITY],
  ['an object without a prototype', Object.create(null)],
  ['a symbol', Symbol('x')],
];

/** A handle of an object of the world; with `optional`, 0 is valid. */
export function handle(kind: keyof World['live'], options: { optional?: boolean } = {}): Arg {
  const { optional = false } = options;
  return {
    name: kind,
    good: (world) => world.live[kind],
    faults(world) {
      const other = kind === 'pd' ? world.live.cq : world.live.pd;
      const wrong: [string, unknown][] = [
        ...NO_NUMBERS.filter(([what]) => !optional || (what !== 'undefined' && what !== 'null')),
        ['a negative number', -1],
        ['a number that is no handle', 12345],
        ['a number beyond all handles', 2 ** 40],
        ['a handle of another kind', other],
        ['a closed handle', world.closed(kind)],
        ...(optional ? [] : ([['zero', 0]] as [string, unknown][])),
      ];
      return wrong.map(([what, value]) => ({ what, value, codes: HANDLE }));
    },
  };
}

/** An integer. `past`: error codes for values beyond the range (exceeding a device's limit is not a wrong argument). */
export function whole(
  name: string,
  good: number | ((world: World) => number),
  range: { min?: number; max?: number; past?: readonly V.ErrorCode[]; optional?: boolean } = {},
): Arg {
  const { min = 0, max, past = ARGUMENT, optional = false } = range;
  const wrong = NO_NUMBERS.filter(([what]) => !optional || what !== 'undefined');
  return {
    name,
    good: (world) => (typeof good === 'number' ? good : good(world)),
    faults: () => [
      ...wrong.map(([what, value]) => ({ what, value, codes: ARGUMENT })),
      { what: `below ${min}`, value: min - 1, codes: ARGUMENT },
      ...(max === undefined ? [] : [{ what: `beyond ${max}`, value: max + 1, codes: past }]),
    ],
  };
}

/** A value of a JavaScript type; `wrong` values have another type. */
export function typed(name: string, good: (world: World) => unknown, ...wrong: [string, unknown][]): Arg {
  return { name, good, faults: () => wrong.map(([what, value]) => ({ what, value, codes: ARGUMENT })) };
}

export const NOT_OBJECTS: [string, unknown][] = [
  ['undefined', undefined],
  ['null', null],
  ['a number', 7],
  ['a string', 'x'],
];

export const NOT_FUNCTIONS: [string, unknown][] = [
  ['undefined', undefined],
  ['a number', 7],
  ['an object', {}],
];

/** An attribute struct: each field is wrong in turn, and then the struct itself. */
export function struct(
  name: string,
  good: (world: World) => Record<string, unknown>,
  fields: Arg[],
  options: { optional?: boolean } = {},
): Arg {
  const wrong = NOT_OBJECTS.filter(([what]) => !options.optional || what !== 'undefined');
  return {
    name,
    good,
    faults(world) {
      const whole = wrong.map(([what, value]): Fault => ({ what, value, codes: ARGUMENT }));
      const parts = fields.flatMap((field) =>
        field.faults(world).map((fault) => ({
          what: `${field.name} is ${fault.what}`,
          value: { ...good(world), [field.name]: fault.value },
          codes: fault.codes,
        })),
      );
      return [...whole, ...parts];
    },
  };
}
