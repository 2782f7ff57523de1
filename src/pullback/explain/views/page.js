"use strict";
/* Reads the data that encode.py writes. Every text goes into the page as text, never as markup. */
(() => {
  const MOST_SHOWN = 300; // dagre takes a second for these, and overflows the stack on long chains
  const MOST_FOUND = 300;
  const MOST_SOURCES = 40; // drawn in one group; the list has them all
  const data = JSON.parse(document.getElementById("flow-data").textContent);
  const began = performance.now();
  const $ = (id) => document.getElementById(id);
  const text = (k) => data.texts[k];
  const MARKS = data.words.map(([mark]) => mark);
  const WORD = Object.fromEntries(data.words);

  function make(tag, settings = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(settings)) {
      if (key === "class") element.className = value;
      else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== ""));
    return element;
  }

  // ---- numbers as people read them
  function number(x) {
    if (x === null || x === undefined) return "none";
    if (x >= 1e308) return "∞";
    if (x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e3)) return String(Number(x.toPrecision(3)));
    return x.toExponential(2).replace(/\.?0*e/, "e").replace("e+", "e");
  }
  function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let k = 0;
    while (n >= 1000 && k < units.length - 1) { n /= 1000; k += 1; }
    return `${Number(n.toPrecision(3))} ${units[k]}`;
  }
  const time = (us) => us >= 1e6 ? `${number(us / 1e6)} s` : us >= 1000 ? `${number(us / 1e3)} ms` : `${us} µs`;
  const many = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
  const place = (k) => k < 0 ? "" : `${text(data.places[k][1])}:${data.places[k][0]}`;
  const nearPlace = (k) => place(k).split(/[\\/]/).pop();
  const marksOf = (bits) => MARKS.filter((_, k) => bits >> k & 1);

  // ---- the flow as objects
  const sizes = data.sizes.map(([norm, max, zeros, nan = 0, inf = 0]) => ({ norm, max, zeros, nan, inf }));
  const size = (k) => k < 0 ? null : sizes[k];
  const values = data.values.map(([spec, held, kept, gradient, node, variable, broken]) =>
    ({ spec: text(spec), bytes: held, held: !!kept, gradient: size(gradient), node, variable: text(variable), broken: size(broken), source: -1 }));
  const nodes = data.nodes.map(([type, name, where, rule, inputs, outputs, gradients, us, bits, aside, inside], id) =>
    ({ id, what: "node", type: text(type), call: data.calls[text(type)] ?? text(type), name: text(name), place: where, rule: data.rules[rule], inputs, outputs,
       gradients: gradients.map(size), us, marks: marksOf(bits), aside: !!aside, inside: text(inside), group: 0 }));
  const groups = data.groups.map(([name, kind, count, children, arriving, passed, weights, us, held, rules, bits, aside, operations, broken], id) =>
    ({ id, what: "group", name: text(name), kind: text(kind), count, children, arriving, passed, weights, us, held, rules,
       marks: marksOf(bits), aside: !!aside, operations, broken: !!broken, parent: 0, sources: [] }));
  const sources = data.sources.map(([name, kind, spec, gradient, layer, trainable, why, of, home, bits], id) =>
    ({ id, what: "source", name: text(name), kind: text(kind), spec: text(spec), gradient: size(gradient), layer: text(layer),
       trainable: !!trainable, why, values: of, group: home, marks: marksOf(bits), aside: false }));
  for (const group of groups) {
    for (const child of group.children) {
      if (child < 0) groups[-child].parent = group.id;
      else nodes[child].group = group.id;
    }
  }
  for (const source of sources) {
    if (!source.values.length) continue;
    for (const value of source.values) values[value].source = source.id;
    // what a plain layer reads is seen inside it; what was passed is seen outside
    const home = groups[source.group];
    if (home.sources.length < MOST_SOURCES) home.sources.push(source.id);
  }

  const isBroken = (thing) => thing.what === "group" ? thing.broken : thing.what === "source" ? thing.gradient?.nan + thing.gradient?.inf > 0
    : thing.outputs.some((v) => values[v].gradient && values[v].gradient.nan + values[v].gradient.inf > 0);
  const figure = (thing) => isBroken(thing) ? "NaN" : number(normOf(thing));

  // ---- norms on a logarithmic scale
  const normOf = (thing) => thing.what === "group" ? thing.arriving ?? thing.passed
    : thing.what === "source" ? thing.gradient?.norm ?? null
    : thing.outputs.reduce((sum, v) => values[v].gradient ? Math.hypot(sum ?? 0, values[v].gradient.norm) : sum, null);
  const logs = data.bars.map((k) => k < 0 ? groups[-k] : nodes[k]).flatMap((thing) => [normOf(thing), thing.weights]).filter((norm) => norm > 0).map(Math.log10);
  const top = logs.reduce((a, b) => Math.max(a, b), logs[0] ?? 0);
  const bottom = logs.reduce((a, b) => Math.min(a, b), top - 1) - 0.25; // within a factor of ten all is much the same
  const share = (norm) => !norm ? 0 : Math.min(Math.max((Math.log10(norm) - bottom) / (top - bottom), 0), 1);

  // ---- which groups are open, and what is seen of the flow
  const open = new Set([0, ...data.open]);
  const opened = [...open]; // in the order in which they were opened
  let showAside = false;
  const hides = (thing) => thing.aside && !showAside;

  /** For each group: -1 where its inside is seen, else the closed group that stands for it. */
  function standIns(isOpen) {
    const found = new Array(groups.length);
    found[0] = -1;
    for (let g = 1; g < groups.length; g += 1) { // a group comes after the one around it
      const outer = found[groups[g].parent];
      found[g] = outer >= 0 ? outer : isOpen.has(g) ? -1 : g;
    }
    return found;
  }
  function countShown(isOpen) {
    const stand = standIns(isOpen);
    let count = 0;
    for (const group of groups) {
      if (stand[group.id] === -1) count += group.sources.length + group.children.filter((c) => !hides(c < 0 ? groups[-c] : nodes[c])).length;
    }
    return count;
  }
  function ancestors(g) {
    const found = [];
    for (; g !== 0; g = groups[g].parent) found.push(g);
    return found;
  }

  const guilty = data.nonfiniteNode < 0 ? new Set() : new Set([`n${data.nonfiniteNode}`, ...ancestors(nodes[data.nonfiniteNode].group).map((g) => `g${g}`)]);
  /** The marks of a thing, each with its word. */
  const told = (thing) => guilty.has(idOf(thing))
    ? [["nan", data.startsHere], ...thing.marks.filter((mark) => mark !== "nan").map((mark) => [mark, WORD[mark]])]
    : thing.marks.map((mark) => [mark, WORD[mark]]);

  const idOf = (thing) => `${thing.what[0]}${thing.id}`;
  const thingOf = (id) => ({ n: nodes, g: groups, s: sources }[id[0]][Number(id.slice(1))]);

  function elements() {
    const stand = standIns(open);
    const found = new Map();
    const parentOf = (g) => g === 0 ? {} : { parent: `g${g}` };
    for (const group of groups) {
      if (stand[group.id] !== -1) continue;
      for (const child of group.children) {
        const thing = child < 0 ? groups[-child] : nodes[child];
        if (hides(thing)) continue;
        found.set(idOf(thing), { data: { id: idOf(thing), ...parentOf(group.id), ...drawn(thing) } });
      }
      for (const s of group.sources) found.set(`s${s}`, { data: { id: `s${s}`, ...parentOf(group.id), ...drawn(sources[s]) } });
    }
    if (data.outputs.length) found.set("out", { data: { id: "out", label: "output", w: 74, h: 30, kind: "output", heat: 0, mark: "" } });
    const seen = (g, own) => { const s = stand[g]; return s === -1 ? own : `g${s}`; };
    const edges = new Map();
    const join = (from, to, gradient) => {
      if (from === to || !found.has(from) || !found.has(to)) return;
      const key = `${from}>${to}`;
      const edge = edges.get(key) ?? { id: key, source: from, target: to, norm: null, tensors: 0, broken: 0 };
      edge.tensors += 1;
      if (gradient) { edge.norm = Math.hypot(edge.norm ?? 0, gradient.norm); edge.broken += gradient.nan + gradient.inf; }
      edges.set(key, edge);
    };
    const origin = (v) => {
      const value = values[v];
      if (value.node >= 0) return seen(nodes[value.node].group, `n${value.node}`);
      return value.source >= 0 ? seen(sources[value.source].group, `s${value.source}`) : "";
    };
    for (const node of nodes) {
      if (hides(node)) continue;
      const from = seen(node.group, `n${node.id}`);
      node.inputs.forEach((v, k) => join(from, origin(v), node.gradients[k] ?? null));
    }
    for (const v of data.outputs) join("out", origin(v), values[v].gradient);
    const joined = new Set();
    for (const edge of edges.values()) {
      joined.add(edge.source).add(edge.target);
      edge.width = edge.norm === null ? 1 : 1 + 4 * share(edge.norm);
      edge.state = edge.norm === null ? "none" : edge.broken ? "nan" : "flows";
    }
    const seenNodes = [...found.values()].filter(({ data: { id, kind } }) => kind !== "source" || joined.has(id));
    return [...seenNodes, ...[...edges.values()].map((edge) => ({ data: edge }))];
  }

  function shortened(name, most = 30) {
    return name.length <= most ? name : `${name.slice(0, most / 2)}…${name.slice(-most / 2 + 1)}`;
  }
  function drawn(thing) {
    const norm = normOf(thing);
    const isOpen = thing.what === "group" && open.has(thing.id);
    const title = thing.what === "node" ? thing.call : thing.what === "source" ? thing.name.split("/").pop()
      : thing.name + (thing.count > 1 ? `  ×${thing.count}` : "");
    const words = told(thing).map(([, word]) => word);
    const lines = [shortened(title)];
    if (thing.what === "group") lines[0] = `${isOpen ? "▾" : "▸"} ${lines[0]}`;
    if (!isOpen) {
      if (norm !== null && !(isBroken(thing) && words.includes(WORD.nan))) lines.push(figure(thing));
      lines.push(...words);
    }
    const longest = Math.max(...lines.map((line) => line.length));
    const kind = thing.what === "group" ? (thing.count > 1 ? "repeat" : "group") : thing.what;
    return { label: lines.join("\n"), w: Math.max(64, longest * 7.1 + (kind === "source" ? 46 : 22)), h: 14 + 16 * lines.length, kind, heat: share(norm), mark: told(thing)[0]?.[0] ?? "", guilty: guilty.has(idOf(thing)) ? 1 : 0, open: isOpen ? 1 : 0 };
  }

  // ---- colours: rgb(...) is what cytoscape draws
  const COLOURS = {
    light: { ink: [28, 36, 48], dim: [140, 149, 163], paper: [255, 255, 255], card: [246, 247, 249], edge: [196, 203, 213], heat: [44, 111, 187],
      nan: [198, 30, 30], cut: [198, 47, 47], zero: [150, 70, 60], vanishing: [176, 116, 0], exploding: [176, 38, 150], override: [0, 128, 136], custom: [98, 80, 190], stopped: [120, 128, 140] },
    dark: { ink: [231, 234, 240], dim: [120, 130, 147], paper: [20, 24, 31], card: [29, 35, 45], edge: [72, 83, 100], heat: [86, 150, 225],
      nan: [255, 100, 92], cut: [255, 122, 112], zero: [230, 150, 135], vanishing: [226, 179, 76], exploding: [240, 130, 220], override: [75, 200, 205], custom: [165, 150, 250], stopped: [140, 150, 165] },
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  let theme = "";
  const colours = () => COLOURS[theme || (system.matches ? "dark" : "light")];
  const rgb = (c) => `rgb(${c.map(Math.round).join(",")})`;
  const mix = (a, b, t) => a.map((x, k) => x + (b[k] - x) * t);

  function style() {
    const c = colours();
    const marked = (e) => rgb(c[e.data("mark")] ?? c.edge);
    const has = (e) => Boolean(e.data("mark"));
    return [
      { selector: "node", style: {
        label: "data(label)", "text-wrap": "wrap", "text-valign": "center", "text-halign": "center", "line-height": 1.25,
        "font-family": "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace", "font-size": 12, color: rgb(c.ink),
        shape: "round-rectangle", width: "data(w)", height: "data(h)",
        "background-color": (e) => rgb(mix(c.paper, c.heat, 0.04 + 0.36 * e.data("heat"))),
        "border-width": (e) => has(e) ? 2.5 : 1, "border-color": marked,
        "border-style": (e) => ["cut", "zero", "stopped"].includes(e.data("mark")) ? "dashed" : "solid" } },
      { selector: "node[kind = 'node']", style: { shape: "rectangle" } },
      { selector: "node[kind = 'source'], node[kind = 'output']", style: { shape: "round-tag", "background-color": rgb(c.card), "border-color": (e) => has(e) ? marked(e) : rgb(c.dim) } },
      { selector: "node[kind = 'output']", style: { shape: "round-rectangle", "background-color": rgb(c.ink), color: rgb(c.paper) } },
      { selector: "node[kind = 'repeat']", style: { "border-style": "double", "border-width": 4 } },
      { selector: "node[guilty = 1]", style: { "background-color": rgb(mix(c.paper, c.nan, 0.3)), "border-width": 4, "font-weight": 700 } },
      { selector: ":parent", style: {
        "background-color": rgb(mix(c.paper, c.heat, 0.05)), "background-opacity": 0.6, "text-valign": "top", "text-halign": "left",
        "text-margin-x": (e) => e.data("label").length * 7.3 + 14, "text-margin-y": 8, "text-background-color": rgb(c.paper), "text-background-opacity": 1, "text-background-padding": 3, "text-background-shape": "round-rectangle", "font-weight": 600, padding: 18, "border-width": 1, "border-style": "solid", "border-color": rgb(c.edge) } },
      { selector: "edge", style: {
        width: "data(width)", "line-color": rgb(mix(c.paper, c.heat, 0.6)), "target-arrow-color": rgb(mix(c.paper, c.heat, 0.6)),
        "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "unbundled-bezier",
        "control-point-weights": (e) => e.scratch("controlPointWeights") ?? [0.5],
        "control-point-distances": (e) => e.scratch("controlPointDistances") ?? [0.001],
        "edge-distances": "intersection" } },
      { selector: "edge[state = 'none']", style: { "line-style": "dashed", "line-color": rgb(c.edge), "target-arrow-color": rgb(c.edge), opacity: 0.8 } },
      { selector: "edge[state = 'nan']", style: { "line-color": rgb(c.nan), "target-arrow-color": rgb(c.nan) } },
      { selector: ".faded", style: { opacity: 0.16 } },
      { selector: ".found", style: { "border-width": 4, "border-color": (e) => rgb(c[e.data("mark")] ?? c.heat) } },
      { selector: ".picked", style: { "border-width": 4, "border-color": rgb(c.heat), "border-style": "solid" } },
      { selector: "node:active, edge:active", style: { "overlay-opacity": 0 } },
    ];
  }

  // ---- the graph
  const cy = cytoscape({ container: $("graph"), style: style(), minZoom: 0.03, maxZoom: 3, autoungrabify: true, boxSelectionEnabled: false });
  let found = null; // ids of things that the search or a filter finds
  let picked = "";

  function draw({ keep = "", fit = false } = {}) {
    const before = keep && cy.getElementById(keep).nonempty() ? cy.getElementById(keep).renderedBoundingBox() : null;
    const start = performance.now();
    cy.batch(() => {
      cy.elements().remove();
      cy.add(elements());
    });
    cy.layout({ name: "dagre", rankDir: "TB", nodeSep: 22, edgeSep: 12, rankSep: 26, fit: false, useDagreEdgeControlPoints: true }).run();
    cy.style().update();
    // a bend that lies inside of a node leaves cytoscape without an end for the edge, which it then does not draw
    const lost = cy.edges().filter((e) => { const end = e.sourceEndpoint(), tip = e.targetEndpoint(); return !end || !tip || !isFinite(end.x) || !isFinite(tip.x); });
    lost.forEach((e) => { e.removeScratch("controlPointWeights"); e.removeScratch("controlPointDistances"); });
    if (lost.nonempty()) cy.style().update();
    highlight();
    if (fit || !before) frame();
    else {
      const after = cy.getElementById(keep).renderedBoundingBox();
      cy.panBy({ x: (before.x1 + before.x2 - after.x1 - after.x2) / 2, y: before.y1 - after.y1 });
    }
    window.pullback.layoutMs = performance.now() - start;
  }

  /** At first groups are closed, those that were opened last before others, until all that is left is seen and legible. */
  function openingView() {
    draw({ fit: true });
    while (fitZoom() < LEGIBLE && opened.length > 1) {
      open.delete(opened.pop());
      draw({ fit: true });
    }
    if (fitZoom() < READABLE) cy.fit(undefined, 36); // the legend lies over the lower edge
  }
  const READABLE = 0.8, LEGIBLE = 0.45;
  function fitZoom() {
    const box = cy.elements().boundingBox();
    return Math.min((cy.width() - 48) / box.w, (cy.height() - 48) / box.h);
  }

  /** All of it, or its start, where all of it would be too small to read. */
  function frame() {
    cy.resize(); // what lies above may have grown
    cy.fit(undefined, 24);
    if (cy.zoom() > 1) { cy.zoom(1); cy.center(); }
    if (cy.zoom() >= READABLE) return;
    const box = cy.elements().boundingBox();
    const start = cy.getElementById("out").nonempty() ? cy.getElementById("out").position("x") : (box.x1 + box.x2) / 2;
    cy.zoom(READABLE);
    cy.pan({ x: cy.width() / 2 - READABLE * start, y: 20 - READABLE * box.y1 });
  }

  /** Open a group and what is around it; what was opened longest ago gives way where it would be too much. */
  function reveal(g) {
    const wanted = new Set([0, ...ancestors(g)]);
    const after = new Set([...open, ...wanted]);
    for (const old of [...opened]) {
      if (countShown(after) <= MOST_SHOWN) break;
      if (!wanted.has(old)) after.delete(old);
    }
    if (countShown(after) > MOST_SHOWN) return toast(`more than ${MOST_SHOWN} parts: search for what you look for`);
    const closed = [...open].filter((old) => !after.has(old)).length;
    open.clear();
    for (const one of after) open.add(one);
    opened.splice(0, opened.length, ...opened.filter((one) => open.has(one) && !wanted.has(one)), ...wanted);
    if (closed) toast(`${many(closed, "group")} closed to make room`);
    return undefined;
  }
  function toggle(g) {
    if (open.has(g)) {
      open.delete(g);
      opened.splice(opened.indexOf(g), 1);
    } else reveal(g);
    draw({ keep: `g${g}` });
  }
  function collapse() {
    open.clear();
    open.add(0);
    opened.splice(0, opened.length, 0);
    draw({ fit: true });
  }

  let timer = 0;
  function toast(words) {
    $("toast").textContent = words;
    $("toast").hidden = false;
    clearTimeout(timer);
    timer = setTimeout(() => { $("toast").hidden = true; }, 3500);
  }

  /** Show a thing: open what is around it, bring it to the middle, tell about it. */
  function go(thing) {
    reveal(thing.what === "group" ? groups[thing.id].parent : thing.group);
    if (thing.aside && !showAside) { showAside = true; $("aside").checked = true; }
    picked = idOf(thing);
    draw();
    const element = cy.getElementById(picked);
    if (element.nonempty()) {
      cy.zoom(Math.max(cy.zoom(), 0.7));
      cy.center(element);
    }
    pin(thing);
  }

  // ---- search and filters
  const filters = new Set();
  const haystack = (thing) => thing.haystack ??= [
    thing.name, thing.type ?? "", thing.call ?? "", thing.layer ?? "", thing.inside ?? "",
    ...(thing.what === "node" ? [place(thing.place), thing.place < 0 ? "" : text(data.places[thing.place][2]), text(thing.rule[1]), text(thing.rule[2])] : []),
  ].join("\n").toLowerCase();

  function search() {
    const wanted = $("search").value.trim().toLowerCase();
    if (!wanted && !filters.size) found = null;
    else {
      const fits = (thing) => (!wanted || haystack(thing).includes(wanted)) && (!filters.size || thing.marks.some((mark) => filters.has(mark)));
      const named = wanted ? groups.filter((group) => group.id && group.kind !== "part" && fits(group)) : [];
      found = [...named, ...sources.filter(fits), ...nodes.filter(fits)];
    }
    highlight();
    const seen = cy.nodes(".found");
    const view = cy.extent();
    if (seen.nonempty() && !seen.some((e) => e.position("x") > view.x1 && e.position("x") < view.x2 && e.position("y") > view.y1 && e.position("y") < view.y2)) cy.center(seen[0]);
    show(found ? "found" : current === "found" ? "layers" : current);
  }
  function highlight() {
    cy.batch(() => {
      cy.elements().removeClass("faded found picked");
      if (found) {
        const stand = standIns(open);
        const seen = new Set(found.map((thing) => {
          const g = thing.what === "group" ? groups[thing.id].parent : thing.group;
          return stand[g] === -1 ? idOf(thing) : `g${stand[g]}`;
        }));
        cy.edges().addClass("faded");
        cy.nodes().filter((e) => !e.isParent()).forEach((e) => { e.addClass(seen.has(e.id()) ? "found" : "faded"); });
      }
      if (picked) cy.getElementById(picked).addClass("picked");
    });
  }

  // ---- details
  const sized = (s) => !s ? "none" : `${number(s.norm)}   max ${number(s.max)}` + (s.zeros ? `   ${number(s.zeros * 100)} % zero` : "")
    + (s.nan ? `   ${many(s.nan, "NaN")}` : "") + (s.inf ? `   ${s.inf} Inf` : "");
  const KINDS = { engine: data.engine === "tensorflow" ? "TensorFlow’s" : "the framework’s", custom: "custom", pullback: "pullback’s", override: "overridden", none: "none registered", stopped: "stops gradients", unrecorded: "not recorded" };
  function ruleText([kind, name, target, where]) {
    return [KINDS[text(kind)] ?? text(kind), text(name), text(target) && `by ${text(target)}`, place(where) && `at ${place(where)}`].filter(Boolean).join(" ");
  }
  function about(thing) {
    const rows = [];
    const add = (label, value) => { if (value) rows.push(make("tr", {}, make("td", {}, label), make("td", {}, value))); };
    const box = make("div", { class: "about" });
    const layer = (g) => ancestors(g).reverse().map((k) => groups[k].name).join(" › ");
    const marks = told(thing).map(([mark, word]) => make("span", { class: `mark c-${mark}` }, `${word} `));
    if (thing.what === "node") {
      box.append(make("h2", {}, thing.name && thing.name !== thing.type ? `${thing.call}  ${thing.name}` : thing.call), make("div", { class: "sub" }, layer(thing.group)), ...marks);
      if (thing.place >= 0) box.append(make("pre", {}, `${place(thing.place)}\n${text(data.places[thing.place][2])}`));
      add("shapes", `${thing.inputs.map((v) => values[v].spec).join(", ")} → ${thing.outputs.map((v) => values[v].spec).join(", ")}`);
      add("operation", thing.call === thing.type ? "" : thing.type);
      add("rule", ruleText(thing.rule));
      for (const v of thing.outputs) add("gradient in", sized(values[v].gradient));
      thing.gradients.forEach((g, k) => { if (k < 6) add(`to input ${k}`, sized(g)); });
      for (const v of thing.outputs) if (values[v].broken) add("its value", sized(values[v].broken));
      add("backward", thing.gradients.length ? time(thing.us) : "");
      add("held", bytes(thing.outputs.reduce((sum, v) => sum + (values[v].held ? values[v].bytes : 0), 0)));
      add("inside", thing.inside);
    } else if (thing.what === "group") {
      box.append(make("h2", {}, thing.name + (thing.count > 1 ? `  ×${thing.count}` : "")), make("div", { class: "sub" }, [thing.kind, layer(thing.parent)].filter(Boolean).join(" · ")), ...marks);
      add("gradient in", number(thing.arriving));
      add("passed on", number(thing.passed));
      add("of weights", thing.weights === null ? "" : number(thing.weights));
      add("operations", thing.operations.toLocaleString("en"));
      add("rules", thing.rules.map(([kind, n]) => `${n} ${KINDS[text(kind)]}`).join(", "));
      add("backward", time(thing.us));
      add("held", bytes(thing.held));
    } else {
      box.append(make("h2", {}, thing.name), make("div", { class: "sub" }, `${thing.kind} · ${thing.spec}${thing.trainable ? "" : " · not trained"}`), ...marks);
      add("gradient", sized(thing.gradient));
      if (thing.why) box.append(make("div", {}, ...coded(thing.why)));
    }
    if (rows.length) box.append(make("table", {}, ...rows));
    return box;
  }
  function aboutEdge(edge) {
    const box = make("div", { class: "about" }, make("h2", {}, edge.norm === null ? "no gradient" : `gradient ${number(edge.norm)}`));
    box.append(make("div", { class: "sub" }, `${many(edge.tensors, "tensor")}${edge.broken ? `, ${many(edge.broken, "entry")} not finite` : ""}`));
    return box;
  }
  function pin(thing) {
    $("details").replaceChildren(make("button", { class: "close", title: "close", onclick: () => { $("details").hidden = true; picked = ""; highlight(); } }, "✕"), about(thing));
    $("details").hidden = false;
  }
  function tip(content, x, y) {
    const box = $("tip");
    box.replaceChildren(content);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(x + 16, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(4, y + height + 24 > innerHeight ? y - height - 12 : y + 16)}px`;
  }

  // ---- the panel
  const TABS = { layers: data.bars.some((k) => k >= 0) ? "Operations" : "Layers", sources: "Sources", held: "Held", found: "Found" };
  let current = "layers";
  function show(tab) {
    current = tab;
    const counts = { layers: data.bars.length, sources: sources.length, held: data.held.length, found: found?.length };
    $("tabs").replaceChildren(...Object.entries(TABS).filter(([key]) => key !== "found" || found).map(([key, name]) =>
      make("button", { role: "tab", "data-tab": key, "aria-selected": String(key === tab), onclick: () => show(key) }, `${name} ${counts[key]}`)));
    $("panel").replaceChildren(...{ layers: layerRows, sources: sourceRows, held: heldRows, found: foundRows }[tab]());
    $("panel").scrollTop = 0;
  }
  const hint = (words) => make("p", { class: "hint" }, words);
  function badges(thing) {
    return told(thing).map(([mark, word]) => make("span", { class: `mark c-${mark}` }, word));
  }
  function row(thing, label, figure, below, before = null) {
    return make("button", { class: `row c-${thing.marks[0] ?? ""}`, onclick: () => go(thing) },
      make("div", { class: "top" }, make("span", { class: "label", title: label }, before, label), ...badges(thing), make("span", { class: "figure" }, figure === "NaN" && thing.marks.includes("nan") ? "" : figure)), below);
  }
  function bars(norm, weights) {
    const bar = (x, name) => x ? make("div", { class: `bar ${name}`, style: `width:${(100 * share(x)).toFixed(1)}%` }) : null;
    return make("div", { class: "bars" }, norm ? bar(norm, "") : make("div", { class: "bar none" }), bar(weights, "weights"));
  }
  /** The layers around a thing, without those around everything. */
  const layersOf = (g) => ancestors(g).reverse().filter((k) => groups[k].kind === "layer").map((k) => groups[k].name);
  const paths = data.bars.filter((k) => k < 0).map((k) => layersOf(groups[-k].parent));
  const shared = (paths[0] ?? []).findIndex((name, k) => paths.some((path) => path[k] !== name));
  const prefix = (g) => {
    const path = layersOf(g).slice(shared < 0 ? (paths[0] ?? []).length : shared);
    return path.length ? make("span", { class: "around" }, `${path.join(" › ")} › `) : null;
  };
  function layerRows() {
    return [hint("Norm of the gradient that arrives, on a logarithmic scale, in the order of the backward pass; thin: of the weights."),
      ...data.bars.map((k) => {
        const thing = k < 0 ? groups[-k] : nodes[k];
        const norm = normOf(thing);
        return row(thing, thing.what === "group" ? thing.name : thing.call, figure(thing), bars(norm, thing.weights), thing.what === "group" ? prefix(thing.parent) : null);
      })];
  }
  function sourceRows() {
    return [hint("What a gradient was asked of, or could be."),
      ...sources.map((s) => row(s, s.name, figure(s), make("div", {}, make("div", { class: "sub" }, ...coded(s.why || `${s.kind} ${s.spec}`)), bars(s.gradient?.norm, null))))];
  }
  function heldRows() {
    const most = Math.max(...data.held.map(([n]) => n), 1);
    return [hint("What is kept in memory for the backward pass."),
      ...data.held.map(([n, label, sub]) => make("div", { class: "row" },
        make("div", { class: "top" }, make("span", { class: "label", title: label }, label), make("span", { class: "figure" }, bytes(n))),
        make("div", { class: "sub" }, sub),
        make("div", { class: "bars" }, make("div", { class: "bar", style: `width:${100 * n / most}%` }))))];
  }
  function foundRows() {
    const rows = found.slice(0, MOST_FOUND).map((thing) => row(thing, thing.what === "node" ? thing.call : thing.name, figure(thing),
      make("div", { class: "sub" }, thing.what === "node" ? nearPlace(thing.place) : thing.what === "group" ? thing.kind : thing.why || thing.kind),
      thing.what === "source" ? null : prefix(thing.what === "node" ? thing.group : thing.parent)));
    return [hint(found.length ? `${many(found.length, "place")}${found.length > MOST_FOUND ? `, the first ${MOST_FOUND}` : ""}` : "Nothing here."), ...rows];
  }

  // ---- the frame around it
  /** A sentence, with what stands in backticks as code. */
  const coded = (words) => typeof words !== "string" ? [words] : words.split("`").map((part, k) => k % 2 ? make("code", {}, part) : part);
  function head() {
    document.body.classList.toggle("ok", data.ok);
    $("badge").textContent = data.sign;
    document.body.classList.toggle("warned", data.sign === "!");
    $("name").textContent = data.name;
    $("verdict").textContent = data.verdict;
    const held = values.reduce((sum, value) => sum + (value.held ? value.bytes : 0), 0);
    const facts = [["operations", nodes.length.toLocaleString("en")], ["backward", time(Math.round(nodes.reduce((sum, n) => sum + n.us, 0)))], ...(held ? [["held", bytes(held)]] : [])];
    $("facts").append(...facts.map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
    const trouble = (mark, title, words, thing) => make("div", { class: `trouble c-${mark}` }, make("b", {}, title), make("span", {}, ...coded(words)),
      thing ? make("button", { onclick: () => go(thing) }, "show") : null);
    if (data.nonfinite) $("troubles").append(trouble("nan", "NaN or Inf", data.nonfinite, data.nonfiniteNode >= 0 ? nodes[data.nonfiniteNode] : null));
    const causes = new Map(); // what is said, and of whom: one cause is told once
    for (const s of sources) {
      if (!s.marks.length || !s.why || s.marks.includes("nan")) continue;
      const said = s.why.startsWith(`\`${s.name}\`: `) ? s.why.slice(s.name.length + 4) : s.why;
      causes.set(said, [...(causes.get(said) ?? []), s]);
    }
    for (const [said, whom] of causes) {
      const first = whom[0], names = whom.slice(0, 6).map((s) => `\`${s.name}\``).join(", ") + (whom.length > 6 ? ` and ${whom.length - 6} more` : "");
      $("troubles").append(trouble(first.marks[0], first.marks[0] === "stopped" ? WORD.stopped : first.gradient ? "zero" : "no gradient", `${names}: ${said}`, first.values.length ? first : null));
    }
    if (data.notes.length) {
      const list = make("details", {}, make("summary", {}, data.notes[0], data.notes.length > 1 ? ` (and ${data.notes.length - 1} more)` : ""), ...data.notes.slice(1).map((note) => make("div", {}, note)));
      $("troubles").append(trouble("", "note", list, null));
    }
    $("legend").textContent = "gradients flow downwards · colour and width: their norm · click opens and closes · / searches, arrows move, Enter opens";
  }
  function filterButtons() {
    const counts = Object.fromEntries(MARKS.map((mark) => [mark, nodes.filter((n) => n.marks.includes(mark)).length + sources.filter((s) => s.marks.includes(mark)).length]));
    const names = { ...WORD, nan: "NaN", cut: "None" };
    $("filters").append(...["override", "custom", "cut", "nan", "vanishing", "exploding", "zero", "stopped"].map((mark) => {
      const button = make("button", { class: `filter c-${mark}`, "data-filter": mark, "aria-pressed": "false", onclick: () => {
        if (!filters.delete(mark)) filters.add(mark);
        button.setAttribute("aria-pressed", String(filters.has(mark)));
        search();
      } }, `${names[mark]} ${counts[mark]}`);
      button.disabled = !counts[mark];
      button.hidden = !counts[mark] && ["exploding", "zero", "stopped"].includes(mark); // the others say that there is nothing
      return button;
    }));
  }

  cy.on("tap", "node", (event) => {
    const id = event.target.id();
    if (id === "out") return;
    const thing = thingOf(id);
    if (thing.what === "group") { $("tip").hidden = true; toggle(thing.id); }
    else { picked = id; highlight(); pin(thing); }
  });
  cy.on("mouseover mousemove", "node, edge", (event) => {
    const { clientX, clientY } = event.originalEvent ?? {};
    if (clientX === undefined || event.target.id() === "out") return;
    tip(event.target.isEdge() ? aboutEdge(event.target.data()) : about(thingOf(event.target.id())), clientX, clientY);
    event.stopPropagation();
  });
  cy.on("mouseout viewport tapstart", () => { $("tip").hidden = true; });
  $("search").addEventListener("input", search);
  $("search").addEventListener("keydown", (event) => { if (event.key === "Enter" && found?.length) go(found[0]); });
  // ---- keys: / searches, arrows go along the edges, Enter opens and closes
  const KEYS = { f: () => cy.fit(undefined, 24), c: collapse, "+": () => cy.zoom(cy.zoom() * 1.2), "-": () => cy.zoom(cy.zoom() / 1.2),
    Enter: () => { if (picked[0] === "g") toggle(Number(picked.slice(1))); },
    Escape: () => { $("details").hidden = true; picked = ""; highlight(); } };
  /** The nearest thing in a direction: along an edge up and down, beside it left and right. */
  function step(dx, dy) {
    const seen = cy.nodes().filter((e) => !e.isParent() && e.id() !== "out");
    const here = picked ? cy.getElementById(picked) : cy.collection();
    if (here.empty()) return seen.min((e) => e.position("y")).ele;
    const ahead = dy > 0 ? here.outgoers("node") : dy < 0 ? here.incomers("node") : seen;
    const at = here.position();
    return ahead.filter((e) => e.id() !== "out" && (dx ? (e.position("x") - at.x) * dx > 1 && Math.abs(e.position("y") - at.y) < 60 : true))
      .min((e) => Math.abs(e.position("x") - at.x)).ele;
  }
  const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === "INPUT") { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "/") $("search").focus();
    else if (KEYS[event.key] && !(event.key === "Enter" && event.target.tagName === "BUTTON")) KEYS[event.key]();
    else if (ARROWS[event.key]) {
      const next = step(...ARROWS[event.key]);
      if (!next) return;
      picked = next.id();
      highlight();
      const box = next.renderedBoundingBox();
      if (box.x1 < 0 || box.y1 < 0 || box.x2 > cy.width() || box.y2 > cy.height()) cy.center(next);
      pin(thingOf(picked));
    } else return;
    event.preventDefault();
  });
  $("aside").addEventListener("change", () => { showAside = $("aside").checked; draw(); });
  $("collapse").addEventListener("click", collapse);
  $("fit").addEventListener("click", () => cy.fit(undefined, 24));
  const recolour = () => cy.style(style());
  system.addEventListener("change", recolour);
  $("theme").addEventListener("click", () => {
    theme = (theme || (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    document.documentElement.style.colorScheme = theme;
    recolour();
  });

  window.pullback = { cy, toggle, open, groups, nodes, sources, layoutMs: 0 };
  head();
  filterButtons();
  show("layers");
  openingView();
  window.pullback.readyMs = performance.now() - began;
})();
