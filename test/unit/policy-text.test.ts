// Policies as text, which is parsed back into the same policy.
import { expect, test } from 'vitest';
import { parsePolicies } from '../../src/config.ts';
import { policiesText, policyText } from '../../src/policies/policy-text.ts';

test.each([
  ['perf', 'perf'],
  ['perf:paper', 'perf:paper'],
  ['perf:paper=true,subMsgSizeBytes=8KiB', 'perf:paper,subMsgSizeBytes=8KiB'],
  ['perf:emulation=false,slotNs=2e4', 'perf:emulation=false,slotNs=20000'],
  ['token-bucket:ratesGbps=a:3/b:1; chunk', 'token-bucket:ratesGbps=a:3/b:1;chunk'],
  ['./my-policy.mjs:rate=1', './my-policy.mjs:rate=1'],
  ['none', 'none'],
])('%s is written as %s, and read back as the same', (words, text) => {
  const policies = parsePolicies(words, 'test');
  expect(policiesText(policies)).toBe(text);
  expect(parsePolicies(text, 'test')).toEqual(policies);
});

test('an option that a file gives as an object or a list is one word', () => {
  expect(policyText('token-bucket', { ratesGbps: { a: 3, b: 1 } })).toBe('token-bucket:ratesGbps=a:3/b:1');
  expect(policyText('mine', { sizes: [1, 2] })).toBe('mine:sizes=1/2');
});
