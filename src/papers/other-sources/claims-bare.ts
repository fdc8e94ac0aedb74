/** Claims about bare devices from closed forms, standards and papers without a folder here. */

import { drops, fairness, gbps, mmps } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const SENDERS = [2, 32];

const totalRates: Claim = {
  id: 'total-rates',
  system: 'bare',
  part: 2,
  title: 'Operation rate of the whole device',
  source: 'SMART (ASPLOS 2024), Husky (NSDI 2023): 111 M READs, 5 M atomics',
  shows: [],
  mixes: {
    read: mix('cx6-100g', 'M:op=read,size=16,qps=32', { duration: '2ms', warmup: '500us' }),
    atomic: mix('cx6-100g', 'M:op=atomic,qps=16'),
  },
  checks: [
    {
      what: 'READ',
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs.read, 'M'),
      expect: closedForm(111, 0.05),
    },
    { what: 'atomics', unit: 'M/s', measure: (runs: Runs) => mmps(runs.atomic, 'M'), expect: closedForm(5) },
  ],
};

const READ = 'B:name=read,op=read,size=1MiB';

const TOWARDS = 'B:name=write,size=1MiB,host=1,to=0';

const ALONG = 'B:name=write,size=1MiB';

const readAgainstWrite: Claim = {
  id: 'read-against-write',
  system: 'bare',
  part: 6,
  title: "READ responses leave through the responder's port, which they share with its WRITEs",
  source: 'With one queue pair each, both get half; PeRF appendix C, Justitia appendix C.3',
  shows: [],
  mixes: {
    read: mix('cx6-100g', READ),
    write: mix('cx6-100g', ALONG),
    towards: mix('cx6-100g', [READ, TOWARDS]),
    along: mix('cx6-100g', [READ, ALONG]),
  },
  checks: [
    {
      what: 'share of READ, WRITE in the opposite direction',
      unit: '',
      measure: (runs: Runs) =>
        gbps(runs.towards, 'read') / (gbps(runs.towards, 'read') + gbps(runs.towards, 'write')),
      expect: closedForm(0.5),
    },
    {
      what: 'READ relative to alone, WRITE of the same requester',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.along, 'read') / gbps(runs.read, 'read'),
      expect: rises(0.95),
    },
    {
      what: 'WRITE relative to alone, READ of the same requester',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.along, 'write') / gbps(runs.write, 'write'),
      expect: rises(0.95),
    },
  ],
};

const incastDcqcn: Claim = {
  id: 'incast-dcqcn',
  system: 'bare',
  part: 9,
  title: 'Many senders, one receiver, DCQCN: shares are fair',
  source: "DCQCN (SIGCOMM 2015); Jain's index of the payload rates, after 50 ms",
  shows: [],
  mixes: Object.fromEntries(
    SENDERS.map((n) => [
      `${n}`,
      mix('cx6-100g', `B:size=1MiB,count=${n},host=0-${n - 1},to=${n}`, {
        hosts: n + 1,
        set: { congestionControl: 'dcqcn' },
        duration: '100ms',
        warmup: '50ms',
      }),
    ]),
  ),
  checks: SENDERS.flatMap((n) => [
    {
      what: `fairness of ${n} to 1`,
      unit: '',
      measure: (runs: Runs) => fairness(runs[n], 'B'),
      expect: range(0.95, 1),
    },
    {
      what: `bandwidth of ${n} to 1`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[n], 'B'),
      expect: reported('below 98.0'),
    },
    {
      what: 'packets lost',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => drops(runs[n]),
      expect: range(0, 0),
    },
  ]),
};

const MTU = 4096;

const incastPfc: Claim = {
  id: 'incast-pfc',
  system: 'bare',
  part: 9,
  title: 'Many senders, one receiver, PFC without congestion control: no packet is lost',
  source: 'IEEE 802.1Qbb; the bandwidth is that of the link, less headers',
  shows: [],
  mixes: Object.fromEntries(
    SENDERS.map((n) => [
      `${n}`,
      mix('cx6-100g', `B:size=1MiB,count=${n},host=0-${n - 1},to=${n}`, {
        hosts: n + 1,
        duration: '20ms',
        warmup: '2ms',
      }),
    ]),
  ),
  checks: SENDERS.flatMap((n) => [
    {
      what: 'packets lost',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => drops(runs[n]),
      expect: range(0, 0),
    },
    {
      what: 'bandwidth',
      at: `${n} to 1`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[n], 'B'),
      expect: closedForm((100 * MTU) / (MTU + 82)),
    },
    {
      what: 'fairness',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => fairness(runs[n], 'B'),
      expect: range(0.95, 1),
    },
  ]),
};

export const CLAIMS: readonly Claim[] = [totalRates, readAgainstWrite, incastDcqcn, incastPfc];
