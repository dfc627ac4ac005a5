// Sorts, filters and shows the suspects, and plans a review. What comes from the data is only ever set as
// text or as the address of a picture, never read as HTML.
(() => {
  "use strict";
  const PAGE = 60, PRINTED = 100;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const list = byId("list");
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const nameOf = (code) => data.classes[code] ?? "";
  const count = (number) => Math.round(number).toLocaleString("en-US");

  // The first suspects are in the page already; the others are made when they are first shown.
  const nodes = Array.from(list.children);
  const state = { sort: "trust", descending: false, length: PAGE };

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function fillPicture(node, item) {
    const image = node.querySelector("img");
    if (!image) return;
    if (!item.picture) {
      image.replaceWith(element("span", "no-picture", "This picture could not be read"));
      return;
    }
    image.alt = `Example ${item.id}`;
    image.classList.toggle("coarse", item.coarse);
    image.src = item.picture;
  }

  function value(cell) {
    const made = element("li", `value ${cell.mark || "common"}`);
    const amount = element("span", "amount"), bold = element("b");
    bold.append(element("bdi", "", cell.value));
    amount.append(bold, cell.mark ? ` ${cell.mark}` : "");
    made.append(element("bdi", "column", cell.column), " ", amount);
    if (cell.usual) {
      const usual = element("span", "usual", "usually ");
      usual.append(element("bdi", "", cell.usual));
      made.append(" ", usual);
    }
    return made;
  }

  function passage(text) {
    const made = element("p", "text", text);
    made.dir = "auto";
    return made;
  }

  function made(item) {
    const node = byId("blank").content.firstElementChild.cloneNode(true);
    const fields = { ...item, label_name: nameOf(item.label), guess_name: nameOf(item.guess) };
    for (const slot of node.querySelectorAll("[data-field]")) slot.textContent = fields[slot.dataset.field];
    const badge = node.querySelector("[data-kind]");
    badge.className = `badge ${item.kind || "unlisted"}`;
    badge.textContent = item.kind || "not listed";
    node.querySelector("[data-level]").setAttribute("width", `${100 * (item.trust ?? 0)}%`);
    fillPicture(node, item);
    node.querySelector("[data-texts]")?.replaceChildren(...item.texts.map(passage));
    node.querySelector("[data-cells]")?.replaceChildren(...item.cells.map(value));
    return node;
  }

  // A long text is folded, with a button that opens it; without this script it is open.
  function fold(node, item) {
    if (!item.folded) return;
    const texts = node.querySelector("[data-texts]");
    const button = element("button", "unfold");
    button.type = "button";
    const set = (folded) => {
      texts.classList.toggle("folded", folded);
      button.setAttribute("aria-expanded", String(!folded));
      button.textContent = folded ? "Show all" : "Show less";
    };
    button.addEventListener("click", () => set(!texts.classList.contains("folded")));
    set(true);
    texts.after(button);
  }

  const ready = new Set();
  function nodeOf(item) {
    const place = item.rank - 1;
    nodes[place] ??= made(item);
    if (!ready.has(place)) {
      ready.add(place);
      fold(nodes[place], item);
    }
    return nodes[place];
  }

  const content = (item) => [item.id, ...(item.texts ?? []), ...(item.cells ?? []).flatMap((c) => [c.column, c.value])];
  const searched = data.items.map((item) => content(item).join("\n").toLowerCase());

  const keys = {
    trust: (a, b) => (a.trust ?? 2) - (b.trust ?? 2),
    confidence: (a, b) => (a.confidence ?? 2) - (b.confidence ?? 2),
    label: (a, b) => collator.compare(nameOf(a.label), nameOf(b.label)),
    guess: (a, b) => collator.compare(nameOf(a.guess), nameOf(b.guess)),
    index: (a, b) => a.index - b.index,
  };

  function matching() {
    const [label, guess, kind] = ["by-label", "by-guess", "by-kind"].map((id) => byId(id).value);
    const words = byId("query").value.toLowerCase().split(/\s+/).filter(Boolean);
    return data.items.filter((item) =>
      (!label || String(item.label) === label) && (!guess || String(item.guess) === guess) &&
      (!kind || item.kind === kind) && words.every((word) => searched[item.rank - 1].includes(word)));
  }

  function ordered(items) {
    const sign = state.descending ? -1 : 1;
    return items.sort((a, b) => sign * keys[state.sort](a, b) || a.rank - b.rank);
  }

  function show(length = state.length) {
    const found = ordered(matching());
    list.replaceChildren(...found.slice(0, length).map(nodeOf));
    const left = found.length - length;
    byId("more").hidden = left <= 0;
    byId("more").textContent = `Show ${Math.min(left, PAGE)} more`;
    byId("none").hidden = found.length > 0;
    byId("status").textContent = found.length === data.items.length
      ? `${count(found.length)} in all` : `${count(found.length)} of ${count(data.items.length)} match`;
    byId("direction").textContent = state.descending ? "↓" : "↑";
    byId("direction").setAttribute("aria-pressed", String(state.descending));
    for (const head of document.querySelectorAll("th[data-sort]")) {
      if (head.dataset.sort !== state.sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    }
  }

  function refresh() {
    state.length = PAGE;
    show();
  }

  function sortBy(sort, descending) {
    state.sort = sort;
    state.descending = descending;
    byId("sort").value = sort;
    refresh();
  }

  function options(select, field) {
    const codes = Array.from(new Set(data.items.map((item) => item[field])));
    codes.sort((a, b) => collator.compare(nameOf(a), nameOf(b)));
    for (const code of codes) select.append(new Option(nameOf(code), String(code)));
  }

  // From a number in the tables of classes to its suspects.
  function choose(id, code) {
    const select = byId(id);
    select.value = code ?? "";
    if (select.value !== (code ?? "")) {
      // None of that class is in this file: the list says so, and not that all match.
      select.append(new Option(nameOf(code), code));
      select.value = code;
    }
  }

  function startList() {
    options(byId("by-label"), "label");
    options(byId("by-guess"), "guess");
    const form = byId("controls");
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => { if (event.target.id !== "sort") refresh(); });
    byId("clear").addEventListener("click", () => {
      form.reset();
      sortBy("trust", false);
    });
    byId("sort").addEventListener("change", (event) => sortBy(event.target.value, false));
    byId("direction").addEventListener("click", () => sortBy(state.sort, !state.descending));
    byId("more").addEventListener("click", () => {
      const before = state.length;
      state.length += PAGE;
      show();
      // The keyboard goes on where the new ones begin.
      list.children[before]?.setAttribute("tabindex", "-1");
      list.children[before]?.focus({ preventScroll: true });
    });
    for (const head of document.querySelectorAll("th[data-sort]")) {
      const button = element("button", "", head.textContent);
      button.type = "button";
      button.addEventListener("click", () =>
        sortBy(head.dataset.sort, state.sort === head.dataset.sort && !state.descending));
      head.replaceChildren(button);
    }
    for (const link of document.querySelectorAll("a[data-label]")) {
      link.addEventListener("click", () => {
        form.querySelector("#query").value = "";
        byId("by-kind").value = "";
        choose("by-label", link.dataset.label);
        choose("by-guess", link.dataset.guess);
        refresh();
      });
    }
    addEventListener("beforeprint", () => show(Math.max(PRINTED, state.length)));
    addEventListener("afterprint", () => show());
    show();
  }

  function startPlanner() {
    const { points, reach, top, height } = data.curve;
    const range = byId("budget-range"), number = byId("budget-number"), marker = byId("marker");
    const found = (n) => {
      const after = points.findIndex((point) => point[0] >= n);
      if (after < 0) return points.at(-1)[1];
      if (after === 0) return points[0][1];
      const [[n0, m0], [n1, m1]] = [points[after - 1], points[after]];
      return m0 + (m1 - m0) * (n - n0) / (n1 - n0);
    };
    const tell = (n) => {
      const m = found(n), errors = count(m);
      const one = element("b", "", `about ${errors} wrong label${errors === "1" ? "" : "s"}`);
      // The share is that of the number that stands there: 18 of 29 are 62 %, whatever 18 was rounded from.
      const part = Math.round(m) >= n ? "nearly all" : `${Math.round(100 * Math.round(m) / n)} %`;
      byId("budget-found").replaceChildren("you will find ", one, ` (${part} of what you look at).`);
      const x = `${100 * Math.min(n / reach, 1)}%`, line = marker.querySelector("line");
      marker.setAttribute("visibility", n <= reach ? "visible" : "hidden");
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      const circle = marker.querySelector("circle");
      circle.setAttribute("cx", x);
      circle.setAttribute("cy", String(height - (height - 18) * Math.min(m / top, 1)));
    };
    const wanted = (input) => Math.min(Math.max(Math.round(Number(input.value)) || 1, 1), Number(number.max));
    range.addEventListener("input", () => { number.value = range.value; tell(wanted(range)); });
    number.addEventListener("input", () => { range.value = String(wanted(number)); tell(wanted(number)); });
    const form = byId("planner");
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    tell(wanted(number));
  }

  // The choice is kept in this page and nowhere else.
  function startTheme() {
    const button = byId("theme"), root = document.documentElement;
    const preferred = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ?? (preferred.matches ? "dark" : "light")) === "dark";
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.setAttribute("title", "Switch between light and dark");
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      name();
    });
    preferred.addEventListener("change", name);
    button.hidden = false;
    name();
  }

  startTheme();
  if (data.curve) startPlanner();
  startList();
})();
