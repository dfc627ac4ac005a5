// Judging by keyboard and touch. A verdict is called saved only when the server has said that it is; until then
// it waits in the outbox, which a reload does not empty, and is sent again with the same key, which the server
// writes once however often it comes. Parts of pages come from the server, which escapes all of the data in them;
// what this script itself sets is text.
(() => {
  "use strict";
  const root = document.documentElement;
  try {
    if (localStorage.getItem("icelens-theme")) root.dataset.theme = localStorage.getItem("icelens-theme");
  } catch { /* storage may be turned off: then nothing is remembered */ }

  const byId = (id) => document.getElementById(id);
  const suspect = () => byId("suspect");
  const list = () => byId("list");
  // Another review may be served at this address later: what is remembered is remembered for this one.
  let run = "";
  const kept = (storage, name, fallback) => {
    try { return JSON.parse(storage.getItem(`icelens-${name}-${run}`)) ?? fallback; } catch { return fallback; }
  };
  const keep = (storage, name, value) => {
    try { storage.setItem(`icelens-${name}-${run}`, JSON.stringify(value)); } catch { /* as above */ }
  };
  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
  const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // What was done in this tab: verdicts not yet saved, examples to undo, judged and seen, the newest last.
  const state = { outbox: [], done: [], seen: [], sending: false, ahead: null, useKeys: true, classes: null, trouble: "", deepest: 0 };
  const remember = () => {
    keep(sessionStorage, "outbox", state.outbox);
    keep(sessionStorage, "done", state.done.slice(-500));
    keep(sessionStorage, "seen", state.seen.slice(-100));
    keep(sessionStorage, "deepest", state.deepest);
  };
  let tabs = null;

  // ---- sending

  function post(path, fields) {
    const key = newKey();
    state.outbox.push({ path, fields: { ...fields, run, key } });
    remember();
    if (state.trouble) alarm(state.trouble);
    drain();
    return key;
  }

  async function drain() {
    if (state.sending) return;
    state.sending = true;
    for (let failures = 0; state.outbox.length;) {
      const entry = state.outbox[0], answer = await send(entry);
      if (answer.again) {
        failures += 1;
        alarm(answer.again);
        await wait(Math.min(0.4 * 2 ** failures, 5));
        continue;
      }
      failures = 0;
      state.outbox.shift();
      remember();
      alarm("");
      if (answer.refused) refused(entry, answer.refused);
      else confirmed(entry, answer.body);
    }
    state.sending = false;
  }

  async function send(entry) {
    try {
      const answer = await fetch(entry.path, {
        method: "POST", body: new URLSearchParams(entry.fields), headers: { accept: "application/json" },
        signal: AbortSignal.timeout(10000),
      });
      if (answer.ok) return { body: await answer.json() };
      if (answer.status === 403) return { again: "the server was started anew. Open the address that it printed" };
      if (answer.status === 409) return { again: "another review runs at this address. Start this one again" };
      if (answer.status === 408 || answer.status >= 500) return { again: "the server could not store it" };
      return { refused: await answer.text() };
    } catch {
      return { again: "the server does not answer" };
    }
  }

  function alarm(why) {
    const box = byId("alarm"), many = state.outbox.length;
    state.trouble = why;
    const text = why && `${many === 1 ? "1 verdict is" : `${many} verdicts are`} not saved yet: ${why}. Trying again…`;
    if (box.textContent !== text) box.textContent = text;
    box.hidden = !why;
  }

  function refused(entry, why) {
    state.done = state.done.filter((one) => one.key !== entry.fields.key);
    remember();
    for (const node of nodesOf(entry.fields.index)) node.classList.remove("sending");
    say(`Not saved: ${why.trim()}`, false);
  }

  function confirmed(entry, answer) {
    apply(answer);
    tabs?.postMessage(answer);
    const isVerdict = entry.path === "/verdict";
    say(answer.said, isVerdict);
    if (isVerdict || answer.index === null) return;
    if (suspect()) open(`/example/${answer.index}`);
    else list()?.querySelector(`[data-index="${answer.index}"]`)?.focus();
  }

  const nodesOf = (index) => document.querySelectorAll(`[data-index="${Number(index)}"][data-verdict]`);

  // What the server says now stands, here or by word of another tab.
  function apply(answer) {
    if (answer.index !== null) {
      for (const node of nodesOf(answer.index)) {
        node.classList.remove("sending");
        node.dataset.verdict = answer.verdict;
        node.querySelector("[data-said]").textContent = answer.badge;
      }
    }
    const { sentence, share, worth, enough } = answer.progress;
    byId("sentence").textContent = sentence;
    byId("share").setAttribute("width", `${100 * share}%`);
    byId("reach").hidden = !share;
    byId("worth").textContent = worth;
    byId("worth").classList.toggle("enough", enough);
    recount();
  }

  // The count above a list is that of its filters, which only the server knows for all of the list.
  let recounts = 0;
  async function recount() {
    const box = byId("matching"), mine = (recounts += 1);
    if (!box) return;
    try {
      const answer = await fetch(`/counts?${document.body.dataset.filters}`, { signal: AbortSignal.timeout(10000) });
      const text = answer.ok ? await answer.text() : "";
      if (text && mine === recounts) box.textContent = text;
    } catch { /* it is told with the next verdict */ }
  }

  let fading;
  function say(text, canUndo) {
    byId("toast").hidden = false;
    byId("toast-text").textContent = text;
    byId("said").textContent = text;
    byId("undo-last").hidden = !canUndo;
    clearTimeout(fading);
    fading = setTimeout(() => { byId("toast").hidden = true; }, 8000);
  }

  // ---- judging

  let moving = false;

  function judge(node, fields) {
    const index = Number(node.dataset.index);
    if (node.dataset.index === "") return;
    // A key that is pressed while the next one is on its way was not meant for it, nor for this one again.
    if (node === suspect() && (moving || node.classList.contains("sending"))) return;
    if (fields.verdict === "guess") fields = { class: node.dataset.guess };
    closeTyping();
    node.classList.add("sending");
    state.done.push({ index, key: post("/verdict", { index, ...fields }) });
    remember();
    if (node === suspect()) goNext();
    else focusItem(following(node, isOpen) ?? node);
  }

  function undo() {
    const last = state.done.pop();
    // The one that is left for it comes again afterwards.
    if (suspect()) state.seen = state.seen.filter((one) => String(one) !== suspect().dataset.index);
    remember();
    post("/undo", last ? { of: last.key } : {});
  }

  // ---- one at a time

  // How many examples lie before this one in the browser's history, and the last that lies behind it.
  const depth = () => history.state?.depth ?? 0;
  const push = (address) => {
    state.deepest = depth() + 1;
    history.pushState({ depth: state.deepest }, "", address);
    remember();
  };

  async function part(address) {
    const answer = await fetch(address, { signal: AbortSignal.timeout(15000) });
    if (!answer.ok) throw new Error(await answer.text());
    const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("suspect");
    for (const image of made.querySelectorAll("img")) new Image().src = image.getAttribute("src");
    return document.adoptNode(made);
  }

  function lookAhead() {
    const here = suspect().dataset, asked = new URLSearchParams(document.body.dataset.filters);
    asked.set("part", "1");
    asked.set("from", here.index);
    asked.set("order", here.order);
    asked.set("seen", state.seen.slice(-100).join(","));
    asked.set("judged", state.done.slice(-100).map((one) => one.index).join(","));
    state.ahead = part(`/next?${asked}`).catch(() => null);
  }

  const drained = async () => { while (state.outbox.length) await wait(0.02); };

  async function goNext() {
    if (moving) return;
    if (depth() < state.deepest) return history.forward();
    moving = true;
    try {
      let made = await (state.ahead ?? Promise.resolve(null));
      if (!made || made.dataset.index === "") {
        // Whether nothing is left is known when all that was judged is stored.
        await drained();
        lookAhead();
        made = await state.ahead;
      }
      if (!made) return say("The next one could not be loaded. Try again.", false);
      const filters = document.body.dataset.filters, asked = filters && `?${filters}`;
      const path = made.dataset.index === "" ? `/next${asked}` : `/example/${made.dataset.index}${asked}`;
      push(path);
      show(made);
    } finally {
      moving = false;
    }
  }

  let opened = 0;
  async function open(path) {
    const mine = (opened += 1);
    moving = true;
    const asked = new URLSearchParams(document.body.dataset.filters);
    asked.set("part", "1");
    try {
      const made = await part(`${path}?${asked}`);
      if (mine !== opened) return;
      asked.delete("part");
      if (location.pathname !== path) push(`${path}${asked.size ? "?" : ""}${asked}`);
      show(made);
    } catch {
      if (mine === opened) say("It could not be loaded. Try again.", false);
    } finally {
      if (mine === opened) moving = false;
    }
  }

  function show(made) {
    suspect().replaceWith(made);
    document.title = made.dataset.title;
    scrollTo(0, 0);
    startSuspect();
    byId("question").focus({ preventScroll: true });
  }

  function startSuspect() {
    const node = suspect();
    for (const button of node.querySelectorAll("[data-act][hidden]")) button.hidden = false;
    // Those that were loaded before they came into the page.
    for (const image of node.querySelectorAll("img")) if (image.complete) seePicture(image);
    if (node.dataset.index !== "") {
      const index = Number(node.dataset.index);
      state.seen = [...state.seen.filter((one) => one !== index), index];
      remember();
    }
    lookAhead();
  }

  function previous() {
    if (depth() > 0) history.back();
    else say("This is the first that you looked at.", false);
  }

  // ---- lists

  const items = () => Array.from(list().querySelectorAll(".item"));
  const following = (node, fits) => items().slice(items().indexOf(node) + 1).find(fits);
  const focused = () => document.activeElement?.closest?.(".item");

  function focusItem(node) {
    node?.focus({ preventScroll: true });
    node?.scrollIntoView({ block: "nearest" });
  }

  const isOpen = (one) => one.dataset.verdict === "" && !one.classList.contains("sending");

  // A key that would judge, while nothing is chosen, judges nothing unseen: it chooses the first that is open,
  // from where the page is scrolled to.
  function chooseFirst() {
    const all = items(), open = all.filter(isOpen);
    const node = open.find((one) => one.getBoundingClientRect().top >= 0) ?? open[0] ?? all[0];
    if (!node) return;
    focusItem(node);
    say(`Chosen: ${node.getAttribute("aria-label")}. The next key judges it.`, false);
  }

  function move(step, sideways) {
    const all = items(), here = focused(), at = all.indexOf(here);
    if (at < 0) return focusItem(all[0]);
    if (sideways) return focusItem(all[at + step]);
    const left = here.getBoundingClientRect().left;
    const column = all.filter((one) => Math.abs(one.getBoundingClientRect().left - left) < 2);
    focusItem(column[column.indexOf(here) + step]);
  }

  async function more(link) {
    const before = items().length, made = document.createElement("template");
    // When verdicts have put the list into another order it comes from its top: what is shown is left out.
    while (link.isConnected && items().length === before) {
      const answer = await fetch(`/list${link.search}`);
      if (!answer.ok) return say("The rest could not be loaded. Try again.", false);
      made.innerHTML = await answer.text();
      const shown = new Set(items().map((one) => one.dataset.index));
      list().append(...Array.from(made.content.children).filter((one) => !shown.has(one.dataset.index)));
      const next = answer.headers.get("x-more");
      if (next) link.search = `?${next}`;
      else link.remove();
    }
    focusItem(items()[before]);
  }

  // ---- a class by its name

  async function classes() {
    state.classes ??= fetch("/classes.json").then((answer) => answer.json()).catch(() => null);
    const known = await state.classes;
    if (!known) state.classes = null;
    return known ?? { classes: [], keys: {} };
  }

  function closeTyping() {
    const box = document.querySelector(".typing");
    if (!box) return;
    const hadFocus = box.contains(document.activeElement), node = box.closest("[data-index]");
    box.remove();
    node.querySelector("[data-act=type]")?.removeAttribute("hidden");
    if (hadFocus) (node === suspect() ? byId("question") : node).focus({ preventScroll: true });
  }

  function type(node) {
    closeTyping();
    const box = byId("typing").content.firstElementChild.cloneNode(true);
    (node.querySelector("[data-typing]") ?? node.querySelector(".quick")).append(box);
    node.querySelector("[data-act=type]")?.setAttribute("hidden", "");
    const input = byId("class-name"), options = byId("class-options"), note = byId("class-note");
    // Whoever types faster than the names arrive is answered when they do; nothing is chosen unasked.
    let known = null, shown = [], at = -1, asked = false, early = false;

    const mark = () => {
      for (const [place, row] of Array.from(options.children).entries()) row.setAttribute("aria-selected", String(place === at));
      if (at >= 0) input.setAttribute("aria-activedescendant", `class-option-${at}`);
      else input.removeAttribute("aria-activedescendant");
      options.children[at]?.scrollIntoView({ block: "nearest" });
    };
    const choose = (option) => {
      if (option.code !== undefined) return judge(node, { class: option.code });
      if (asked) return judge(node, { label: option.name, new: "yes" });
      asked = true;
      note.textContent = `No class is called “${option.name}”. Choose it once more to add it as a new class.`;
    };
    const row = (option, place) => {
      const made = element("li", "", option.code === undefined ? `New class “${option.name}”` : option.name);
      made.id = `class-option-${place}`;
      made.setAttribute("role", "option");
      made.addEventListener("mousedown", (event) => { event.preventDefault(); at = place; mark(); choose(option); });
      return made;
    };
    const refresh = () => {
      if (!known) return;
      const typed = input.value.trim(), low = typed.toLowerCase();
      const starts = known.filter((one) => one.low.startsWith(low));
      const within = low ? known.filter((one) => !one.low.startsWith(low) && one.low.includes(low)) : [];
      // The very name comes first: "cat" before "cats".
      shown = [...starts.sort((a, b) => (b.name === typed) - (a.name === typed) || (b.low === low) - (a.low === low)), ...within].slice(0, 8);
      if (typed && !known.some((one) => one.name === typed)) shown.push({ name: typed });
      at = typed ? 0 : -1;
      asked = false;
      note.textContent = "";
      options.replaceChildren(...shown.map(row));
      input.setAttribute("aria-expanded", String(shown.length > 0));
      mark();
    };
    const step = (by) => {
      at = at < 0 && by < 0 ? shown.length - 1 : (at + by + shown.length) % shown.length;
      asked = false;
      mark();
    };
    input.addEventListener("input", refresh);
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;  // Enter ends a word of an input method
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by && shown.length) step(by);
      else if (event.key === "Enter" && !known) early = true;
      else if (event.key === "Enter" && at >= 0) choose(shown[at]);
      else if (event.key === "Escape") closeTyping();
      else if (event.key !== "Enter") return;
      event.preventDefault();  // Enter would send the form, and so keep the label
      event.stopPropagation();
    });
    box.querySelector("[data-close]").addEventListener("click", closeTyping);
    input.focus();
    classes().then((found) => {
      known = found.classes.map(([code, name]) => ({ code, name, low: name.toLowerCase() }));
      refresh();
      if (early && at >= 0 && box.isConnected) choose(shown[at]);
    });
  }

  // ---- keys and buttons

  const VERDICTS = { k: "keep", a: "guess", d: "drop", u: "unsure" };

  async function byNumber(node, digit) {
    const button = node.querySelector(`[data-key="${digit}"]`);
    const code = button ? button.value : (await classes()).keys[digit];
    if (code !== undefined) judge(node, { class: code });
  }

  function onKey(event) {
    const target = event.target, writes = target.closest?.("input, select, textarea, dialog[open]");
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || writes) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!state.useKeys && (event.key.length === 1 || !list())) return;
    const act = actions(target, key, event.repeat);
    if (!act) return;
    event.preventDefault();
    act();
    return act;
  }

  function actions(target, key, repeated) {
    const node = suspect() ?? focused();
    if (key === "?") return () => byId("help").showModal();
    if (key === "g") return () => location.assign(`/${document.body.dataset.filters && `?${document.body.dataset.filters}`}`);
    if (key === "/") return () => (byId("query") ? byId("query").focus() : location.assign("/#query"));
    if (list() && { n: 1, p: 1, ArrowLeft: 1, ArrowRight: 1, ArrowUp: 1, ArrowDown: 1 }[key]) {
      const step = ["n", "ArrowRight", "ArrowDown"].includes(key) ? 1 : -1;
      return () => move(step, !key.startsWith("ArrowUp") && !key.startsWith("ArrowDown"));
    }
    if (list() && key === "Enter" && target === node) return () => node.querySelector(".open").click();
    // A key that is held down judges one example and not all.
    if (repeated) return null;
    if (key === "z") return undo;
    if (key.startsWith("Arrow") && target.matches?.(".scroll") && target.scrollWidth > target.clientWidth) return null;
    if (suspect() && ["n", "ArrowRight"].includes(key)) return goNext;
    if (suspect() && ["p", "ArrowLeft"].includes(key)) return previous;
    const judges = VERDICTS[key] || key === "t" || /^[0-9]$/.test(key);
    if (list() && !node && (judges || (key === "Enter" && target === document.body))) return chooseFirst;
    if (!node || node.dataset.index === "") return null;
    if (VERDICTS[key]) return () => judge(node, { verdict: VERDICTS[key] });
    if (key === "t") return () => type(node);
    return /^[0-9]$/.test(key) ? () => byNumber(node, key) : null;
  }

  function onClick(event) {
    const target = event.target.closest?.("[data-act], #more, #undo-last, #keys, #theme, .skip");
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const acts = {
      type: () => type(target.closest("[data-index]")), undo, previous, next: goNext, more: () => more(target),
      "undo-last": undo, keys: () => byId("help").showModal(), theme: turn, skip: () => byId("main").focus(),
    };
    event.preventDefault();
    acts[target.dataset.act ?? (target.id || "skip")]();
  }

  function onSubmit(event) {
    if (event.target.getAttribute("action") !== "/verdict") return;
    event.preventDefault();
    const button = event.submitter;
    if (button && document.activeElement !== byId("class-name")) judge(event.target.closest("[data-index]"), { [button.name]: button.value });
  }

  // ---- pictures, theme, start

  const onPicture = (event) => { if (event.target.tagName === "IMG") seePicture(event.target); };

  function seePicture(image) {
    if (!image.naturalWidth) image.replaceWith(element("span", "no-picture", "This picture could not be read"));
    // Pixels that count are not to be smoothed.
    else image.classList.toggle("coarse", Math.max(image.naturalWidth, image.naturalHeight) <= 64);
  }

  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (preferred.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  function turn() {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("icelens-theme", root.dataset.theme); } catch { /* as above */ }
    nameTheme();
  }

  document.addEventListener("load", onPicture, true);
  document.addEventListener("error", onPicture, true);
  // A long page is in sight before all of it has come. Keys that are pressed until then wait; buttons send their forms.
  const early = [], hold = (event) => early.push(event);
  document.addEventListener("keydown", hold);
  addEventListener("beforeunload", (event) => { if (state.outbox.length) event.preventDefault(); });
  addEventListener("popstate", () => { if (suspect()) open(location.pathname); });
  // A page that the browser kept shows what stood when it was left.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  document.addEventListener("DOMContentLoaded", () => {
    run = document.body.dataset.run;
    for (const name of ["outbox", "done", "seen"]) state[name] = kept(sessionStorage, name, []);
    // What lay behind is gone when a page was come to by a link.
    state.deepest = depth();
    state.useKeys = kept(localStorage, "keys", true);
    if ("BroadcastChannel" in window) tabs = new BroadcastChannel(`icelens-review-${run}`);
    tabs?.addEventListener("message", (event) => {
      apply(event.data);
      if (event.data.verdict === "") state.done = state.done.filter((one) => Number(one.index) !== event.data.index);
      remember();
      if (suspect()) lookAhead();
    });
    for (const id of ["keys", "theme"]) byId(id).hidden = false;
    nameTheme();
    preferred.addEventListener("change", nameTheme);
    byId("use-keys").checked = state.useKeys;
    byId("use-keys").addEventListener("change", (event) => {
      state.useKeys = event.target.checked;
      keep(localStorage, "keys", state.useKeys);
    });
    if (suspect()) startSuspect();
    if (location.hash === "#query") byId("query")?.focus();
    document.removeEventListener("keydown", hold);
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", onClick);
    document.addEventListener("submit", onSubmit);
    // What a key chose now had not been seen when the next one was pressed.
    early.every((event) => onKey(event) !== chooseFirst);
    drain();
  });
})();
