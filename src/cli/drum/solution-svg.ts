/** The picture of `isoverbs drum solve`: the rates of each host's applications, and the residuals by iteration. */
import type { TopLevelSpec } from 'vega-lite';
import { drawSvg } from '../output/svg.ts';
import type { Allocation } from './solution.ts';

const PANEL_WIDTH = 360;
const PANEL_HEIGHT = 240;
/** Residuals of 0 have no logarithm. */
const LEAST = 1e-16;

function rates({ allocation }: Allocation): object {
  return {
    title: 'Requests per unit of time',
    width: PANEL_WIDTH,
    height: PANEL_HEIGHT,
    data: { values: allocation },
    mark: 'bar',
    encoding: {
      x: {
        field: 'host',
        type: 'nominal',
        title: null,
        sort: null,
        axis: { labelAngle: 0, labelOverlap: true },
      },
      y: { field: 'requests', type: 'quantitative', title: null, stack: true },
      color: {
        field: 'application',
        type: 'nominal',
        title: null,
        sort: null,
        scale: { scheme: 'tableau10' },
      },
    },
  };
}

function residuals({ trace }: Allocation): object {
  const values = trace.flatMap(({ primal, dual }, i) =>
    Object.entries({ primal, dual }).map(([residual, value]) => ({
      ...{ iteration: i + 1, residual, value: Math.max(value, LEAST) },
    })),
  );
  return {
    title: 'Residuals by iteration',
    width: PANEL_WIDTH,
    height: PANEL_HEIGHT,
    data: { values },
    mark: 'line',
    encoding: {
      x: { field: 'iteration', type: 'quantitative', title: null, axis: { tickMinStep: 1 } },
      y: {
        field: 'value',
        type: 'quantitative',
        title: null,
        scale: { type: 'log' },
        axis: { format: '.0e' },
      },
      strokeDash: { field: 'residual', type: 'nominal', title: null },
    },
  };
}

/** Returns SVG text. @throws UnsupportedError when vega is not installed */
export function solutionSvg(allocation: Allocation): Promise<string> {
  return drawSvg({
    background: 'white',
    hconcat: [rates(allocation), residuals(allocation)],
    resolve: { scale: { color: 'independent' } },
    spacing: 40,
  } as TopLevelSpec);
}
