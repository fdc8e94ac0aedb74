/** The style sheet of the HTML page. */
import { DARK_COLORS } from './chart.ts';

/** In dark mode, colours of the charts are replaced on the page alone: a picture that is saved stays dark on white. */
const DARK_CHARTS = Object.entries(DARK_COLORS).flatMap(([light, dark]) => [
  `.chart [fill="${light}"] { fill: ${dark}; }`,
  `.chart [stroke="${light}"] { stroke: ${dark}; }`,
]);

export const STYLE = `
:root { color-scheme: light dark; --text: #1c1c1c; --page: #fff; --soft: #595959; --line: #d0d0d0; --head: #f3f3f3;
  --link: #0b57a4; --good: #1b6e35; --bad: #b3261e; --allowed: #b9dcc3; --grid: #ddd; }
@media screen and (prefers-color-scheme: dark) {
:root { --text: #e8e8e8; --page: #17191c; --soft: #a8a8a8; --line: #3c4046; --head: #24272c; --link: #8ab8f0;
  --good: #7fd197; --bad: #ff9a91; --allowed: #2c5a3a; --grid: #3c4046; }
.chart text { fill: var(--text); } .chart [fill="white"] { fill: var(--page); }
.chart [stroke="black"] { stroke: var(--text); } .chart [fill="black"] { fill: var(--text); }
.chart [stroke="#ddd"] { stroke: var(--grid); }
${DARK_CHARTS.join('\n')}
}
* { box-sizing: border-box; }
html { scroll-padding-top: 0.5rem; }
body { margin: 0 auto; padding: 1rem; max-width: 1240px; color: var(--text); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.35rem; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin-top: 2rem; } h4 { font-size: 1rem; margin-bottom: 0; } h4 + p { margin-top: 0; }
a { color: var(--link); } nav ul { padding-left: 1.2rem; margin: 0.2rem 0; }
nav ul ul { columns: 24rem auto; font-size: 0.9rem; }
code, pre { font: 0.85rem/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: 0.5rem; background: var(--head); }
.result { font-size: 1.1rem; } .note, h4 + p, .where { color: var(--soft); font-size: 0.9rem; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 1rem 0; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; }
.box { overflow: auto; max-height: 90vh; margin: 0.5rem 0 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--line); min-width: 4rem; }
thead th { position: sticky; top: 0; z-index: 1; background: var(--head); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tbody th { font-weight: normal; } tr:target, section:target > h3, section:target > h4 { background: var(--head); }
thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
[aria-sort="ascending"] button::after { content: " \\25b2"; } [aria-sort="descending"] button::after { content: " \\25bc"; }
.holds { color: var(--good); } .fails, .missing { color: var(--bad); font-weight: 600; }
.waiting, .never, .reported { color: var(--soft); }
.bar { display: block; width: 96px; height: 14px; } .bar .track { fill: var(--head); stroke: var(--line); }
.bar .allowed { fill: var(--allowed); } .bar .measured { fill: var(--text); }
.filter { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: end; margin: 0.5rem 0; }
.filter label { display: flex; flex-direction: column; font-size: 0.85rem; }
.filter select, .filter input, .actions button { font: inherit; font-size: 0.9rem; min-height: 1.8rem; }
.actions { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0.3rem 0; }
.chart { border: 1px solid var(--line); border-radius: 4px; margin: 0.5rem 0; }
.chart svg { display: block; max-width: 100%; height: auto; }
.narrow { display: none; } summary { cursor: pointer; } [hidden] { display: none !important; }
@media screen and (max-width: 760px) { .wide { display: none; } .narrow { display: block; } body { padding: 0.75rem; }
  dl.facts { grid-template-columns: 1fr; } dl.facts dd { margin-bottom: 0.5rem; }
  .claims .box { max-height: none; } .claims thead th { position: static; } .claims thead tr { display: flex; flex-wrap: wrap; }
  .claims tbody tr { display: block; padding: 0.5rem 0; border-bottom: 2px solid var(--line); }
  .claims tbody th, .claims tbody td { display: block; border: 0; padding: 0.1rem 0; } }
@media print { .box { max-height: none; overflow: visible; } thead th { position: static; } .filter, .actions { display: none !important; }
  body { max-width: none; font-size: 11pt; } .chart, tr { break-inside: avoid; } .claims table { font-size: 0.7rem; } nav { display: none; } }
`;
