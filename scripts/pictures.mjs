/**
 * Draws docs/pictures/*.svg from the texts next to them, for light and dark pages.
 *   node scripts/pictures.mjs [--check]
 * A text is a title, and then one line for each element:
 *   row: NAME | NOTE ; NAME | NOTE       boxes side by side (layers)
 *   link: DOWN | UP                      arrows between two rows, with a label for each direction (layers)
 *   actors: NAME ; NAME                  (sequence)
 *   FROM -> TO: TEXT                     a call; `-->` is an answer (sequence)
 *   note NAME: TEXT                      `/` breaks the line (sequence)
 *   group: TEXT ... end                  a frame around repeated messages (sequence)
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

const FOLDER = new URL('../docs/pictures/', import.meta.url);
const WIDTH = 860;
const MARGIN = 20;
const STYLE = `
text { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
.name { font-weight: 600; } .small { font-size: 11.5px; fill: #59636e; } .title { font-size: 15px; font-weight: 600; }
.page { fill: #ffffff; } .box { fill: #eef4fc; stroke: #4a7ab5; } .note { fill: #fff6dd; stroke: #c9a227; }
.line { stroke: #59636e; fill: none; } .answer { stroke-dasharray: 5 4; } .life { stroke: #b8c0c8; stroke-dasharray: 2 4; }
.head { fill: #59636e; } .frame { fill: none; stroke: #8250a8; stroke-dasharray: 7 4; }
`;
const DARK = `
text { fill: #e6edf3; } .small { fill: #9da7b1; } .page { fill: #0d1117; } .box { fill: #16263b; stroke: #5b93d6; }
.note { fill: #33290b; stroke: #a8871d; } .line { stroke: #9da7b1; } .life { stroke: #484f58; } .head { fill: #9da7b1; }
.frame { stroke: #b083d6; }
`;

/** @param {string} text */
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** @param {number} x @param {number} y @param {string} words @param {string} kind @param {string} anchor */
const label = (x, y, words, kind = '', anchor = 'middle') =>
  `<text x="${x}" y="${y}" text-anchor="${anchor}"${kind && ` class="${kind}"`}>${escaped(words)}</text>`;

/** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} kind */
const box = (x, y, width, height, kind = 'box') =>
  `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="5" class="${kind}"/>`;

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {boolean} isAnswer */
const arrow = (x1, y1, x2, y2, isAnswer = false) =>
  `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" class="line${isAnswer ? ' answer' : ''}" marker-end="url(#head)"/>`;

/**
 * Rows of boxes, from top to bottom.
 * @param {string[]} lines
 */
function layers(lines) {
  let y = 44;
  const parts = [];
  for (const line of lines) {
    const [, kind, rest] = /^(row|link): (.*)$/.exec(line) ?? fail(line);
    if (kind === 'link') {
      const [down, up] = rest.split(' | ');
      const middle = WIDTH / 2;
      parts.push(
        arrow(middle - 14, y, middle - 14, y + 30),
        label(middle - 26, y + 20, down, 'small', 'end'),
      );
      if (up)
        parts.push(
          arrow(middle + 14, y + 30, middle + 14, y, true),
          label(middle + 26, y + 20, up, 'small', 'start'),
        );
      y += 34;
      continue;
    }
    const boxes = rest.split(' ; ').map((one) => one.split(' | '));
    const width = (WIDTH - 2 * MARGIN - 10 * (boxes.length - 1)) / boxes.length;
    const noteLines = Math.max(...boxes.map(([, note = '']) => (note === '' ? 0 : note.split(' / ').length)));
    const height = 28 + 15 * noteLines;
    for (const [i, [name, note = '']] of boxes.entries()) {
      const x = MARGIN + i * (width + 10);
      const middle = x + width / 2;
      parts.push(box(x, y, width, height), label(middle, y + 19, name, 'name'));
      if (note === '') continue;
      for (const [n, words] of note.split(' / ').entries())
        parts.push(label(middle, y + 35 + 15 * n, words, 'small'));
    }
    y += height + 4;
  }
  return { parts, height: y + 10 };
}

/**
 * Lifelines with messages between them.
 * @param {string[]} lines
 */
function sequence(lines) {
  const names = lines[0].replace(/^actors: /, '').split(' ; ');
  const step = (WIDTH - 2 * MARGIN) / names.length;
  /** @param {string} name */
  const at = (name) => (names.includes(name) ? MARGIN + step * (names.indexOf(name) + 0.5) : fail(name));
  const parts = names.map((name) => box(at(name) - 75, 40, 150, 28) + label(at(name), 59, name, 'name'));
  let y = 92;
  let groupTop = 0;
  for (const line of lines.slice(1)) {
    const message = /^(.+?) (--?>) (.+?): (.*)$/.exec(line);
    const note = /^note (.+?): (.*)$/.exec(line);
    const group = /^group: (.*)$/.exec(line);
    if (message !== null) {
      const [from, to] = [at(message[1]), at(message[3])];
      const words = message[4].split(' / ');
      for (const one of words) {
        parts.push(label((from + to) / 2, y, one, 'small'));
        y += 14;
      }
      parts.push(arrow(from, y - 8, to + (to > from ? -2 : 2), y - 8, message[2] === '-->'));
      y += 16;
    } else if (note !== null) {
      const words = note[2].split(' / ');
      const width = Math.max(...words.map((one) => one.length)) * 6.4 + 20;
      const x = Math.min(Math.max(at(note[1]) - width / 2, MARGIN), WIDTH - MARGIN - width);
      parts.push(box(x, y - 12, width, 12 + 15 * words.length, 'note'));
      for (const [n, one] of words.entries()) parts.push(label(x + width / 2, y + 4 + 15 * n, one, 'small'));
      y += 18 + 15 * words.length;
    } else if (group !== null) {
      groupTop = y - 10;
      parts.push(label(MARGIN + 8, y + 6, group[1], 'name', 'start'));
      y += 30;
    } else if (line === 'end') {
      parts.push(box(MARGIN, groupTop, WIDTH - 2 * MARGIN, y - groupTop - 12, 'frame'));
      y += 14;
    } else {
      fail(line);
    }
  }
  const lives = names.map(
    (name) => `<line x1="${at(name)}" y1="68" x2="${at(name)}" y2="${y - 8}" class="life"/>`,
  );
  return { parts: [...lives, ...parts], height: y + 4 };
}

/** @param {string} line @returns {never} */
function fail(line) {
  throw new Error(`pictures: cannot draw '${line}'`);
}

/** @param {string} text */
function draw(text) {
  const [title, ...lines] = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const { parts, height } = lines[0].startsWith('actors: ') ? sequence(lines) : layers(lines);
  const head =
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">' +
    '<path d="M0,0L8,4L0,8z" class="head"/></marker>';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">
<style>${STYLE}@media (prefers-color-scheme: dark) {${DARK}}
</style>
<defs>${head}</defs>
<rect width="${WIDTH}" height="${height}" class="page"/>
${label(MARGIN, 26, title, 'title', 'start')}
${parts.join('\n')}
</svg>
`;
}

for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.txt'))) {
  const svg = new URL(name.replace('.txt', '.svg'), FOLDER);
  const drawn = draw(readFileSync(new URL(name, FOLDER), 'utf8'));
  if (!process.argv.includes('--check')) {
    writeFileSync(svg, drawn);
  } else if (!existsSync(svg) || readFileSync(svg, 'utf8') !== drawn) {
    console.error(`docs/pictures/${name} has changed since its picture was drawn: run npm run docs:pictures`);
    process.exitCode = 1;
  }
}
