/** Tassel's claims about bare devices. */

import { avgUs, gbps, mmps } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, range, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const LIMIT_GBPS = 2;

const rates = (runs: Runs) => runs.limited.apps.map((app) => app.throughputGbps / LIMIT_GBPS);

const rateLimiters: Claim = {
  id: 'rate-limiters',
  system: 'bare',
  part: 10,
  title: 'Hardware rate limiters miss their rate by up to 10 %',
  source: 'Tassel 2.1',
  shows: ['tassel-2.1-commercial'],
  note: 'The payload is 2 % less than the bytes on the wire, and a limiter may count either.',
  mixes: {
    limited: mix('cx6-100g', `B:size=64KiB,rate=${LIMIT_GBPS}Gbps,count=20`, {
      duration: '22ms',
      warmup: '2ms',
    }),
  },
  checks: [
    {
      what: 'the slowest of 20, relative to its limit',
      unit: 'x',
      measure: (runs: Runs) => Math.min(...rates(runs)),
      expect: range(0.88, 1.1, 0.01),
    },
    {
      what: 'the fastest of 20, relative to its limit',
      unit: 'x',
      measure: (runs: Runs) => Math.max(...rates(runs)),
      expect: range(0.88, 1.1, 0.01),
    },
    {
      what: 'the fastest relative to the slowest: limiters are inexact',
      unit: 'x',
      measure: (runs: Runs) => Math.max(...rates(runs)) / Math.min(...rates(runs)),
      expect: range(1.02, 1.25),
    },
  ],
};

const LINK_GBPS = 100;

const MTU = 4096;

const HEADERS = 82;

const RETH = 16;

/** Bytes on the wire per byte of payload, in a packet with this payload. */
const ON_WIRE = (bytes: number) => (bytes + HEADERS + RETH) / bytes;

const D = 'D:size=200,think=1us';

const tasselConstants: Claim = {
  id: 'tassel-constants',
  system: 'bare',
  part: 10,
  title: 'What a limiter must handle: messages of 64 B to 2 GB, rates of 100 Kbps to 100 Gbps, PCIe latency',
  source: 'Tassel 2.1, 2.2.2 and 3.1.2',
  shows: ['tassel-2.2-model'],
  note:
    'The limiters are those of commercial NICs, so an error of 10 % is expected. PCIe latency is the additional time of a ' +
    'request whose message is fetched. The 250 MHz clock belongs to an FPGA, which the model does not have.',
  mixes: {
    small: mix('cx6-100g', 'M:size=64'),
    large: mix('cx6-100g', 'B:size=1GiB,depth=1'),
    slow: mix('cx6-100g', 'B:size=64B,rate=100Kbps', { duration: '11s', warmup: '1s' }),
    fast: mix('cx6-100g', 'B:size=1MiB,rate=100Gbps', { duration: '20ms', warmup: '2100us' }),
    inline: mix('cx6-100g', `${D},inline=yes`),
    fetched: mix('cx6-100g', `${D},inline=no`),
  },
  checks: [
    {
      what: '64 B messages: one per message gap of the device',
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs.small, 'M'),
      expect: closedForm(12.4),
    },
    {
      what: 'the longest messages, 1 GiB: the whole link except for headers',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.large, 'B'),
      expect: closedForm((LINK_GBPS * MTU) / (MTU + HEADERS)),
      deviation: 'the first run used 2 GB, which neither the model nor a ConnectX accepts',
    },
    {
      what: 'rate with a limit of 100 Kbps, relative to the limit',
      unit: 'x',
      measure: (runs: Runs) => (gbps(runs.slow, 'B') * ON_WIRE(64)) / 100e-6,
      expect: range(0.9, 1.1, 0.01),
    },
    {
      what: 'rate with a limit of 100 Gbps, relative to the limit',
      unit: 'x',
      measure: (runs: Runs) => (gbps(runs.fast, 'B') * (MTU + HEADERS)) / MTU / LINK_GBPS,
      expect: range(0.9, 1, 0.01),
    },
    {
      what: 'latency that fetching a message adds, compared with inline',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.fetched, 'D') - avgUs(runs.inline, 'D'),
      expect: reported('more than 1'),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [rateLimiters, tasselConstants];
