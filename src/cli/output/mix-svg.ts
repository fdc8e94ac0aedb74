/** Draws a mix: bandwidth, message rate and latency of each application over time. */
import type { TopLevelSpec } from 'vega-lite';
import type { MixResult, Timeline } from '../../mix/result.ts';
import { drawSvg } from './svg.ts';

const WIDTH = 640;
const HEIGHT = 160;

function spec(result: MixResult, timeline: Timeline): TopLevelSpec {
  const values = timeline.apps.flatMap((app) =>
    app.throughputGbps.map((gbps, i) => ({
      app: app.name,
      ms: ((i + 1) * timeline.stepNs) / 1e6,
      gbps,
      mmps: app.messageRateMmps[i],
      us: app.latencyUs[i],
    })),
  );
  const order = timeline.apps.map(({ name }) => name);
  const warmup = result.warmupNs / 1e6;
  const x = { field: 'ms', type: 'quantitative', title: 'ms of virtual time' } as const;
  const color = { field: 'app', type: 'nominal', sort: order, title: null } as const;
  const over = (field: string, title: string) => ({
    width: WIDTH,
    height: HEIGHT,
    layer: [
      {
        data: { values },
        mark: { type: 'line' as const },
        encoding: { x, color, y: { field, type: 'quantitative', title } as const },
      },
      {
        data: { values: [{ ms: warmup }] },
        mark: { type: 'rule' as const, strokeDash: [4, 4], color: '#888' },
        encoding: { x },
      },
    ],
  });
  return {
    background: 'white',
    padding: 12,
    title: { text: `${result.profile}, policy ${result.policy}, seed ${result.seed}`, offset: 16 },
    vconcat: [
      over('gbps', 'throughput, Gbit/s'),
      over('mmps', 'messages, M/s'),
      over('us', 'mean latency, us'),
    ],
  };
}

/** Returns SVG text. @throws UnsupportedError when vega is not installed */
export function mixSvg(result: MixResult, timeline: Timeline): Promise<string> {
  return drawSvg(spec(result, timeline));
}
