// The script of all pages: what is filled in goes to the server, what it draws is put in its place.
// Nothing is computed here but which row of a table the dial stands at.

const $ = (id) => document.getElementById(id);
const tab = crypto.randomUUID();
const SILENT = { fault: { message: "The program behind this page does not answer.", hint: "is it still running?" } };
const PAUSE = 250; // milliseconds after the last change
let latest = 0;

// One question after another: what an older one still tells is dropped.
async function ask(task, form, take, more) {
  const mine = ++latest;
  await follow(task, form, () => mine === latest, take, more);
}

async function follow(task, form, isWanted, take, more = []) {
  const fields = new URLSearchParams([...new FormData(form), ...more]);
  fields.set("tab", tab);
  try {
    const { job, fault, title } = await (await fetch(`./ask/${task}`, { method: "POST", body: fields })).json();
    if (!job) return take({ fault: fault ?? { message: title } });
    take({ started: job });
    await listen(job, isWanted, take);
  } catch {
    if (isWanted()) take(SILENT);
  }
}

// All that is told of a job, from its beginning.
async function listen(job, isWanted, take) {
  let known = 0, over = false;
  while (!over && isWanted()) {
    const told = await (await fetch(`./jobs/${job}/${known}`)).json();
    if (!isWanted()) return;
    if (!told.news) return take({ fault: { message: told.title } });
    known += told.news.length;
    over = told.over;
    for (const one of told.news) take(one, job);
  }
}

// New content for an element; what was open stays open, and focus stays where it was.
function put(id, html) {
  const place = $(id);
  place?.classList.remove("old");
  // What is there already keeps what somebody has done with it.
  if (!place || place.served === html) return;
  place.served = html;
  const open = [...place.querySelectorAll("details[open]")].map((one) => one.id);
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  place.innerHTML = html;
  for (const one of open) if ($(one)) $(one).open = true;
  if (focused && $(focused)) $(focused).focus();
}

// What this page says by itself in the place of something served: the same, served again, is put.
function show(id, ...inside) {
  const place = $(id);
  if (!place) return;
  place.served = "";
  place.replaceChildren(...inside);
}

function faultBox(fault) {
  const box = document.createElement("div");
  box.className = "fault";
  box.setAttribute("role", "alert");
  const [first, ...rest] = fault.message.split("\n");
  box.append(Object.assign(document.createElement("p"), { textContent: first }));
  if (rest.length) {
    const list = document.createElement("ul");
    list.append(...rest.map((line) => Object.assign(document.createElement("li"), { textContent: line.replace(/^\s*- /, "") })));
    box.append(list);
  }
  if (fault.hint) box.append(Object.assign(document.createElement("p"), { className: "soft", textContent: fault.hint }));
  return box;
}

// What is asked is in the part of the address that no server ever gets: a link to this plan.
// A hidden field has no value of its own by default: whatever it holds was chosen.
function remember(form) {
  const differs = ([name, value]) => value !== "" && (form.elements[name].type === "hidden" || value !== form.elements[name].defaultValue);
  history.replaceState(null, "", `#${new URLSearchParams([...new FormData(form)].filter(differs))}`);
}
function recall(form) {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const one = form.elements[name];
    if (one instanceof HTMLInputElement && one.type === "checkbox") one.checked = true;
    else if (one) one.value = value;
  }
}

// ---------------------------------------------------------------------------- plan

const form = $("asked");
if (form) planning(form);

