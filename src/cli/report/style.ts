/** The style sheet of the HTML page. Charts are dark on white in any colour scheme. */
export const STYLE = `
:root { color-scheme: light dark; --text: #1c1c1c; --page: #fff; --soft: #595959; --line: #d0d0d0; --head: #f3f3f3;
  --link: #0b57a4; --good: #1b6e35; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --page: #17191c; --soft: #a8a8a8; --line: #3c4046;
  --head: #24272c; --link: #8ab8f0; --good: #7fd197; --bad: #ff9a91; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 1180px; color: var(--text); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.35rem; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin-top: 2rem; } h4 { font-size: 1rem; margin-bottom: 0; } h4 + p { margin-top: 0; }
a { color: var(--link); } nav ul { padding-left: 1.2rem; margin: 0.2rem 0; }
nav ul ul { columns: 24rem auto; font-size: 0.9rem; }
code, pre { font: 0.85rem/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: 0.5rem; background: var(--head); }
.note, h4 + p { color: var(--soft); font-size: 0.9rem; }
.box { overflow-x: auto; margin: 0.5rem 0 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--line); min-width: 4rem; }
thead th { background: var(--head); }
.holds { color: var(--good); } .fails, .missing { color: var(--bad); font-weight: 600; }
.waiting, .never, .reported { color: var(--soft); }
.chart { background: #fff; border: 1px solid var(--line); border-radius: 4px; margin: 0.5rem 0; }
.chart svg { display: block; max-width: 100%; height: auto; }
.narrow { display: none; }
summary { cursor: pointer; }
@media (max-width: 760px) { .wide { display: none; } .narrow { display: block; } body { padding: 0.75rem; } }
`;
