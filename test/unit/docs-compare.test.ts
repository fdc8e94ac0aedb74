// docs/compare.md, and docs/compare.svg, which the README shows, cover every policy and every scheduler.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { schemesOf } from '../../src/compare/schemes.ts';
import { tricksOf } from '../../src/compare/tricks.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { crowdedTexts, textsOf } from '../support/svg-texts.ts';

const read = (path: string) => readFileSync(resolve(import.meta.dirname, '../..', path), 'utf8');

test('docs/compare.svg and docs/compare.md name every scheme (npm run docs:compare updates them)', () => {
  const mix = { profile: DEFAULTS.profile, duration: '1ms', warmup: '0', apps: ['B', 'M', 'D'].map(mixApp) };
  const [picture, page] = [read('docs/compare.svg'), read('docs/compare.md')];
  for (const { name, says } of schemesOf(mix, PROFILES[DEFAULTS.profile])) {
    expect(picture).toContain(`>${name}</text>`);
    expect(page).toContain(`\n| ${name} |`);
    expect(page).toContain(`\n- ${name}: ${says}\n`);
  }
});

test('no text of docs/compare.svg runs into another one in a wide font', () => {
  const picture = read('docs/compare.svg');
  expect(textsOf(picture).map(({ text }) => text)).toEqual(
    expect.arrayContaining(['B: bandwidth', 'M: messages', 'D: latency', "the NIC's scheduler"]),
  );
  expect(crowdedTexts(picture)).toEqual([]);
});

test('docs/systems.md and docs/systems.svg name every scheme (npm run docs:systems updates them)', () => {
  const mix = { profile: DEFAULTS.profile, duration: '1ms', warmup: '0', apps: ['B'].map(mixApp) };
  const [picture, page] = [read('docs/systems.svg'), read('docs/systems.md')];
  for (const { name } of schemesOf(mix, PROFILES[DEFAULTS.profile])) {
    expect(picture).toContain(`>${name}</text>`);
    expect(page.split(`\n| ${name} |`).length).toBeGreaterThan(4);
  }
});

test('the README shows the pictures', () => {
  const readme = read('README.md');
  expect(readme).toContain('](docs/compare.svg)](docs/compare.md)');
  expect(readme).toContain('](docs/systems.svg)](docs/systems.md)');
});

test('the table of tricks of docs/compare.md names only tricks that exist (npm run docs:evade updates it)', () => {
  const [, table] = /<!-- table of tricks -->\n([\s\S]*?)<!-- end of the table of tricks -->/.exec(
    read('docs/compare.md'),
  )!;
  const named = [...table.matchAll(/^\| (?!policy|---)[^|]+ \| ([^|]+) \|/gm)].map(([, name]) => name);
  expect(named.length).toBeGreaterThan(10);
  const known = tricksOf(PROFILES[DEFAULTS.profile]).map(({ name }) => name);
  for (const name of named) expect(known).toContain(name);
});