function planning(form) {
  const dial = $("dial"), state = $("state"), results = ["promise", "example", "reasons", "ways", "code"];
  const plain = JSON.parse(dial.dataset.stops);
  let stops = plain, timer = 0, waiting = 0;

  const field = (name) => form.elements[name];
  // Nothing is taken home, copied or looked up before it is proven: neither by mouse nor by key.
  const about = () => { $("code").inert = true; state.textContent = "about"; show("faults"); };

  function showKind() {
    const kind = field("kind").value;
    for (const one of form.querySelectorAll("[data-kinds]")) one.hidden = !one.dataset.kinds.split(" ").includes(kind);
  }

  function plan() {
    clearTimeout(timer);
    about();
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.textContent = "planning …"; }, 300);
    const other = pricing && pricing !== question() ? [["other", "1"]] : [];
    if (other.length) pricing = "";
    ask("plan", form, (news, job) => {
      if (news.step) state.textContent = news.step;
      if (news.file) written(news.file);
      if (news.to) put(news.to, news.html);
      if (news.fault || news.proven) form.classList.toggle("refused", !news.proven);
      if (news.fault) {
        clearTimeout(waiting);
        show("faults", faultBox(news.fault));
        state.textContent = "no plan";
        for (const one of results) $(one)?.classList.add("old");
      }
      if (news.proven) {
        clearTimeout(waiting);
        $("code").inert = false;
        state.textContent = news.proven.words;
        for (const one of document.querySelectorAll("a.file")) one.href = `./jobs/${job}/files/${one.dataset.file}`;
        for (const one of form.querySelectorAll("details[open][data-load]")) load(one);
        if (field("own").value) {
          for (const [name, wish] of Object.entries(news.proven.asked)) field(name).value = wish;
          field("epsilon").value = news.proven.epsilon;
        }
        if (field("lead").value === "error") field("epsilon").value = news.proven.epsilon;
        followBox();
        remember(form);
        if (news.proven.margin && field("lead").value === "epsilon") field("error").value = news.proven.margin;
        $("people").textContent = news.proven.people;
        price();
        document.dispatchEvent(new CustomEvent("proven", { detail: { job, ...news.proven } }));
      }
    }, other);
  }

  // What other promises would cost: after the proof, and only where the question is another. A dial
  // that moves on leaves the question as it is, and what is under way for it goes on.
  let priced = "", pricing = "";
  const question = () => {
    const asked = [...new FormData(form)].filter(([name]) => !["own", "lead", "epsilon", "error"].includes(name));
    return new URLSearchParams(asked.map(([name, value]) => [name, name === "survey" ? withoutPromise(value) : value])).toString();
  };
  const withoutPromise = (text) => text.split("\n").filter((line) => !/^\s*((epsilon|error|delta)\s*=|$)/.test(line)).join("\n");
  function price() {
    const asked = question();
    if (asked === priced) return showPlace(stops[dial.value] ?? {});
    if (asked === pricing) return;
    pricing = asked;
    // Of another question, the dial has odds and no errors.
    stops = plain;
    priced = "";
    $("price").classList.add("old");
    $("price").dataset.priced = "";
    follow("price", form, () => asked === pricing && asked === question(), (news) => {
      if (news.step) $("price").dataset.priced = news.step;
      if (news.to) put(news.to, news.html);
      if (news.fault) show("price", faultBox(news.fault));
      if (news.stops) {
        stops = news.stops;
        priced = asked;
        followBox();
        showPlace(stops[dial.value]);
      }
    }).finally(() => { if (pricing === asked) pricing = ""; });
  }

  // The file that is planned stands in its box: what somebody asks for first, as several questions;
  // then with every wish of the dial. What was drafted for them gives way to another question.
  let file = "", drafted = "";
  function written(text) {
    file = text;
    const box = field("survey");
    if (field("kind").value !== "survey" || field("own").value || box.value === text) return;
    if (box.value === drafted) drafted = text;
    box.value = text;
  }
  function draft() {
    const box = field("survey");
    if (field("kind").value === "survey" && (box.value === drafted || !box.value.trim())) box.value = drafted = file;
  }

  // From now on nothing counts that is told of the plan before.
  function later() { latest += 1; about(); clearTimeout(timer); timer = setTimeout(plan, PAUSE); }

  function load(details) {
    const wanted = latest, inside = `${details.id}-inside`;
    follow(details.dataset.load, form, () => wanted === latest, (news) => {
      const soft = $(inside).querySelector(":scope > .soft:only-child");
      if (news.step && soft) soft.textContent = `${news.step} …`;
      if (news.to) put(news.to, news.html);
      if (news.fault) show(inside, faultBox(news.fault));
    });
  }

  // The dial: a row of a table for each of its stops.
  function preview() {
    const stop = stops[dial.value];
    if (!stop) return;
    field("lead").value = "epsilon";
    field("epsilon").value = stop.epsilon;
    if (stop.error) field("error").value = stop.error;
    dial.setAttribute("aria-valuetext", stop.words);
    press(form.querySelector(".what-if"), stop.right, stop.loss);
    showPlace(stop);
    about();
  }

  function showPlace(stop) {
    const line = form.querySelector("#price .cf-handle"), spot = form.querySelector("#price .cf-here");
    if (!line || !stop.x) return;
    line.setAttribute("x1", stop.x);
    line.setAttribute("x2", stop.x);
    spot?.setAttribute("cx", stop.x);
    spot?.setAttribute("cy", stop.y);
  }

  // What is shown is no longer what was served: the same, served again, is put in its place.
  function press(whatIf, right, loss) {
    $("promise").served = "";
    for (const one of form.querySelectorAll(".what-if")) one.setAttribute("aria-pressed", String(one === whatIf));
    const number = form.querySelector("#promise .odds");
    if (number) number.textContent = right;
    if ($("loss")) $("loss").textContent = loss;
    document.querySelectorAll("#promise .guesses circle").forEach((dot, at) => {
      dot.setAttribute("class", at < 50 ? "cf-luck" : at < right ? "cf-leak" : "cf-wrong");
    });
  }

  form.addEventListener("input", (event) => {
    if (event.target.name === "epsilon" || event.target.name === "error") field("lead").value = event.target.name;
    if (event.target.name === "kind") { field("protocol").value = ""; showKind(); draft(); }
    // A file that is written out counts as it stands, until something else is wished for here.
    const own = event.target.name === "survey" || (event.target.name === "kind" && event.target.value === "survey");
    if (event.target.name !== "view") field("own").value = own ? "1" : "";
    if (event.target === dial) preview();
    later();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); plan(); });
  form.addEventListener("click", (event) => {
    // No button submits: Enter in a field would press the first of them, and choose what it names.
    const choice = event.target.closest(".choose");
    if (choice) {
      field("protocol").value = choice.value;
      field("own").value = "";
      plan();
    }
    const whatIf = event.target.closest(".what-if");
    if (whatIf) press(whatIf, Number(whatIf.dataset.right), whatIf.dataset.loss);
  });
  form.addEventListener("toggle", (event) => { if (event.target.open && event.target.dataset.load) load(event.target); }, true);

  // The stop nearest to the epsilon that stands in its box.
  function followBox() {
    const wanted = Math.log(Number(field("epsilon").value));
    if (!Number.isFinite(wanted)) return;
    const far = stops.map((stop) => Math.abs(Math.log(Number(stop.epsilon)) - wanted));
    dial.value = far.indexOf(Math.min(...far));
    dial.setAttribute("aria-valuetext", stops[dial.value].words);
  }

  recall(form);
  followBox();
  showKind();
  plan();
}

