/**
 * The attackers and victims of Husky's test suite (Kong et al., "Understanding RDMA Microarchitecture Resources for
 * Performance Isolation", NSDI 2023), as applications of a mixture. The victim sends from host 0 to host 1. `qps` counts
 * the queue pairs of all processes of an application; each process has a context and a core.
 */
import { type MixApp, mixApp } from '../../mix/mixture.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { didYouMean } from '../../verbs/suggestions.ts';

/** What an attacker exhausts: the classes of Husky, table 3. */
export const CLASSES = ['bandwidth', 'pcie', 'pu', 'cache'] as const;
export type AttackerClass = (typeof CLASSES)[number];

/** One attacker or victim: a form of a test, such as its READs. */
export interface Test {
  /** The name in Husky's configuration, a slash, and what tells its forms apart: `BW-1MB/write`. */
  readonly name: string;
  readonly app: MixApp;
}

export interface Attacker extends Test {
  readonly class: AttackerClass;
}

/** One form, and the keys of its application. */
type Form = readonly [form: string, keys: string];

const OPS: readonly Form[] = ['write', 'send', 'read'].map((op) => [op, `op=${op}`]);

/** The same test with each of these forms. */
function tests(name: string, app: string, forms: readonly Form[] = OPS): Test[] {
  return forms.map(([form, keys]) => ({ name: `${name}/${form}`, app: mixApp(`${app},${keys}`) }));
}

/** `processes`, each with `qps` queue pairs, a context and a core. */
const processes = (count: number, qps: number) => `qps=${count * qps},contexts=${count},cores=${count}`;

/** Every form with each of these. */
const crossed = (forms: readonly Form[], with_: readonly Form[]): Form[] =>
  forms.flatMap(([form, keys]) => with_.map(([more, rest]): Form => [`${form}-${more}`, `${keys},${rest}`]));

const TE_SIZES: readonly Form[] = [
  ['512', 'size=512'],
  ['4096', 'size=4096'],
];

/** The 21 victims. */
export const VICTIM_TESTS: readonly Test[] = [
  ...tests('large_bw', `B:size=64KiB,batch=128,depth=128,${processes(1, 1)}`),
  ...tests('small_tput', `M:size=8,batch=16,depth=128,${processes(8, 16)}`),
  ...tests('mtu_tput', `B:size=4096,batch=16,depth=128,${processes(4, 16)}`),
  ...tests('te_many_qp', `M:batch=1,depth=1,${processes(6, 16)}`, crossed(OPS, TE_SIZES)),
  ...tests(
    'te_many_mr',
    `M:batch=1,depth=1,${processes(16, 6)},regions=16,regionSize=64KiB,buffers=16`,
    crossed(OPS, TE_SIZES),
  ),
];

/** From the victim's sender, and from its receiver. */
const DIRECTIONS: readonly Form[] = [
  ['forward', 'host=0,to=1'],
  ['backward', 'host=1,to=0'],
];
/** At the victim's sender, and at its receiver. */
const PLACES: readonly Form[] = [
  ['sender', 'host=0'],
  ['receiver', 'host=1'],
];

const ofClass = (name: AttackerClass, all: readonly Test[]): Attacker[] =>
  all.map((test) => ({ ...test, class: name }));

const BANDWIDTH: readonly Test[] = [
  ...tests('BW-1MB', `B:size=1MiB,batch=128,depth=128,${processes(1, 16)}`),
  ...tests('BW-4KB', `B:size=4096,batch=128,depth=128,${processes(4, 16)}`),
];

const PCIE: readonly Test[] = [
  ...tests('PCIe-size', `M:batch=1,depth=1024,${processes(6, 16)}`, [
    ['257', 'size=257'],
    ['129', 'size=129'],
  ]),
  ...tests('PCIe-loopback', `B:size=1MiB,batch=1,depth=128,${processes(1, 8)}`, [
    ['sender', 'host=0,to=0'],
    ['receiver', 'host=1,to=1'],
  ]),
];

