// Completions as the shells themselves offer them, for each shell that is installed. Needs a build.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { complete } from '../../src/cli/commands/completion.ts';
import { program } from '../../src/cli/program.ts';
import { MAIN } from '../support/main.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-tab-'));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, 'isoverbs'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, {
  mode: 0o755,
});

const env = {
  ...process.env,
  ISOVERBS_NO_ADDON: '1',
  ISOVERBS_LOG: '',
  PATH: `${folder}:${process.env.PATH}`,
  HOME: folder,
};
const has = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0;

async function tab(line: string): Promise<string[] | string> {
  const found = await complete(await program(), line.split(' '));
  return typeof found === 'string' ? found : found.map(([value]) => value);
}

test.each([
  ['po', ['policies']],
  ['mix --pro', ['--profile', '--provider']],
  [
    'bench ',
    ['write_bw', 'write_lat', 'send_bw', 'send_lat', 'read_bw', 'read_lat', 'atomic_bw', 'atomic_lat'],
  ],
  ['bench write_bw -c U', ['UC', 'UD']],
  ['bench --report_gbits read', ['read_bw', 'read_lat']],
  ['mix --policy=to', ['--policy=token-bucket']],
  ['mix --policy perf:isolation=a', ['perf:isolation=auto', 'perf:isolation=always']],
  ['mix --policy perf:paper,slotN', ['perf:paper,slotNs=']],
  ['mix --policy ./m', 'files'],
  [
    'mix --set scheduler=',
    ['scheduler=rr', 'scheduler=sp', 'scheduler=ets', 'scheduler=greedy', 'scheduler=palos'],
  ],
  ['mix --app B:dep', ['B:depth=']],
  ['mix --plot ', 'files'],
  ['mix --duration ', []],
  ['reproduce --system bare ', ['bare', 'perf', 'justitia', 'palos', 'drum', 'tassel', 'fair']],
  ['reproduce --keep ', 'folders'],
  ['reproduce --figure perf-2', expect.arrayContaining(['perf-2b'])],
  ['trace one.trace ', 'files'],
  ['--log e', ['error']],
  ['help tr', ['trace']],
  ['bogus --x', []],
])('TAB completes: isoverbs %s', async (line, expected) => {
  expect(await tab(line)).toEqual(expected);
});

test('option values have kinds that can be completed', async () => {
  const kinds = (await program()).commands
    .flatMap(({ options }) => options)
    .map(({ flags }) => /<([a-z]+)/.exec(flags)?.[1]);
  expect(kinds).toEqual(
    expect.arrayContaining(['policy', 'profile', 'device', 'driver', 'system', 'topology']),
  );
  expect(kinds).not.toContain('name');
});

function shell(name: string, script: string): string[] {
  const { stdout, stderr, status } = spawnSync(name, ['-c', script], {
    cwd: folder,
    env,
    encoding: 'utf8',
    timeout: 90_000,
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  return stdout.trim().split(/\s+/);
}

test('the bash script completes words', () => {
  const script = `
    source <(isoverbs completion bash); complete -p isoverbs
    t() { COMP_LINE=$1 COMP_POINT=\${#1}; _isoverbs; echo "\${COMPREPLY[@]}"; }
    t 'isoverbs po'; t 'isoverbs mix --policy perf:isolation=al'; t 'isoverbs mix --profile cx3'`;
  const words = shell('bash', script);
  expect(words.slice(0, 4)).toEqual(['complete', '-F', '_isoverbs', 'isoverbs']);
  // After = and :, bash expects only the rest of the word.
  expect(words.slice(4, 6)).toEqual(['policies', 'always']);
  expect(words[6]).toMatch(/^cx3/);
});

test.skipIf(!has('zsh'))('the zsh script completes words', () => {
  const script = `
    zmodload zsh/zpty; zpty z zsh -f -i; typeset -g got=
    zpty -w z 'PS1=; autoload -U compinit; compinit -u; source <(isoverbs completion zsh); zstyle ":completion:*" menu no; echo RE""ADY'
    zpty -r -m z got '*READY*'
    zpty -w -n z $'isoverbs policies token-; isoverbs completion z\\t'
    zpty -r -m z got '*completion zsh*' && print yes; zpty -d z`;
  expect(shell('zsh', script)).toContain('yes');
});

test.skipIf(!has('fish'))('the fish script completes words', () => {
  const script = `isoverbs completion fish | source; complete -C 'isoverbs po'; complete -C 'isoverbs mix --policy perf:isolation=al'`;
  expect(shell('fish', script)).toEqual(expect.arrayContaining(['policies', 'perf:isolation=always']));
});
