/** `isoverbs completion`: completes words at each TAB, from the tree of commands. */
import { Argument, type Command, type Option } from 'commander';
import { COMPLETE_COMMAND, SCRIPTS, type Shell } from '../completion-scripts.ts';
import { describe } from '../manual.ts';
import { type Candidate, type Path, SOURCES } from '../values.ts';

/** Adds `completion`, and the hidden command that its scripts call. */
export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('print a script that completes commands, options and their values in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .action((shell: Shell) => {
      process.stdout.write(SCRIPTS[shell]);
    });
  describe(completion, {
    about:
      'The script calls isoverbs at each TAB, and completes what is available: devices of this machine, ' +
      'policies and their options, profiles, tests and files. Load it in the start-up file of the shell.',
    examples: [
      ['source <(isoverbs completion bash)', 'bash: in ~/.bashrc'],
      ['source <(isoverbs completion zsh)', 'zsh: in ~/.zshrc, after compinit'],
      ['isoverbs completion fish | source', 'fish: in ~/.config/fish/config.fish'],
    ],
    failed: 'the script cannot be written',
    seeAlso: ['isoverbs help'],
  });
  program
    .command(COMPLETE_COMMAND, { hidden: true })
    .argument('[word...]')
    .action(async (words: string[]) => {
      const found = await complete(program, words);
      const lines =
        typeof found === 'string' ? [`:${found}`] : found.map((pair) => pair.join('\t').trimEnd());
      if (lines.length > 0) process.stdout.write(`${lines.join('\n')}\n`);
    });
}

/** Candidates for the last of the words after `isoverbs`, or paths for the shell to complete. */
export async function complete(program: Command, words: readonly string[]): Promise<Candidate[] | Path> {
  const typed = words.at(-1) ?? '';
  const { command, expects, positionals, onlyPositionals } = positionAfter(program, words.slice(0, -1));
  if (expects !== undefined) {
    const values = await valuesOf(expects, typed);
    // Another option may follow an option with an optional value.
    if (!expects.optional || !typed.startsWith('-')) return values;
  }
  const [, flag, value] = onlyPositionals ? [] : (/^(--[^=]+)=(.*)$/.exec(typed) ?? []);
  if (flag !== undefined) {
    const option = optionNamed(command, flag);
    const values = option === undefined ? [] : await valuesOf(option, value);
    if (typeof values === 'string') return values;
    return values.map(([one, text]) => [`${flag}=${one}`, text]);
  }
  if (typed.startsWith('-') && !onlyPositionals) return starting(typed, flagsOf(command));
  const help = command.parent === null && positionals[0] === 'help';
  if (command.commands.length > 0 && (positionals.length === 0 || help)) {
    return starting(typed, commandsOf(command));
  }
  const { registeredArguments: all } = command;
  const argument = all[positionals.length] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  if (argument === undefined) return [];
  return valuesNamed(argument.argChoices, argument.name(), typed);
}

interface Position {
  command: Command;
  /** The option whose value comes next. */
  expects?: Option;
  positionals: string[];
  /** Whether the word follows `--`. */
  onlyPositionals: boolean;
}

/** Parses the words before the completed one as commander does. */
function positionAfter(program: Command, words: readonly string[]): Position {
  const place: Position = { command: program, positionals: [], onlyPositionals: false };
  for (const word of words) {
    const { expects } = place;
    const isFlag = !place.onlyPositionals && word.startsWith('-') && word !== '-';
    if (expects !== undefined && !(expects.optional && isFlag)) {
      if (!expects.variadic || isFlag) place.expects = undefined;
      if (!expects.variadic || !isFlag) continue;
    }
    place.expects = undefined;
    if (isFlag) {
      place.onlyPositionals = word === '--';
      const option = optionNamed(place.command, word);
      if (option !== undefined && (option.required || option.optional)) place.expects = option;
      continue;
    }
    const sub = place.command.commands.find((one) => one.name() === word);
    if (sub !== undefined && place.positionals.length === 0) place.command = sub;
    else place.positionals.push(word);
  }
  return place;
}

function optionNamed(command: Command, flag: string): Option | undefined {
  return command.options.find(({ short, long }) => short === flag || long === flag);
}

function flagsOf(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map(({ long, short, description }) => [long ?? short ?? '', description]);
}

function commandsOf(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((sub) => [sub.name(), sub.description()]);
}

/** The kind of values in flags such as `-p, --policy <policy[:key=value]>`, here `policy`. */
function valuesOf({ flags, argChoices }: Option, typed: string): Promise<Candidate[] | Path> {
  return valuesNamed(argChoices, /[<[]([a-z]+)/i.exec(flags)?.[1] ?? '', typed);
}

async function valuesNamed(
  choices: readonly string[] | undefined,
  kind: string,
  typed: string,
): Promise<Candidate[] | Path> {
  if (choices !== undefined)
    return starting(
      typed,
      choices.map((choice) => [choice, '']),
    );
  const source = Object.hasOwn(SOURCES, kind) ? SOURCES[kind] : undefined;
  const values = source === undefined ? [] : await source(typed);
  return typeof values === 'string' ? values : starting(typed, values);
}

function starting(typed: string, candidates: readonly Candidate[]): Candidate[] {
  return candidates.filter(([value]) => value.startsWith(typed));
}
