/** The mixtures of docs/systems.md, as options of `isoverbs compare`, and the figures for which each system was built. */
const D = 'D:size=16,think=1us';
const THREE = ['B:size=1MiB', 'M:size=16', D];
const LONG = ['--duration', '10ms', '--warmup', '2ms'];
/** With 1,000 B, a run of 10 ms takes a minute. */
const SHORT = ['--duration', '4ms', '--warmup', '1ms'];
const PROFILES = ['minimal', 'cx3-56g', 'cx4-40g', 'cx5-40g', 'cx5-100g', 'cx6-100g', 'rxe'];

/** @param {string[]} words */
const apps = (...words) => words.flatMap((word) => ['--app', word]);
/**
 * @param {string} name
 * @param {string[]} words
 * @param {string[]} more
 */
const column = (name, words, times = LONG, more = []) => ({
  name,
  words: [...more, ...times, ...apps(...words)],
});

export const COLUMNS = [
  {
    title: 'Mixtures',
    explains:
      'One tenant of each kind on cx6-100g. B sends messages of 1 MiB, M of 16 bytes, and D of 16 bytes, one at a time. The\n' +
      'last two mixtures use SENDs and READs, the others WRITEs.',
    columns: [
      column('B + D', [THREE[0], D]),
      column('B + M', THREE.slice(0, 2)),
      column('B + M + D', THREE),
      column(
        'SEND',
        THREE.map((word) => `${word},op=send`),
      ),
      column(
        'READ',
        THREE.map((word) => `${word},op=read`),
      ),
    ],
  },
  {
    title: 'Tenants',
    explains: 'One M and one D next to several tenants B, whose rates are added up.',
    columns: [2, 4, 16, 1000].map((count) =>
      column(
        `${count} B + M + D`,
        [`B:size=1MiB,count=${count}`, ...THREE.slice(1)],
        count > 16 ? SHORT : LONG,
      ),
    ),
  },
  {
    title: 'Networks',
    explains:
      'With DCQCN. Incast: 32 hosts with B and one with D send to one host over links of 10 Gbit/s. Two racks: two hosts with\n' +
      'B share the trunk of a dumbbell, and D runs on one of them. DCQCN alone leaves much of the trunk idle.',
    columns: [
      column(
        'incast',
        ['B:count=32,host=0-31,to=33', 'D:think=1us,host=32,to=33'],
        ['--duration', '40ms', '--warmup', '20ms'],
        ['--profile', 'cx3-56g', '--hosts', '34', '--set', 'linkGbps=10', '--set', 'congestionControl=dcqcn'],
      ),
      column(
        'two racks',
        ['B:count=2,host=0-1,to=3-4', 'D:think=1us,host=0,to=3'],
        ['--duration', '20ms', '--warmup', '10ms'],
        ['--hosts', '6', '--topology', 'dumbbell', '--set', 'congestionControl=dcqcn'],
      ),
    ],
  },
  {
    title: 'Profiles',
    explains: 'B + M + D on the other profiles.',
    columns: PROFILES.filter((profile) => profile !== 'cx6-100g').map((profile) =>
      column(profile, THREE, profile === 'rxe' ? ['--duration', '60ms', '--warmup', '10ms'] : LONG, [
        '--profile',
        profile,
      ]),
    ),
  },
];

/**
 * @typedef {Record<'throughputGbps' | 'messageRateMmps' | 'avgUs' | 'p99Us', number>} Measured
 * @typedef {{ apps: Measured[] }} Row
 */

/**
 * @param {number} app
 * @param {keyof Measured} metric
 */
const of = (app, metric) => (/** @type {Row} */ row) => row.apps[app][metric];
const WIRE = (4096 + 98) / 4096;

/**
 * @typedef {object} OwnFigure
 * @property {string} system
 * @property {string} [options]
 * @property {string} [fairOptions]
 * @property {string} figure
 * @property {string[]} words
 * @property {(row: Row) => number} read
 * @property {boolean} [isHigherBetter]
 */

/**
 * `read` returns the figure from the row of a policy. `options` follow the name of the system, `fairOptions` that of fair.
 * @type {OwnFigure[]}
 */
export const OWN_FIGURES = [
  {
    system: 'perf',
    figure: 'D next to B: average latency, us',
    words: column('', [THREE[0], D]).words,
    read: of(1, 'avgUs'),
  },
  {
    system: 'perf',
    figure: 'M next to B and D, M/s',
    words: column('', THREE).words,
    read: of(1, 'messageRateMmps'),
    isHigherBetter: true,
  },
  {
    system: 'justitia',
    figure: 'D next to 8 B: 99th percentile of latency, us',
    words: column('', ['B:size=1MiB,count=8', D]).words,
    read: of(1, 'p99Us'),
  },
  {
    system: 'palos',
    figure:
      'two tenants with weights 1 and 2, and 4 and 16 queue pairs: 1 minus the relative error of the ratio of their rates',
    words: column('', ['B:size=1MiB,name=a,qps=4,weight=1', 'B:size=1MiB,name=b,qps=16,weight=2']).words,
    read: ({ apps: [a, b] }) => 1 - Math.abs(b.throughputGbps / a.throughputGbps / 2 - 1),
    isHigherBetter: true,
  },
  {
    system: 'palos',
    figure: 'D next to these two tenants: average latency, us',
    words: column('', ['B:size=1MiB,name=a,qps=4,weight=1', 'B:size=1MiB,name=b,qps=16,weight=2', D]).words,
    read: of(2, 'avgUs'),
  },
  {
    system: 'tassel',
    options: ':ratesGbps=a:10/b:30',
    fairOptions: ':ratesGbps=a:10/b:30',
    figure:
      'tenants with rates of 10 and 30 Gbit/s next to a third: 1 minus the larger relative error of their rates',
    words: column('', ['B:size=1MiB,name=a', 'B:size=1MiB,name=b,qps=4', 'B:size=1MiB,name=c']).words,
    read: ({ apps: [a, b] }) =>
      Math.min(
        ...[(a.throughputGbps * WIRE) / 10, (b.throughputGbps * WIRE) / 30].map(
          (part) => 1 - Math.abs(part - 1),
        ),
      ),
    isHigherBetter: true,
  },
  {
    system: 'drum',
    options: ':topK=20,epochUs=100',
    figure: '64 tenants while the cache has room for 20 contexts: messages of all tenants, M/s',
    words: column('', ['M:size=16,count=64'], LONG, ['--profile', 'cx5-100g', '--set', 'qpcEntries=20'])
      .words,
    read: of(0, 'messageRateMmps'),
    isHigherBetter: true,
  },
  {
    system: 'drum',
    figure:
      'three tenants with weights 1, 2 and 4, and 64 queue pairs each: smallest part of their share that the last two get',
    words: column(
      '',
      [1, 2, 4].map((weight) => `M:size=16,name=w${weight},qps=64,weight=${weight}`),
    ).words,
    read: ({ apps: [a, b, c] }) => {
      const sum = a.messageRateMmps + b.messageRateMmps + c.messageRateMmps;
      return Math.min(1, (7 * b.messageRateMmps) / (2 * sum), (7 * c.messageRateMmps) / (4 * sum));
    },
    isHigherBetter: true,
  },
];