// ---------------------------------------------------------------------------- try

const trying = $("trying");
if (trying) tryingOut(trying);

function tryingOut(trying) {
  let round = 0, right = 0, timer = 0, mine = 0;

  function run() {
    const wanted = ++mine, plan = latest;
    $("tried").textContent = "running …";
    follow("try", form, () => wanted === mine && plan === latest, (news) => {
      if (news.to) put(news.to, news.html);
      if (news.to === "guess") { round = right = 0; clue(); }
      if (news.fault) {
        show("out", faultBox(news.fault));
        $("tried").textContent = "";
      }
      if (news.done) $("tried").textContent = news.done;
    }, [...new FormData(trying)]);
  }

  const rounds = () => JSON.parse($("game")?.dataset.rounds ?? "[]");
  function clue() { $("clue").textContent = rounds()[round % rounds().length]?.seen ?? ""; }

  trying.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  trying.addEventListener("input", (event) => {
    const share = event.target;
    share.parentElement.querySelector("output").textContent = `${share.value} %`;
    clearTimeout(timer);
    timer = setTimeout(run, PAUSE);
  });
  trying.addEventListener("click", (event) => {
    const answer = event.target.closest(".answer");
    if (!answer) return;
    const now = rounds()[round % rounds().length];
    const good = answer.dataset.answer === now.holds;
    round += 1;
    right += good;
    $("verdict").textContent = `${good ? "Right" : "Wrong"}: it was ${now.holds}. You: ${right} of ${round}.`;
    clue();
  });
  document.addEventListener("proven", run);
}

