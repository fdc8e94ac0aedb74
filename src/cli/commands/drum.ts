/** `isoverbs drum`: the solver of DRUM, for problems in files. */
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { readRegularFile } from '../../daemon/identity/regular-file.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { escapedLines } from '../escape.ts';
import { describe } from '../manual.ts';
import { jsonText } from '../output/json.ts';
import { requireDistinct, requirePicture, requireWritable, writeInto, writeOutput } from '../output/svg.ts';

/** Adds `drum`, with `drum solve`. */
export function addDrum(command: Command): void {
  const drum = command.command('drum').description('solve allocation problems of DRUM');
  describe(drum, {
    about:
      'DRUM asks which rates of work requests and of completions are best for all applications on all hosts. The ' +
      'command runs the solver alone, without a device.',
    examples: [['isoverbs drum solve examples/drum/two-hosts.yaml', 'solve a problem']],
    failed: 'as for its commands',
    seeAlso: ['docs/policies/drum.md'],
  });
  const sub = drum
    .command('solve')
    .description('find the best rates of requests and completions for a problem in a file')
    .argument('<file>', 'the problem, in YAML or JSON; before --json, which may have a file of its own')
    .option('--json [file]', 'write JSON to this file; without a file, to standard output')
    .option(
      '--svg <file>',
      'draw rates and residuals into this file (requires the packages vega and vega-lite)',
    )
    .option('--threads <n>', 'threads that share the work, at most one per host', threadsOf, 1)
    .action(run);
  describe(sub, {
    about:
      'Reads the hosts, their rates and their applications from a file, and prints the rates with the highest ' +
      'utility. If requests cause completions on other hosts, the solver is Algorithm 2 of the paper, otherwise ' +
      'Algorithm 1. JSON also contains the residuals of each iteration.',
    examples: [
      ['isoverbs drum solve examples/drum/two-hosts.yaml', 'print the rates'],
      [
        'isoverbs drum solve examples/drum/two-hosts.yaml --json',
        'as JSON, with the residuals of each iteration',
      ],
      [
        'isoverbs drum solve examples/drum/two-hosts.yaml --threads 2',
        'the same rates, computed faster for large problems',
      ],
    ],
    failed: 'the problem has no solution, or the iteration has not converged',
    seeAlso: ['docs/policies/drum.md', 'isoverbs reproduce'],
  });
}

interface SolveFlags {
  readonly json?: string | true;
  readonly svg?: string;
  readonly threads: number;
}

/** @throws InvalidArgumentError */
function threadsOf(text: string): number {
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number from 1 to 999.');
}

async function run(file: string, { json, svg, threads }: SolveFlags): Promise<void> {
  for (const [flag, output] of Object.entries({ '--json': json, '--svg': svg })) {
    if (typeof output === 'string' && resolve(output) === resolve(file))
      throw new ConfigError(`${flag}: ${output} is the file with the problem; choose another file`);
  }
  requireDistinct([
    ['--json', json === true ? undefined : json],
    ['--svg', svg],
  ]);
  if (svg !== undefined) await requirePicture('--svg', svg);
  if (typeof json === 'string') requireWritable('--json', json);
  const [{ parseProblem }, { allocate, asText }, { solutionSvg }] = await Promise.all([
    import('../drum/problem-file.ts'),
    import('../drum/solution.ts'),
    import('../drum/solution-svg.ts'),
  ]);
  const result = await allocate(parseProblem(readRegularFile(file), file), threads);
  const text = jsonText(result);
  if (typeof json === 'string') writeInto(json, text);
  process.stdout.write(escapedLines(json === true ? text : asText(result)));
  if (svg !== undefined) writeOutput(svg, await solutionSvg(result));
  if (result.converged) return;
  process.stderr.write(
    `isoverbs: the solver has not converged after ${result.iterations} iterations; increase mostIterations or tolerance in ${file}\n`,
  );
  process.exitCode = 1;
}
