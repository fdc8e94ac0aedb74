// Updates docs/isolation.md with `isoverbs isolation`: the table of all policies and schedulers with one form of each
// attacker, or, if policies are named on the command line, the table of those with all attackers. Keeps the results of runs in
// out/isolation, so that an interrupted call continues. Requires a build.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PAGE = 'docs/isolation.md';
/** The attacker with the deepest queues, `PCIe-size`, posts for 2 ms before it polls for the first time. */
const TIMES = ['--duration', '4ms', '--warmup', '2500us'];
/** One form of each attacker. */
const ONE_FORM = [
  'BW-1MB/write',
  'BW-4KB/write',
  'PCIe-size/257',
  'PCIe-loopback/sender',
  'PU-RNR/rc-longest',
  'PU-request/write-forward',
  'Cache-QPC/write',
  'Cache-access_mr/4096x512B-write',
  'Cache-ctrl/4096x1KiB-one-sender',
  'Cache-recvwqe/rc',
];

process.chdir(new URL('..', import.meta.url).pathname);
const named = process.argv.slice(2);
const [begin, end] =
  named.length > 0
    ? ['<!-- tables -->', '<!-- end of the tables -->']
    : ['<!-- all policies -->', '<!-- end of all policies -->'];
const chosen =
  named.length > 0
    ? named.flatMap((name) => ['--policy', name])
    : ONE_FORM.flatMap((name) => ['--attacker', name]);

const page = readFileSync(PAGE, 'utf8');
const [from, to] = [page.indexOf(begin), page.indexOf(end)];
if (from < 0 || to < from) throw new Error(`${PAGE} lacks the comments ${begin} and ${end}`);
const command = ['dist/cli/main.js', 'isolation', '--md', '--keep', 'out/isolation', ...TIMES, ...chosen];
const printed = execFileSync(process.execPath, command, {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
});
writeFileSync(PAGE, `${page.slice(0, from + begin.length)}\n\n${printed}\n${page.slice(to)}`);
