/** Draws the packets of queue pairs on the wire, a lane each, in several runs of one mixture. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const FOLDER = 'out/pictures';
const WIDTH = 860;
const LANE = 22;
const STYLE = `
text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; } .page { fill: #ffffff; } .lane { stroke: #b8c0c8; }
.q0 { fill: #0072b2; } .q1 { fill: #56b4e9; } .q2 { fill: #e69f00; } .q3 { fill: #d55e00; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .page { fill: #0d1117; } .lane { stroke: #484f58; } }
`;

/**
 * @typedef {object} Lanes
 * @property {URL} picture the file to write
 * @property {string} name of the files of departures in out/pictures
 * @property {readonly { name: string, app: string, says: string, qps?: number }[]} queuePairs `app`: without its name;
 * `says`: what the picture calls it; `qps`: of the application, which share a lane (default 1)
 * @property {readonly { name: string, says: string, options?: readonly string[], packets?: readonly Packet[][] }[]} forms
 * the runs; `packets`: of each lane, instead of a run of `isoverbs mix`
 * @property {readonly string[]} options of all runs
 * @property {number} fromNs the first moment of the picture
 * @property {number} shownNs
 * @property {number} left where the lanes begin, in pixels
 * @property {number} [stepNs] between two labels of the time (default 1 us)
 */

/** When the first and the last bit leave. @typedef {{ fromNs: number, toNs: number }} Packet */

/**
 * The packets of a form within the time that is shown: when the first and the last bit leave, from the begin of the picture.
 * @param {Lanes} lanes @param {Lanes['forms'][number]} form
 */
function packetsOf({ name: base, queuePairs, options, fromNs, shownNs }, form) {
  /** @param {string} qp */
  const file = (qp) => `${FOLDER}/${base}-${form.name}-${qp.replace('#', '-')}.json`;
  const qps = queuePairs.map(({ name, qps = 1 }) => Array.from({ length: qps }, (_, i) => `${name}#${i}`));
  const apps = queuePairs.flatMap(({ name, app }) => ['--app', `${app},name=${name}`]);
  const departures = qps.flat().flatMap((qp) => ['--departures', `${qp}=${file(qp)}`]);
  const times = ['--duration', `${(fromNs + 2 * shownNs) / 1000}us`, '--warmup', '0', '--seed', '1'];
  const args = ['mix', ...options, ...(form.options ?? []), ...apps, ...departures, ...times];
  execFileSync(process.execPath, ['dist/cli/main.js', ...args]);
  return qps.map((names) =>
    names.flatMap((qp) => {
      /** @type {{ leftNs: number, wireBytes: number }[]} */
      const packets = JSON.parse(readFileSync(file(qp), 'utf8'));
      return packets
        .map(({ leftNs, wireBytes }) => ({
          toNs: leftNs - fromNs,
          fromNs: leftNs - fromNs - wireBytes / 12.5,
        }))
        .filter((packet) => packet.fromNs >= 0 && packet.toNs <= shownNs);
    }),
  );
}

/** @param {Lanes} lanes @param {number} ns */
const x = ({ left, shownNs }, ns) => Number((left + (ns / shownNs) * (WIDTH - left - 20)).toFixed(1));

/** @param {Lanes} lanes @param {Lanes['forms'][number]} form @param {number} top */
function panel(lanes, form, top) {
  const parts = [`<text x="20" y="${top + 14}" class="title">${form.says}</text>`];
  for (const [i, packets] of (form.packets ?? packetsOf(lanes, form)).entries()) {
    const y = top + 24 + i * LANE;
    parts.push(
      `<text x="20" y="${y + 14}">${lanes.queuePairs[i].says}</text>`,
      `<line x1="${lanes.left}" y1="${y + 18}" x2="${WIDTH - 20}" y2="${y + 18}" class="lane"/>`,
    );
    for (const { fromNs, toNs } of packets) {
      // A gap between packets, and no packet narrower than a pixel.
      const width = Math.max(1.2, x(lanes, toNs) - x(lanes, fromNs) - 1).toFixed(1);
      parts.push(`<rect x="${x(lanes, fromNs)}" y="${y + 4}" width="${width}" height="14" class="q${i}"/>`);
    }
  }
  return parts;
}

/** Runs the mixtures, and writes the picture. @param {Lanes} lanes */
export function drawLanes(lanes) {
  mkdirSync(FOLDER, { recursive: true });
  const { forms, queuePairs, shownNs, picture, stepNs = 1000 } = lanes;
  const height = 24 + queuePairs.length * LANE + 16;
  const bottom = forms.length * height + 10;
  const ticks = Array.from({ length: shownNs / stepNs + 1 }, (_, step) => {
    const ns = step * stepNs;
    const words = ns === 0 ? '0' : `${ns / 1000} us`;
    return `<text x="${x(lanes, ns)}" y="${bottom + 10}" text-anchor="middle">${words}</text>`;
  });
  writeFileSync(
    picture,
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${bottom + 24}" viewBox="0 0 ${WIDTH} ${bottom + 24}" role="img" aria-label="Packets on the wire">
<style>${STYLE}</style>
<rect width="${WIDTH}" height="${bottom + 24}" class="page"/>
${[...forms.flatMap((form, i) => panel(lanes, form, 8 + i * height)), ...ticks].join('\n')}
</svg>
`,
  );
}
