/** What papers say and no claim here shows, with the reason. None of it counts. */

export interface NotShown {
  /** Names as in the sources of claims. */
  ids: readonly string[];
  title: string;
  /** `waiting`: for something that is not here yet. `never`: no model of a device can show it. */
  why: 'waiting' | 'never';
  reason: string;
}

const waiting = (id: string, title: string): NotShown => ({
  ids: [id],
  title,
  why: 'waiting',
  reason: 'compares with Justitia, which is not here yet',
});

const PERF: readonly NotShown[] = [
  waiting('perf-1-headline', '2.04 times the throughput of Justitia'),
  waiting('perf-5.1-justitia-cfg', 'Justitia with a threshold of 15 us: 86 Gbps, D_App 1.5 us'),
  waiting('perf-5.2.2-fig8a-justitia', 'Justitia halves B_App beside D_App'),
  waiting('perf-5.2.2-fig8b-justitia', 'Justitia halves B_App and M_App'),
  waiting('perf-5.2.2-fig8-justitiaR', 'Justitia with a threshold of 15 us gives B_App more'),
  waiting('perf-5.2.3-fig9d-justitia', 'Justitia halves B_App_multi and M_App'),
  waiting('perf-5.2.3-fig9ef', 'D_App waits a little longer than under Justitia'),
  waiting('perf-5.3-fig16a-others', 'Crail, HERD and rping against Justitia'),
  waiting('perf-5.3-fig16b', 'The same beside background traffic'),
  {
    ids: [
      'perf-5.2.1-table2-d-vs-b',
      'perf-5.2.1-table2-d-vs-bmulti',
      'perf-5.2.1-table2-d-vs-mmulti',
      'perf-5.2.1-cpu-bound',
      'perf-5.2.1-ram',
    ],
    title: 'CPU and memory of the C implementation',
    why: 'never',
    reason:
      'a model has no memory and takes CPU costs as given; npm run bench:shim measures those of this one',
  },
  {
    ids: ['perf-4.4-batching'],
    title: 'Batches of 0_WAITs cost less CPU than one after each small piece',
    why: 'never',
    reason: 'the same; shimCounters() counts the requests of either',
  },
];

/** By system. */
export const NOT_SHOWN: Readonly<Record<string, readonly NotShown[]>> = Object.freeze({ perf: PERF });
