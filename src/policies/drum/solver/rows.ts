/** The rows of F(x) = z for two-sided verbs: one for each application on each host where completions of it arise. */
import type { DrumProblem } from './problem.ts';

/** Rows by host, and the entries of all variables. */
export interface Rows {
  /** The first row of each host, and the number of rows. */
  readonly start: Int32Array;
  /** Entries of variable v: entryStart[v] to entryStart[v + 1], for its own host and its destinations. */
  readonly entryStart: Int32Array;
  /** The row of an entry. */
  readonly row: Int32Array;
  /** Completions in that row per request. */
  readonly per: Float64Array;
  /** Per row: the number of hosts that cause completions in it. */
  readonly sharers: Float64Array;
  /** The entries of row r in ascending order: entries[first[r]] to entries[first[r + 1]]. */
  readonly first: Int32Array;
  readonly entries: Int32Array;
}

/** Entries of the own host and of the traffic. One to the own host is a destination like others, added to the first. */
export function rowsOf(problem: DrumProblem): Rows {
  const { hosts, start, app, completions, traffic } = problem;
  const variables = app.length;
  const entryStart = new Int32Array(variables + 1);
  const most = variables + (traffic?.host.length ?? 0);
  const hostOf = new Int32Array(most);
  const per = new Float64Array(most);
  let at = 0;
  for (let host = 0; host < hosts; host++) {
    for (let v = start[host]; v < start[host + 1]; v++) {
      const own = at;
      entryStart[v] = at;
      hostOf[at] = host;
      per[at++] = completions[v];
      for (let e = traffic?.start[v] ?? 0; e < (traffic?.start[v + 1] ?? 0); e++) {
        const same = findHost(hostOf, own, at, traffic!.host[e]);
        if (same < at) per[same] += traffic!.perRequest[e];
        else {
          hostOf[at] = traffic!.host[e];
          per[at++] = traffic!.perRequest[e];
        }
      }
    }
  }
  entryStart[variables] = at;
  return numbered(problem, entryStart, hostOf.subarray(0, at), per.subarray(0, at));
}

function findHost(hostOf: Int32Array, from: number, to: number, host: number): number {
  for (let e = from; e < to; e++) if (hostOf[e] === host) return e;
  return to;
}

/** Gives each pair of host and application one row, host by host. */
function numbered(
  { hosts, app }: DrumProblem,
  entryStart: Int32Array,
  hostOf: Int32Array,
  per: Float64Array,
): Rows {
  const entries = hostOf.length;
  const appOf = new Int32Array(entries);
  for (let v = 0; v < app.length; v++) appOf.fill(app[v], entryStart[v], entryStart[v + 1]);
  // Entries sorted by host.
  const first = new Int32Array(hosts + 1);
  for (const host of hostOf) first[host + 1]++;
  for (let i = 0; i < hosts; i++) first[i + 1] += first[i];
  const next = first.slice();
  const sorted = new Int32Array(entries);
  for (let e = 0; e < entries; e++) sorted[next[hostOf[e]]++] = e;
  const rowOfApp = new Int32Array(app.reduce((a, b) => Math.max(a, b), 0) + 1);
  const seenAt = new Int32Array(rowOfApp.length).fill(-1);
  const row = new Int32Array(entries);
  const sharers = new Float64Array(entries);
  const start = new Int32Array(hosts + 1);
  let rows = 0;
  for (let host = 0; host < hosts; host++) {
    start[host] = rows;
    for (let k = first[host]; k < first[host + 1]; k++) {
      const e = sorted[k];
      const one = appOf[e];
      if (seenAt[one] !== host) {
        seenAt[one] = host;
        rowOfApp[one] = rows++;
      }
      row[e] = rowOfApp[one];
      sharers[row[e]]++;
    }
  }
  start[hosts] = rows;
  return { start, entryStart, row, per, sharers: sharers.slice(0, rows), ...entriesByRow(row, rows) };
}

function entriesByRow(row: Int32Array, rows: number): Pick<Rows, 'first' | 'entries'> {
  const first = new Int32Array(rows + 1);
  for (const r of row) first[r + 1]++;
  for (let r = 0; r < rows; r++) first[r + 1] += first[r];
  const next = first.slice();
  const entries = new Int32Array(row.length);
  for (let e = 0; e < row.length; e++) entries[next[row[e]]++] = e;
  return { first, entries };
}
