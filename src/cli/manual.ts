/** Generates `--help` and docs/cli.md from the tree of commands, with the sections of a man page. */
import type { Command, Help, Option } from 'commander';

/** The help page of a command, except for its options. */
export interface Page {
  /** A description in two or three sentences. */
  about: string;
  /** Command lines that work as they are, and the purpose of each. */
  examples: readonly (readonly [line: string, what: string])[];
  /** The meaning of exit status 1. */
  failed: string;
  /** Variables that the command reads, besides ISOVERBS_LOG. */
  environment?: readonly Variable[];
  /** Pages of docs/ by name, and other commands. */
  seeAlso: readonly string[];
}

const VARIABLES = {
  ISOVERBS_LOG:
    'how much to print on stderr if --log is not given: silent, error, warn (default), info or debug',
  ISOVERBS_POLICY: 'policies around the device, if --policy is not given',
  ISOVERBS_DAEMON:
    'the socket of the daemon, if --socket is not given; with none, programs run without a daemon',
  ISOVERBS_DRIVER: 'where policies run, if --driver is not given',
  ISOVERBS_DEVICE: 'the device, if --ib-dev is not given',
  ISOVERBS_PROVIDER:
    'soft, alone or first of several: user-space RoCE, if none of --provider, --ib-dev and --profile is given',
  ISOVERBS_FACTS: 'a facts file about the device (isoverbs calibrate)',
  ISOVERBS_NO_ADDON: '1: do not load the native addon, and use simulated devices only',
  ISOVERBS_SIM_HOSTS: 'number of simulated devices (default: 2)',
  ISOVERBS_SOFT_ADDRESSES:
    'addresses of the devices soft0, soft1 ..., separated by commas (default: those of all network interfaces)',
  ISOVERBS_SOFT_FLOWS:
    'number of UDP source ports over which each of these devices spreads its connections; with 1, packets leave from port 4791 (default: 16; on loopback: 1)',
} as const;
export type Variable = keyof typeof VARIABLES;

export interface Item {
  term: string;
  text: string;
}

/** A part of a page: text, or terms and their meanings. */
export interface Section {
  title: string;
  text?: string;
  items?: readonly Item[];
  /** Whether the items are command lines. */
  isCode?: boolean;
}

/** The title for the options of the parent command. */
export const INHERITED = 'Options before the command';

const pages = new WeakMap<Command, Page>();

/** Gives a command its page. */
export function describe(command: Command, page: Page): Command {
  pages.set(command, page);
  return command;
}

/** Absent for commands that commander adds. */
export const pageOf = (command: Command): Page | undefined => pages.get(command);

/** The full name of a command, such as `isoverbs mix`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** The sections of a command's page. Empty sections are left out. */
export function sectionsOf(command: Command, helper: Help): Section[] {
  const page = pageOf(command);
  const sections: Section[] = [
    { title: 'Name', text: `${pathOf(command)} - ${command.description()}` },
    { title: 'Synopsis', text: helper.commandUsage(command) },
    { title: 'Description', text: page?.about ?? '' },
    { title: 'Commands', items: commandsOf(command, helper) },
    { title: 'Arguments', items: argumentsOf(command, helper) },
    ...optionsOf(command, helper),
  ];
  if (page !== undefined) sections.push(...afterOptions(page));
  return sections.filter(({ text, items }) => (text ?? '') !== '' || (items ?? []).length > 0);
}

function commandsOf(command: Command, helper: Help): Item[] {
  return helper.visibleCommands(command).map((sub) => ({
    term: sub.name(),
    text: helper.subcommandDescription(sub),
  }));
}

function argumentsOf(command: Command, helper: Help): Item[] {
  return helper.visibleArguments(command).map((argument) => ({
    term: helper.argumentTerm(argument),
    text: helper.argumentDescription(argument),
  }));
}

function optionsOf(command: Command, helper: Help): Section[] {
  const item = (option: Option): Item => ({
    term: helper.optionTerm(option),
    text: helper.optionDescription(option),
  });
  const groups = new Map<string, Item[]>();
  for (const option of helper.visibleOptions(command)) {
    const title = (option.helpGroupHeading ?? 'Options').replace(/:$/, '');
    groups.set(title, [...(groups.get(title) ?? []), item(option)]);
  }
  const general = command.parent === null ? [] : helper.visibleOptions(command.parent);
  const inherited = general.filter(({ long }) => long !== '--help' && long !== '--version').map(item);
  return [...[...groups].map(([title, items]) => ({ title, items })), { title: INHERITED, items: inherited }];
}

function afterOptions({ examples, failed, environment = [], seeAlso }: Page): Section[] {
  const names: readonly Variable[] = ['ISOVERBS_LOG', ...environment];
  return [
    { title: 'Examples', items: examples.map(([term, text]) => ({ term, text })), isCode: true },
    {
      title: 'Exit status',
      items: [
        { term: '0', text: 'success' },
        { term: '1', text: failed },
        { term: '2', text: 'usage error; stderr names the problem' },
        { term: '130', text: 'interrupted (Ctrl-C)' },
      ],
    },
    { title: 'Environment', items: names.map((term) => ({ term, text: VARIABLES[term] })) },
    { title: 'See also', text: seeAlso.join(', ') },
  ];
}

const INDENT = '  ';
/** Longer terms are on a separate line. */
const TERM_WIDTH = 24;

/** The page as printed on a terminal. */
export function formatPage(command: Command, helper: Help): string {
  const width = Math.max(helper.helpWidth ?? 80, 2 * TERM_WIDTH);
  const parts = sectionsOf(command, helper).map(({ title, text, items = [], isCode }) => {
    const lines = text === undefined ? [] : [indented(helper.boxWrap(text, width - INDENT.length), INDENT)];
    const termWidth = isCode ? 0 : TERM_WIDTH;
    for (const item of items) lines.push(formatItem(item, { termWidth, width, helper }));
    return `${helper.styleTitle(title.toUpperCase())}\n${lines.join('\n')}\n`;
  });
  return parts.join('\n');
}

/** The term, with its meaning next to it, or below it if the term is too long. */
function formatItem({ term, text }: Item, how: { termWidth: number; width: number; helper: Help }): string {
  const { termWidth, width, helper } = how;
  const margin = INDENT + ' '.repeat(termWidth === 0 ? 4 : termWidth + 2);
  const wrapped = indented(helper.boxWrap(text, width - margin.length), margin);
  if (term.length > termWidth) return `${INDENT}${term}${text === '' ? '' : `\n${wrapped}`}`;
  return `${INDENT}${term}${wrapped.slice(INDENT.length + term.length)}`;
}

function indented(text: string, by: string): string {
  return text.replace(/^(?=.)/gm, by);
}