const UNITS: readonly Test[] = [
  ...tests('PU-RNR', 'B:op=send,size=4096,batch=1,depth=1,qps=1,receives=none', [
    ['rc-longest', 'rnrTimer=longest'],
    ['rc-shortest', 'rnrTimer=shortest'],
    ['uc', 'transport=uc'],
    ['ud', 'transport=ud'],
  ]),
  ...tests(
    'PU-request',
    `M:size=8,batch=8,depth=128,${processes(8, 8)}`,
    crossed([...OPS, ['cas', 'op=cas'], ['fetch_add', 'op=atomic']], DIRECTIONS),
  ),
];

const CACHES: readonly Test[] = [
  ...tests('Cache-QPC', `M:size=512,batch=1,depth=128,${processes(16, 32)}`),
  ...tests(
    'Cache-access_mr',
    `B:batch=1,depth=128,${processes(4, 1)}`,
    crossed(
      [
        ['4096x512B', 'regions=4096,size=512'],
        ['1x1GiB', 'regions=1,size=1GiB'],
        ['1024x1MiB', 'regions=1024,size=1MiB'],
      ],
      OPS,
    ),
  ),
  ...tests(
    'Cache-ctrl',
    `B:op=register,${processes(6, 1)}`,
    crossed(
      crossed(
        [
          ['4096x1KiB', 'regions=4096,size=1KiB'],
          ['1024x1MiB', 'regions=1024,size=1MiB'],
          ['1x1GiB', 'regions=1,size=1GiB'],
        ],
        [
          ['one', 'pds=one'],
          ['each', 'pds=each'],
        ],
      ),
      PLACES,
    ),
  ),
  ...tests('Cache-recvwqe', `B:batch=64,depth=1024,${processes(4, 8)}`, [
    ...['ud', 'uc', 'rc'].map((name): Form => [name, `op=send,size=4096,receives=1024,transport=${name}`]),
    ['read', 'op=read,size=16KiB'],
  ]),
];

/** The 52 attackers. */
export const ATTACKERS: readonly Attacker[] = [
  ...ofClass('bandwidth', BANDWIDTH),
  ...ofClass('pcie', PCIE),
  ...ofClass('pu', UNITS),
  ...ofClass('cache', CACHES),
];

/** Whether a word on the command line means this test: its name, or its name without the form. */
const means = (word: string, { name }: Test) => word === name || name.startsWith(`${word}/`);

/**
 * The attackers that these words name: a class, a test (`BW-1MB`), or one form of it (`BW-1MB/read`). Default: all.
 * @throws ConfigError
 */
export function attackersOf(words: readonly string[] | undefined): readonly Attacker[] {
  return chosen('attacker', ATTACKERS, words, (word, one) => word === one.class || means(word, one), CLASSES);
}

/** The victims that these words name: a test (`te_many_qp`), or one form of it. Default: all. @throws ConfigError */
export function victimsOf(words: readonly string[] | undefined): readonly Test[] {
  return chosen('victim', VICTIM_TESTS, words, means, []);
}

function chosen<T extends Test>(
  what: string,
  all: readonly T[],
  words: readonly string[] | undefined,
  isMeant: (word: string, one: T) => boolean,
  more: readonly string[],
): readonly T[] {
  if (words === undefined) return all;
  for (const word of words) {
    if (all.some((one) => isMeant(word, one))) continue;
    const names = [...more, ...new Set(all.map(({ name }) => name.slice(0, name.indexOf('/'))))];
    const forms = all.map(({ name }) => name);
    throw new ConfigError(
      `unknown ${what} '${word}'; ${didYouMean(word, [...names, ...forms])}available: ${names.join(', ')}, or a form such as ${forms[0]}`,
    );
  }
  return all.filter((one) => words.some((word) => isMeant(word, one)));
}
