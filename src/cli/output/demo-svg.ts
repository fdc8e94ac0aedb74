/** The results of `isoverbs demo`, and their picture. */
import type { TopLevelSpec } from 'vega-lite';
import { drawSvg } from './svg.ts';

/** One run of the demo. */
export interface Scenario {
  name: string;
  policy: string | null;
  keyValueStore: boolean;
  fileTransfer: boolean;
}

/** The result of one run. */
export interface Measured extends Scenario {
  /** Post to delivered completion of a GET, in virtual time; null when A does not run. */
  latencyUs: { p50: number; p99: number; p999: number } | null;
  getsPerS: number | null;
  /** Payload that B moved; null when B does not run. */
  bandwidthGbps: number | null;
  writesPerS: number | null;
}

function spec(rows: readonly Measured[]): TopLevelSpec {
  const order = rows.map((row) => row.name);
  const latency = rows.flatMap(({ name, latencyUs }) =>
    latencyUs === null
      ? []
      : [
          { name, quantile: 'p50', us: latencyUs.p50 },
          { name, quantile: 'p99', us: latencyUs.p99 },
          { name, quantile: 'p99.9', us: latencyUs.p999 },
        ],
  );
  const bandwidth = rows.flatMap(({ name, bandwidthGbps }) =>
    bandwidthGbps === null ? [] : [{ name, gbps: bandwidthGbps }],
  );
  const y = { field: 'name', type: 'nominal', sort: order, title: null, axis: { labelLimit: 200 } } as const;
  return {
    background: 'white',
    padding: 12,
    title: {
      text: 'A key-value store (A) and a file transfer (B) on one simulated 100 Gbit/s NIC',
      offset: 16,
    },
    hconcat: [
      {
        title: 'A: latency of a GET (us)',
        width: 340,
        height: 240,
        data: { values: latency },
        mark: { type: 'bar', tooltip: true },
        encoding: {
          y,
          yOffset: { field: 'quantile', sort: ['p50', 'p99', 'p99.9'] },
          x: { field: 'us', type: 'quantitative', title: 'us of virtual time' },
          color: { field: 'quantile', sort: ['p50', 'p99', 'p99.9'], title: null },
        },
      },
      {
        title: 'B: bandwidth (Gbit/s)',
        width: 260,
        height: 240,
        data: { values: bandwidth },
        mark: { type: 'bar', color: '#888' },
        encoding: {
          y,
          x: { field: 'gbps', type: 'quantitative', title: 'Gbit/s', scale: { domain: [0, 100] } },
        },
      },
    ],
    resolve: { scale: { color: 'independent' } },
  };
}

/** Returns SVG text. @throws UnsupportedError when vega is not installed */
export function demoSvg(rows: readonly Measured[]): Promise<string> {
  return drawSvg(spec(rows));
}
