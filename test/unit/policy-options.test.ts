// Options of policies as people write them: units, and one-line errors for impossible combinations.
import { expect, test } from 'vitest';
import { createInterceptor } from '../../src/interceptors/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { convertQuantities, parseOptions } from '../../src/policies/parse-options.ts';
import { perfOptions } from '../../src/policies/perf/options.ts';

test('sizes, times and rates may have units', () => {
  const options = {
    subMsgSizeBytes: '8KiB',
    slotNs: '5us',
    targetUs: '2ms',
    linkGbps: '500Mbps',
    ratesGbps: 'a:10/b:2.5',
  };
  expect(convertQuantities('perf', options)).toEqual({
    ...options,
    subMsgSizeBytes: 8192,
    slotNs: 5000,
    targetUs: 2000,
    linkGbps: 0.5,
  });
  expect(parseOptions('perf', perfOptions, { subMsgSizeBytes: '16KiB' }).subMsgSizeBytes).toBe(16384);
  expect(parseOptions('perf', perfOptions, { subMsgSizeBytes: '16384', windowNs: 1e9 }).subMsgSizeBytes).toBe(
    16384,
  );
  expect(() => createPolicy('token-bucket', { burstBytes: '1MiB' })).not.toThrow();
  expect(() => createPolicy('drum', { epochUs: '2ms' })).not.toThrow();
});

test.each<[Record<string, unknown>, string]>([
  [{ subMsgSizeBytes: '16kb' }, "perf.subMsgSizeBytes: unknown unit 'kb'; use one of B, KB, KiB"],
  [{ subMsgSizeBytes: 'big' }, "perf.subMsgSizeBytes: must be a number, got 'big'"],
  [{ subMsgSizeBytes: true }, 'perf.subMsgSizeBytes: must be a number, got true'],
  [{ subMsgSizeBytes: '' }, 'perf.subMsgSizeBytes: a value is missing'],
  [{ seed: ' ' }, 'perf.seed: a value is missing'],
  [{ seed: null }, 'perf.seed: a value is missing'],
  [
    { isolation: 'alwys' },
    "perf.isolation: must be one of auto, always, never, got 'alwys'; did you mean 'always'?",
  ],
  [{ isolation: 'sometimes' }, "perf.isolation: must be one of auto, always, never, got 'sometimes'"],
  [{ isolation: 7 }, 'perf.isolation: must be one of auto, always, never, got 7'],
  [{ paper: 'ture' }, "perf.paper: must be true or false, got 'ture'; did you mean 'true'?"],
  [{ paper: true, waits: 'adaptive' }, 'perf.waits: adaptive and paper exclude each other'],
  [{ paper: 'true', rotation: 'on' }, 'perf.rotation: on and paper exclude each other'],
])('perf with %j is refused', (options, sentence) => {
  expect(() => createPolicy('perf', options)).toThrow(sentence);
});

test.each([[null], [5], ['windowBytes'], [['windowBytes']]])('options that are %j are refused', (options) => {
  const got = options as unknown as Record<string, unknown>;
  for (const make of [createPolicy, createInterceptor]) {
    const name = make === createPolicy ? 'fair' : 'count';
    expect(() => make(name, got)).toThrow(
      expect.objectContaining({
        code: 'ISO_ERR_CONFIG',
        message: expect.stringMatching(/options must be an/),
      }),
    );
  }
});

test('a name that is not a string is refused', () => {
  expect(() => createPolicy(5 as unknown as string)).toThrow(
    expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', message: expect.stringMatching(/perf, .* got 5$/) }),
  );
});

test.each<[Record<string, unknown>, string]>([
  [{ targetUs: '0' }, "fair.targetUs: must be above 0, got '0'"],
  [{ targetUs: '2min' }, "fair.targetUs: unknown unit 'min'; use one of ns, us, ms, s"],
  [{ targetUs: '1e7' }, "fair.targetUs: must be at most 1000000, got '1e7'"],
  [{ pieceBytes: 100 }, 'fair.pieceBytes: must be at least 256, got 100'],
  [{ pieceBytes: '300.5' }, "fair.pieceBytes: must be a whole number, got '300.5'"],
  [{ ratesGbps: 'a:0' }, "fair.ratesGbps.a: must be above 0, got 'a:0'"],
  [{ ratesRequestsPerS: 'a:1.5x' }, "fair.ratesRequestsPerS.a: must be a number, got 'a:1.5x'"],
  [{ ratesGbps: '__proto__:1' }, "fair.ratesGbps: contains the name '__proto__', which is not accepted"],
  [{ ratesGbps: JSON.parse('{"a":1,"__proto__":1}') }, "fair.ratesGbps: contains the name '__proto__'"],
  [{ ratesGbps: 'a:10/b:1/a:5' }, "fair.ratesGbps: names tenant 'a' twice"],
  [{ targetus: '3' }, "fair: there is no option 'targetus'; did you mean 'targetUs'?"],
  [{ targtUs: '3' }, "fair: there is no option 'targtUs'; did you mean 'targetUs'?"],
  [{ ratesGpbs: 'a:1' }, "fair: there is no option 'ratesGpbs'; did you mean 'ratesGbps'?"],
  [{ window: '3' }, "fair: there is no option 'window'; did you mean 'windowBytes'?"],
  [{ windw: '3' }, "fair: there is no option 'windw'; did you mean 'windowBytes'?"],
  [{ targetMs: '3' }, "fair: there is no option 'targetMs'; there are: pieceBytes, "],
  [{ ratesGbps: '10' }, 'fair.ratesGbps: should be TENANT:NUMBER/TENANT:NUMBER, or an object'],
])('fair with %j is refused', (options, sentence) => {
  expect(() => createPolicy('fair', options)).toThrow(sentence);
});

test.each<[string, Record<string, unknown>, string]>([
  ['drum', { requestsPerS: true }, 'drum.requestsPerS: must be a number, got true'],
  ['palos', { urgentShare: true }, 'palos.urgentShare: must be a number, got true'],
  ['palos', { urgentBytes: [] }, 'palos.urgentBytes: must be a number, got '],
  ['token-bucket', { burstBytes: ['5'] }, 'token-bucket.burstBytes: must be a number, got '],
])('%s with %j, which is no number, is refused', (name, options, sentence) => {
  expect(() => createPolicy(name, options)).toThrow(sentence);
});

test('paper=true is accepted alone, and with the waits that it implies', () => {
  expect(() => createPolicy('perf', { paper: true })).not.toThrow();
  expect(() => createPolicy('perf', { paper: true, waits: 'fixed' })).not.toThrow();
});

test.each([
  ['fiar', "unknown policy 'fiar'; did you mean 'fair'? available: perf, "],
  ['Fair', "unknown policy 'Fair'; did you mean 'fair'? available: "],
  ['token_buket', "unknown policy 'token_buket'; did you mean 'token-bucket'? available: "],
  ['plos', "unknown policy 'plos'; did you mean 'palos'? available: "],
  ['fear-not', "unknown policy 'fear-not'; available: "],
  ['x', "unknown policy 'x'; available: "],
])('an unknown policy is answered with the names that are like it: %s', (name, sentence) => {
  expect(() => createPolicy(name)).toThrow(sentence);
});

test('a name with options, as on the command line, is refused with the form of options in code', () => {
  expect(() => createPolicy('palos:sums=active')).toThrow(
    /^unknown policy 'palos:sums=active'; .*in code, options are an object: \{ name: 'palos', options/,
  );
  expect(() => createPolicy('nope:sums=active')).toThrow(/available: [\w, -]+$/);
});
