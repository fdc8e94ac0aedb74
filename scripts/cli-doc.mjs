// Writes docs/cli.md from the tree of commands: the same text as --help.
//   node scripts/cli-doc.mjs [--check]     (requires a build)
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

// The script runs the build, but its types come from the sources, so that type checking requires no build.
const DIST = new URL('../dist/cli/', import.meta.url);
/** @type {typeof import('../src/cli/manual.ts')} */
const { INHERITED, pathOf, sectionsOf } = await import(new URL('manual.js', DIST).href);
/** @type {typeof import('../src/cli/program.ts')} */
const { program } = await import(new URL('program.js', DIST).href);

const FILE = new URL('../docs/cli.md', import.meta.url);

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('\n', ' ');

/**
 * Pages of this folder become links.
 * @param {string} list
 */
const linked = (list) =>
  list
    .split(', ')
    .map((name) => {
      const page = name.replace(/^docs\//, '');
      if (page !== name && existsSync(new URL(page, FILE))) return `[${page}](${page})`;
      const command = /^isoverbs (\w+)$/.exec(name);
      // The command that commander adds by itself has no page.
      return command === null || command[1] === 'help' ? `\`${name}\`` : `[${name}](#isoverbs-${command[1]})`;
    })
    .join(', ');

/** Items that only the first page lists, for all commands. */
const GENERAL = new Set(['-h, --help', 'ISOVERBS_LOG', '0', '2', '130']);

/**
 * @param {import('../src/cli/manual.ts').Section} section
 * @param {boolean} isFirst
 */
function markdown({ title, text = '', items = [], isCode }, isFirst) {
  if (title === 'Name') return `${text.split(' - ')[1].replace(/^./, (letter) => letter.toUpperCase())}.`;
  if (title === 'Synopsis') return `\`\`\`\n${text}\n\`\`\``;
  if (title === 'See also') return `See also: ${linked(text)}`;
  if (items.length === 0) return text;
  if (isCode) {
    const lines = items.map(({ term, text: what }) => `# ${what}\n${term}`);
    return `\`\`\`sh\n${lines.join('\n')}\n\`\`\``;
  }
  const own = items.filter(({ term }) => isFirst || !GENERAL.has(term));
  if (own.length === 0) return '';
  const rows = own.map(({ term, text: what }) => `| \`${term.replaceAll('|', '\\|')}\` | ${cell(what)} |`);
  return `| ${title.toLowerCase()} | |\n|---|---|\n${rows.join('\n')}`;
}

/**
 * @param {import('commander').Command} command
 * @returns {string[]}
 */
function pages(command) {
  const isFirst = command.parent === null;
  const help = command.createHelp();
  const body = sectionsOf(command, help)
    .filter(({ title }) => title !== INHERITED)
    .map((section) => markdown(section, isFirst))
    .filter((part) => part !== '');
  const subs = command.commands.filter((sub) => help.visibleCommands(command).includes(sub));
  return [`${isFirst ? '#' : '##'} ${pathOf(command)}`, ...body, ...subs.flatMap(pages)];
}

const INTRO =
  '`npm run docs:cli` generates this page from `--help`. In a clone, run `node dist/cli/main.js` instead of `isoverbs`.';

const [title, ...rest] = pages(await program());
const text = `${[title, INTRO, ...rest].join('\n\n')}\n`;
if (process.argv.includes('--check')) {
  if (!existsSync(FILE) || readFileSync(FILE, 'utf8') !== text) {
    console.error('docs/cli.md does not match --help: run npm run docs:cli');
    process.exit(1);
  }
} else {
  writeFileSync(FILE, text);
}