// ---------------------------------------------------------------------------- everywhere

document.addEventListener("click", async (event) => {
  const copy = event.target.closest(".copy");
  if (!copy) return;
  await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent);
  copy.textContent = "copied";
  setTimeout(() => { copy.textContent = "copy"; }, 1500);
});

// ---------------------------------------------------------------------------- run and reach

for (const [id, tasks] of [["running", null], ["reaching", "reach"]]) {
  const other = $(id);
  if (!other) continue;
  let timer = 0, task = tasks;
  const buttons = [...other.querySelectorAll("button")];
  const go = async (asking) => {
    for (const one of buttons) one.disabled = !tasks;
    other.querySelector(`button[value=${task}]`)?.after($("state"));
    $("state").textContent = "…";
    const place = $("faults") ? "faults" : task === "check" ? "checked" : "outcome";
    for (const one of [place, "outcome"]) show(one);
    if (tasks) $("reach").inert = true; // what is not proven is not taken home
    await asking((news, job) => {
      // A run belongs to the page that started it: its number stands in the address.
      if (news.started && task === "run") history.replaceState(null, "", `#${news.started}`);
      if (news.step) $("state").textContent = news.step;
      if (news.to) put(news.to, news.html);
      if (news.fault) {
        show(place, faultBox(news.fault));
        $("reach")?.classList.add("old");
        $("state").textContent = "";
      }
      if (news.done) $("state").textContent = `✓ ${news.done}`;
      if (news.proven) {
        $("state").textContent = news.proven.words;
        $("reach").inert = false;
        remember(other);
        for (const one of other.querySelectorAll("a.file")) one.href = `./jobs/${job}/files/${one.dataset.file}`;
      }
    });
    for (const one of buttons) one.disabled = false;
  };
  const start = (wanted) => { task = wanted; return go((take) => ask(task, other, take)); };
  // A run goes on without its page: the one that this page started is shown again, or the last one.
  // Whoever has begun to fill it in goes on.
  let begun = false;
  for (const one of ["input", "submit"]) other.addEventListener(one, () => { begun = true; });
  // What was checked, and what was wrong, was so before this input; a run that is under way goes on.
  if (!tasks) other.addEventListener("input", () => {
    show("checked");
    $("outcome").querySelector(".fault")?.remove();
    if (task !== "check") return;
    latest += 1;
    $("state").textContent = "";
  });
  if (!tasks) shownAgain(other, () => begun).then((job) => {
    if (!job) return;
    task = "run";
    go((take) => listen(job, () => true, take).catch(() => take(SILENT)));
  });
  other.addEventListener("submit", (event) => { event.preventDefault(); start(tasks ?? event.submitter?.value ?? "check"); });
  if (tasks) {
    recall(other);
    other.addEventListener("click", (event) => {
      const choice = event.target.closest(".choose");
      if (!choice) return;
      other.elements.hashes.value = choice.value;
      start(tasks);
    });
    other.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => start(tasks), PAUSE); });
    start(tasks);
  }
}

// Fill in what was asked of a run; return its number. What is filled in is in sight.
async function shownAgain(form, isBegun) {
  const { job, given } = await (await fetch(`./runs${location.hash.replace("#", "/")}`)).json();
  if (isBegun()) return "";
  for (const [name, value] of Object.entries(given)) {
    const one = form.elements[name];
    if (one?.type === "checkbox") one.checked = true;
    else if (one instanceof HTMLSelectElement ? [...one.options].some((option) => option.value === value) : one) one.value = value;
    if (value && one?.closest("details")) one.closest("details").open = true;
  }
  return job;
}

// ---------------------------------------------------------------------------- watch

const again = document.querySelector("[data-again]");
if (again) {
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(`./${again.dataset.again}`).catch(() => null);
    if (answer?.ok) put(again.id, await answer.text());
    else again.classList.add("old");
  }, 5000);
}
