/** The texts of an SVG that vega drew, with their places in a wide font. */

/** Widths of the letters from the space to the tilde in DejaVu Sans and in its bold face, in thousandths of an em. */
const REGULAR =
  '318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 337 337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 611 732 684 989 685 611 685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 634 612 635 635 411 521 392 634 592 818 592 592 525 636 337 636 838';
const BOLD =
  '348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 400 400 838 838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812 774 1103 771 724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 712 687 716 716 493 595 478 712 652 924 645 652 582 712 365 712 838';
const [REGULAR_EM, BOLD_EM] = [REGULAR, BOLD].map((list) => list.split(' ').map((one) => Number(one) / 1000));

/** One text: its left and right end, and its baseline, in pixels of the picture. */
export interface SvgText {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly y: number;
}

const shiftOf = (tag: string) => /translate\(([-\d.]+),([-\d.]+)\)/.exec(tag)?.slice(1).map(Number) ?? [0, 0];
const attribute = (tag: string, name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];

/** All texts, as wide as they are in DejaVu Sans. */
export function textsOf(svg: string): SvgText[] {
  const texts: SvgText[] = [];
  const places: (readonly [x: number, y: number])[] = [[0, 0]];
  for (const [, tag, content] of svg.matchAll(/<((?:g|\/g|text)\b[^>]*)>((?:[^<]|<\/?tspan)*<\/text>)?/g)) {
    const [x, y] = places.at(-1)!;
    const [dx, dy] = shiftOf(tag);
    if (tag.startsWith('/')) places.pop();
    else if (tag.startsWith('g') && !tag.endsWith('/')) places.push([x + dx, y + dy]);
    else if (tag.startsWith('text')) texts.push(...linesOf(tag, content, x + dx, y + dy));
  }
  return texts;
}

/** The lines of a text, of which each is a tspan if there are several. */
function linesOf(tag: string, content: string, x: number, y: number): SvgText[] {
  const spans = [...content.matchAll(/<tspan([^>]*)>([^<]*)</g)];
  if (spans.length === 0) return [placed(tag, content.replace('</text>', ''), x, y)];
  let lineY = y;
  return spans.map(([, attributes, line]) => {
    lineY += Number(attribute(attributes, 'dy') ?? 0);
    return placed(tag, line, x, lineY);
  });
}

function placed(tag: string, content: string, x: number, y: number): SvgText {
  const text = content.replaceAll('&amp;', '&').replaceAll('&lt;', '<').replaceAll('&gt;', '>');
  const em = attribute(tag, 'font-weight') === 'bold' ? BOLD_EM : REGULAR_EM;
  const sizePx = Number.parseFloat(attribute(tag, 'font-size') ?? '11');
  const width = [...text].reduce((sum, letter) => sum + (em[letter.charCodeAt(0) - 32] ?? 1), 0) * sizePx;
  const share = { start: 0, middle: 0.5, end: 1 }[attribute(tag, 'text-anchor') ?? 'start'] ?? 0;
  return { text, left: x - share * width, right: x + (1 - share) * width, y };
}

/** Pairs of texts that run into each other, and texts that do not fit into the picture. */
export function crowdedTexts(svg: string): string[] {
  const width = Number(/^<svg [^>]* width="(\d+)"/.exec(svg)?.[1]);
  const texts = textsOf(svg);
  const outside = texts.filter(({ left, right }) => left < 0 || right > width).map(({ text }) => text);
  const overlaps = texts.flatMap((one, i) =>
    texts
      .slice(i + 1)
      .filter((other) => one.text !== other.text && Math.abs(one.y - other.y) < 8)
      .filter((other) => one.left < other.right && other.left < one.right)
      .map((other) => `${one.text} | ${other.text}`),
  );
  return [...outside, ...overlaps];
}
