"use strict";
// Draws the plots: those in view first, the others when there is nothing else to do, all of them before the page is
// printed. In the reader's theme and for the width there is. Library and plots lie in the page, gzipped, as text.
(async () => {
  const root = document.documentElement;
  async function unpack(id) {
    const text = atob(document.getElementById(id).textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const places = [...document.querySelectorAll("[data-plot]")];
  if (!places.length) { root.dataset.ready = performance.now(); return; }
  // Who prints a page without looking at it does so once it has loaded: a frame that is still open keeps it from that.
  const hold = document.createElement("iframe");
  hold.hidden = true;
  document.body.append(hold);
  hold.contentDocument.open();
  const release = () => { hold.contentDocument.close(); hold.remove(); };
  let plots;
  try {
    let library;
    [plots, library] = [JSON.parse(await unpack("plots")), await unpack("library")];
    const script = document.createElement("script");
    script.textContent = library;
    document.head.append(script);
  } catch (error) {
    release();
    throw error;
  }

  const HEAT = {
    light: [[0, "#e9edf2"], [0.35, "#f6c46a"], [0.7, "#e2582f"], [1, "#7f0d1c"]],
    dark: [[0, "#2a323b"], [0.35, "#80591d"], [0.7, "#dd6a2c"], [1, "#ffe0ad"]],
  };

  const PRINT_WIDTH = 680; // px: a page of A4 or letter between its margins
  const NARROW = 560; // px, of a plot
  const LABEL = 26, LETTER = 5.5; // longest label of a narrow plot; px that a letter in a cell takes
  const LEAST_COLUMNS = 6; // of a narrow fabric: so that its cells are no bars
  const clear = "rgba(0,0,0,0)";
  const isPrinted = () => root.dataset.theme === "light";
  const widthOf = (place) => (isPrinted() ? PRINT_WIDTH : place.clientWidth || innerWidth);

  function theme() {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const isDark = !isPrinted() && matchMedia("(prefers-color-scheme: dark)").matches;
    return { text: colour("--text"), line: colour("--line"), panel: colour("--panel"), heat: HEAT[isDark ? "dark" : "light"] };
  }

  function themed(plot, width) {
    const now = theme(), isNarrow = width < NARROW;
    const layout = {
      ...plot.layout, height: plot.height, showlegend: false, paper_bgcolor: clear, plot_bgcolor: clear,
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      font: { color: now.text, size: isNarrow ? 11 : 12, family: "system-ui, sans-serif" }, margin: { l: 10, r: 10, t: 10, b: 10 },
      hoverlabel: { bgcolor: now.panel, bordercolor: now.line, font: { color: now.text }, align: "left", namelength: -1 },
    };
    if (isPrinted()) layout.width = PRINT_WIDTH;
    for (const axis of ["xaxis", "yaxis"]) layout[axis] = { automargin: true, gridcolor: now.line, zerolinecolor: now.line, ticks: "outside", ticklen: 4, tickcolor: clear, ...layout[axis] };
    const data = plot.data.map((trace) => {
      if (trace.meta && trace.meta.heat) return heat(trace, layout, now, width);
      if (trace.meta && trace.meta.shade) return { ...trace, line: { ...trace.line, color: shade(now.heat, trace.meta.shade) } };
      return trace;
    });
    if (isNarrow && layout.yaxis.type === "category") shorten(layout, data[0].y, data[0].type === "bar");
    return [data, layout];
  }

  // A heat map: on a narrow plot its scale lies above it. A fabric fills the plot where its names have no room else.
  function heat(trace, layout, now, width) {
    const drawn = { ...trace, colorscale: now.heat };
    const names = trace.texttemplate ? trace.text : null;
    if (width < NARROW) {
      if (trace.xgap < 1) drawn.xgap = drawn.ygap = 0;
      const title = { ...trace.colorbar.title, side: "top" };
      drawn.colorbar = { ...trace.colorbar, title, orientation: "h", thickness: 8, len: 1, x: 0.5, xanchor: "center", y: 1.02, yanchor: "bottom" };
      layout.height += 56;
    }
    if (names && !hasRoom(names, layout.xaxis.range, width)) {
      const middle = (names[0].length - 1) / 2, columns = Math.max(names[0].length, LEAST_COLUMNS) + 0.2;
      layout.xaxis.range = [middle - columns / 2, middle + columns / 2];
      if (!hasRoom(names, layout.xaxis.range, width)) delete drawn.texttemplate;
    }
    return drawn;
  }

  function hasRoom(names, [first, last], width) {
    const longest = Math.max(...names.flat().map((name) => name.length));
    return (width - (width < NARROW ? 30 : 100)) / (last - first) >= LETTER * longest;
  }

  function shade(scale, share) {
    return scale.reduce((best, step) => (Math.abs(step[0] - share) < Math.abs(best[0] - share) ? step : best))[1];
  }

  // Labels of categories, cut so that they leave room for what they name; bars have room for two lines of them.
  function shorten(layout, names, hasTwoLines) {
    const cut = (text) => (text.length > LABEL ? text.slice(0, LABEL / 2) + "\u2026" + text.slice(-LABEL / 2 + 1) : text);
    const tickvals = [...new Set(names)];
    const ticktext = tickvals.map((name) => (hasTwoLines ? name.split(", ").map(cut).join(",<br>") : cut(name)));
    layout.yaxis = { ...layout.yaxis, tickvals, ticktext, tickfont: { size: 10 } };
  }

  function chosen(plot, i) {
    const data = plot.data.map((trace) => ({ ...trace }));
    for (const [update, traces] of (plot.choices && plot.choices[i] ? plot.choices[i].updates : []))
      for (const [key, value] of Object.entries(update))
        traces.forEach((trace, k) => put(data[trace], key.split("."), Array.isArray(value) ? value[k % value.length] : value));
    return { ...plot, data };
  }

  function put(object, [key, ...rest], value) {
    if (!rest.length) object[key] = value;
    else put((object[key] = { ...object[key] }), rest, value);
  }

  const drawn = new Map();
  function draw(place, i = drawn.get(place) || 0) {
    drawn.set(place, i);
    root.dataset.drawn = drawn.size;
    const hidden = (place.data || []).map((trace) => trace.visible);
    const [data, layout] = themed(chosen(plots[place.dataset.plot], i), widthOf(place));
    data.forEach((trace, k) => { if (hidden[k] !== undefined) trace.visible = hidden[k]; });
    return Plotly.react(place, data, layout, { responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, modeBarButtonsToRemove: ["lasso2d", "select2d"] });
  }

  // Names of what is drawn, as text of the page: they wrap where it is narrow. A click hides and shows.
  function legend(place, plot) {
    if (!plot.layout.showlegend || plot.data.length < 2) return;
    const list = document.createElement("div");
    list.className = "legend";
    plot.data.forEach((trace, k) => {
      const button = document.createElement("button"), mark = document.createElement("i");
      mark.style.background = (trace.marker && trace.marker.color) || (trace.line && trace.line.color);
      button.append(mark, new DOMParser().parseFromString(trace.name, "text/html").body.textContent);
      button.setAttribute("aria-pressed", "true");
      button.onclick = () => {
        const isShown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(isShown));
        (drawn.has(place) ? Promise.resolve() : draw(place)).then(() => Plotly.restyle(place, { visible: isShown || "legendonly" }, [k]));
      };
      list.append(button);
    });
    place.before(list);
  }

  for (const place of places) {
    const plot = plots[place.dataset.plot];
    place.style.minHeight = plot.height + "px";
    const buttons = (plot.choices || []).map((choice, i) => {
      const button = document.createElement("button");
      button.textContent = choice.label;
      button.setAttribute("aria-pressed", String(i === 0));
      button.onclick = () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        draw(place, i);
      };
      return button;
    });
    if (buttons.length > 1) place.previousElementSibling.append(...buttons);
    legend(place, plot);
  }

  const redraw = () => drawn.forEach((_, place) => draw(place));
  const idle = window.requestIdleCallback || ((todo) => setTimeout(todo, 50));
  const drawNext = () => {
    const next = places.find((place) => !drawn.has(place));
    if (next) draw(next).then(() => idle(drawNext));
    else root.dataset.done = performance.now();
  };
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    if (!root.dataset.ready) idle(drawNext);
    root.dataset.ready ||= performance.now();
  }, { rootMargin: "400px" });
  places.forEach((place) => watch.observe(place));
  let wasNarrow = innerWidth < NARROW;
  addEventListener("resize", () => { if (!isPrinted() && wasNarrow !== (wasNarrow = innerWidth < NARROW)) redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { root.dataset.theme = "light"; places.forEach((place) => draw(place)); });
  addEventListener("afterprint", () => { delete root.dataset.theme; redraw(); drawn.forEach((_, place) => Plotly.Plots.resize(place)); });
  release();
})();
