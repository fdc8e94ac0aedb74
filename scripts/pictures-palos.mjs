/**
 * Draws docs/pictures/palos-turns.svg: the packets of four queue pairs on the wire, under both forms of Palos and on the
 * bare device. Requires a build.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const FOLDER = 'out/pictures';
const PICTURE = new URL('../docs/pictures/palos-turns.svg', import.meta.url);
const DEVICE = ['--profile', 'cx5-100g', '--set', 'mtuBytes=1500', '--set', 'pcieGbps=128'];
/** Queue pairs of one group: name, the application and what the picture says of it. */
const QUEUE_PAIRS = [
  { name: 'a', app: 'B:size=2MB,qpWeight=2', says: 'a: 2 MB, weight 2' },
  { name: 'b', app: 'B:size=2MB', says: 'b: 2 MB, weight 1' },
  { name: 'c', app: 'M:size=1500', says: 'c: 1500 B, weight 1' },
  { name: 'd', app: 'D:size=64,think=3us,kind=latency', says: 'd: 64 B, latency' },
];
/** With sums over the active queue pairs, the chunks do not depend on d, which is idle most of the time. */
const FORMS = [
  { name: 'bare', says: 'Bare: one packet of each queue pair in turn', options: [] },
  {
    name: 'nic',
    says: 'In the NIC: chunks of 3000 and 1500 B',
    options: ['--set', 'scheduler=palos', '--set', 'palosChunkBytes=2000', '--set', 'palosSums=active'],
  },
  {
    name: 'policy',
    says: 'As a policy: chunks of 9000 and 4500 B, in pieces of 3000 B and rows of messages',
    options: ['--policy', 'palos:sums=active'],
  },
];
const FROM_NS = 300_000;
const SHOWN_NS = 6000;

const LEFT = 150;
const WIDTH = 860;
const LANE = 22;
const STYLE = `
text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; } .page { fill: #ffffff; } .lane { stroke: #b8c0c8; }
.a { fill: #0072b2; } .b { fill: #56b4e9; } .c { fill: #e69f00; } .d { fill: #d55e00; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .page { fill: #0d1117; } .lane { stroke: #484f58; } }
`;

/**
 * The packets of a form within the time that is shown: when the first and the last bit leave, from the begin of the picture.
 * @param {{ name: string, options: readonly string[] }} form
 */
function packetsOf({ name, options }) {
  /** @param {string} qp */
  const file = (qp) => `${FOLDER}/palos-${name}-${qp}.json`;
  const apps = QUEUE_PAIRS.flatMap(({ name: qp, app }) => [
    ...['--app', `${app},name=${qp},tenant=t,group=g`],
    ...['--departures', `${qp}=${file(qp)}`],
  ]);
  const times = ['--duration', '400us', '--warmup', '0', '--seed', '1'];
  execFileSync(process.execPath, ['dist/cli/main.js', 'mix', ...DEVICE, ...options, ...apps, ...times]);
  return QUEUE_PAIRS.map(({ name: qp }) => {
    /** @type {{ leftNs: number, wireBytes: number }[]} */
    const packets = JSON.parse(readFileSync(file(qp), 'utf8'));
    return packets
      .map(({ leftNs, wireBytes }) => ({
        toNs: leftNs - FROM_NS,
        fromNs: leftNs - FROM_NS - wireBytes / 12.5,
      }))
      .filter(({ fromNs, toNs }) => fromNs >= 0 && toNs <= SHOWN_NS);
  });
}

/** @param {number} ns */
const x = (ns) => Number((LEFT + (ns / SHOWN_NS) * (WIDTH - LEFT - 20)).toFixed(1));

/** @param {{ name: string, says: string, options: readonly string[] }} form @param {number} top */
function panel(form, top) {
  const parts = [`<text x="20" y="${top + 14}" class="title">${form.says}</text>`];
  for (const [i, packets] of packetsOf(form).entries()) {
    const { name, says } = QUEUE_PAIRS[i];
    const y = top + 24 + i * LANE;
    parts.push(
      `<text x="20" y="${y + 14}">${says}</text>`,
      `<line x1="${LEFT}" y1="${y + 18}" x2="${WIDTH - 20}" y2="${y + 18}" class="lane"/>`,
    );
    for (const { fromNs, toNs } of packets) {
      // A gap between packets, and no packet narrower than a pixel.
      const width = Math.max(1.2, x(toNs) - x(fromNs) - 1).toFixed(1);
      parts.push(`<rect x="${x(fromNs)}" y="${y + 4}" width="${width}" height="14" class="${name}"/>`);
    }
  }
  return parts;
}

mkdirSync(FOLDER, { recursive: true });
const HEIGHT = 24 + QUEUE_PAIRS.length * LANE + 16;
const bottom = FORMS.length * HEIGHT + 10;
const ticks = Array.from({ length: SHOWN_NS / 1000 + 1 }, (_, us) => {
  const words = us === 0 ? '0' : `${us} us`;
  return `<text x="${x(us * 1000)}" y="${bottom + 10}" text-anchor="middle">${words}</text>`;
});
writeFileSync(
  PICTURE,
  `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${bottom + 24}" viewBox="0 0 ${WIDTH} ${bottom + 24}" role="img" aria-label="Packets on the wire">
<style>${STYLE}</style>
<rect width="${WIDTH}" height="${bottom + 24}" class="page"/>
${[...FORMS.flatMap((form, i) => panel(form, 8 + i * HEIGHT)), ...ticks].join('\n')}
</svg>
`,
);
