/**
 * The script of the HTML page: filters, order, and files to save. Without it, the page shows all claims in the order of the
 * papers. It asks for nothing from elsewhere.
 */
export const PAGE_SCRIPT = String.raw`
'use strict';
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const data = JSON.parse($('#data').textContent);

  function save(name, type, parts) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(parts, { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  const csvCell = (value) => (/[",\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value);
  const csv = (rows) => rows.map((row) => row.map((cell) => csvCell(String(cell ?? ''))).join(',')).join('\n') + '\n';
  const objectsCsv = (objects) => {
    const names = [...new Set(objects.flatMap((one) => Object.keys(one)))];
    return csv([names, ...objects.map((one) => names.map((name) => one[name]))]);
  };
  function tableCsv(table) {
    return csv($$('tr', table).map((row) => $$('th, td', row).map((cell) => cell.textContent.trim())));
  }
  function svgOf(section) {
    const shown = $$('.chart', section).find((one) => getComputedStyle(one).display !== 'none');
    return new XMLSerializer().serializeToString($('svg', shown));
  }
  function png(section, name) {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name + '.png', 'image/png', [blob]), 'image/png');
    };
    image.src = 'data:image/svg+xml,' + encodeURIComponent(svgOf(section));
  }
  const saves = {
    json: () => save('report.json', 'application/json', [JSON.stringify(data, null, 2)]),
    claims: () => save('claims.csv', 'text/csv', [objectsCsv(data.paper)]),
    lines: () => save('lines.csv', 'text/csv', [objectsCsv(data.rows)]),
    svg: (section) => save(section.id + '.svg', 'image/svg+xml', [svgOf(section)]),
    png: (section) => png(section, section.id),
    csv: (section) => save(section.id + '.csv', 'text/csv', [tableCsv($('table', section))]),
  };
  document.addEventListener('click', ({ target }) => {
    const what = target.dataset?.save;
    if (what !== undefined) saves[what](target.closest('section'));
  });
  for (const one of $$('.actions, .filter')) one.hidden = false;

  const form = $('.filter');
  const rows = $$('.claims tbody tr');
  const fields = ['paper', 'verdict', 'text'];
  function filter() {
    const { paper, verdict, text } = form.elements;
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !(
        (paper.value === '' || row.dataset.paper === paper.value) &&
        (verdict.value === '' || row.dataset.verdict === verdict.value) &&
        words.every((word) => content.includes(word))
      );
    }
    $('output', form).textContent = rows.filter((row) => !row.hidden).length + ' of ' + rows.length + ' claims';
  }
  function onInput() {
    filter();
    const set = fields.filter((name) => form.elements[name].value !== '');
    const words = set.map((name) => name + '=' + encodeURIComponent(form.elements[name].value));
    history.replaceState(null, '', words.length === 0 ? '#claims' : '#claims?' + words.join('&'));
  }
  function onHash() {
    const [id, words] = decodeURI(location.hash.slice(1)).split('?');
    const wanted = new URLSearchParams(words ?? '');
    if (form === null) return;
    if (words !== undefined || rows.some((row) => row.id === id)) {
      for (const name of fields) form.elements[name].value = wanted.get(name) ?? '';
      filter();
    }
    if (words !== undefined) document.getElementById(id)?.scrollIntoView();
  }
  function sort(head) {
    const table = head.closest('table');
    const at = head.cellIndex;
    const direction = head.getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
    for (const other of $$('thead th', table)) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', direction);
    const keyOf = (row) => row.cells[at].dataset.sort ?? row.cells[at].textContent.trim();
    const sign = direction === 'ascending' ? 1 : -1;
    const order = (a, b) => sign * keyOf(a).localeCompare(keyOf(b), 'en', { numeric: true });
    $('tbody', table).append(...$$('tbody tr', table).sort(order));
  }
  for (const head of $$('table.sorts thead th')) {
    const button = document.createElement('button');
    button.textContent = head.textContent;
    button.addEventListener('click', () => sort(head));
    head.replaceChildren(button);
  }
  if (form !== null) {
    form.addEventListener('input', onInput);
    form.addEventListener('submit', (event) => event.preventDefault());
    window.addEventListener('hashchange', onHash);
    filter();
    onHash();
  }
})();
`;
