// --help prints man pages with working examples, from which docs/cli.md is generated. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { afterAll, expect, test } from 'vitest';
import { pageOf, pathOf } from '../../src/cli/manual.ts';
import { program } from '../../src/cli/program.ts';
import { command as isoverbs } from '../mix/command.ts';
import { MAIN } from '../support/main.ts';
import { tagsIf } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'isoverbs-help-'));
// Some command lines read files of the examples.
symlinkSync(join(ROOT, 'examples'), join(folder, 'examples'));
afterAll(() => rmSync(folder, { recursive: true }));

const isHidden = (command: Command) => (command as unknown as { _hidden: boolean })._hidden;
const commands = [await program(), ...(await program()).commands.filter((command) => !isHidden(command))];

async function help(command: Command): Promise<string> {
  const { code, out, err } = await isoverbs(...pathOf(command).split(' ').slice(1), '--help');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return out;
}

test.each(commands.map((command) => [pathOf(command), command] as const))(
  '%s --help has every section, in at most 80 columns',
  async (path, command) => {
    const text = await help(command);
    const titles = [...text.matchAll(/^([A-Z].*)$/gm)].map((match) => match[1]);
    expect(titles.slice(0, 3)).toEqual(['NAME', 'SYNOPSIS', 'DESCRIPTION']);
    expect(titles).toEqual(
      expect.arrayContaining(['OPTIONS', 'EXAMPLES', 'EXIT STATUS', 'ENVIRONMENT', 'SEE ALSO']),
    );
    expect(text).toContain(`  ${path} - `);
    const prose = text.split('\nEXAMPLES\n')[0];
    expect(prose.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(text).not.toContain('\x1b');
  },
);

/** Sentences of a text: each begins with a capital or a name, and ends with a full stop. */
const sentences = (text: string) => text.match(/[^\s.][^.]*(?:\.\S[^.]*)*\.(?=\s|$)/g) ?? [];

test('every page describes its command in full sentences and refers to pages that exist', () => {
  expect(sentences('')).toEqual([]);
  expect(sentences('no full stop')).toEqual([]);
  expect(sentences('Reads a.b. Writes c.')).toEqual(['Reads a.b.', 'Writes c.']);
  for (const command of commands) {
    const { seeAlso = [], about = '' } = pageOf(command) ?? {};
    expect(sentences(about).join(' '), pathOf(command)).toBe(about);
    expect(sentences(about).length, pathOf(command)).toBeGreaterThan(0);
    for (const name of seeAlso) {
      if (name.endsWith('.md')) expect(existsSync(join(ROOT, name)), name).toBe(true);
      else if (name.startsWith('isoverbs '))
        expect([...commands.map(pathOf), 'isoverbs help']).toContain(name);
    }
  }
});

/** Examples that require a real device, several minutes, or a program that does not exist are only parsed. */
const NOT_RUN =
  /-d (rxe0|soft0)|--provider soft|^isoverbs (top|tenants|set|rxe|daemon --policy)|^isoverbs compare (--seeds|--svg)|^isoverbs isolation --keep|--device rxe0|^isoverbs reproduce|app\.js|completion|app\.trace/;
const examples = commands.flatMap((command) => pageOf(command)?.examples.map(([line]) => line) ?? []);

const toRun = examples.filter((line) => !NOT_RUN.test(line));
/** One in this many is not tagged `long`, because each starts a process. */
const SAMPLE = 8;
/** Other tests run a demo. */
const isShort = (line: string, i: number) => i % SAMPLE === 0 && line !== 'isoverbs demo';

for (const [i, line] of toRun.entries()) {
  test(`the example ${line} succeeds`, { tags: tagsIf(isShort(line, i)) }, () => succeeds(line));
}

function succeeds(line: string): void {
  const { status, stderr, stdout } = spawnSync(
    'bash',
    ['-c', `isoverbs() { "${process.execPath}" "${MAIN}" "$@"; }; ${line}`],
    {
      cwd: folder,
      env: { ...process.env, ISOVERBS_NO_ADDON: '1', ISOVERBS_LOG: '' },
      encoding: 'utf8',
      timeout: 60_000,
    },
  );
  // bench names the simulated devices that it selected.
  expect({ status, stderr: stderr.replace(/^isoverbs: both ends run in this process.*\n/, '') }).toEqual({
    status: 0,
    stderr: '',
  });
  expect(stdout.length).toBeGreaterThan(0);
}

/** Parses a command line without running the command. */
async function parsed(line: string): Promise<void> {
  const root = await program();
  for (const command of [root, ...root.commands]) command.action(() => {});
  root.parse(line.split(' ').slice(1), { from: 'user' });
}

test.each(examples.filter((line) => NOT_RUN.test(line) && line.startsWith('isoverbs ')))(
  'the example %s is parsed',
  async (line) => {
    await parsed(line.split(' | ')[0]);
  },
);

test('an example with an unknown option is rejected', async () => {
  await expect(parsed('isoverbs mix --ap B')).rejects.toThrow();
});

test('docs/cli.md is up to date with --help', () => {
  const { stderr, status } = spawnSync(process.execPath, [join(ROOT, 'scripts/cli-doc.mjs'), '--check'], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
});
