"use strict";
// Draws the plots when they come into view, in the reader's theme. Library and plots lie in the page, gzipped, as text.
(async () => {
  async function unpack(id) {
    const text = atob(document.getElementById(id).textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const places = [...document.querySelectorAll("[data-plot]")];
  if (!places.length) { document.documentElement.dataset.ready = performance.now(); return; }
  const [plots, library] = [JSON.parse(await unpack("plots")), await unpack("library")];
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);

  const HEAT = {
    light: [[0, "#e9edf2"], [0.35, "#f6c46a"], [0.7, "#e2582f"], [1, "#7f0d1c"]],
    dark: [[0, "#2a323b"], [0.35, "#80591d"], [0.7, "#dd6a2c"], [1, "#ffe0ad"]],
  };

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const isDark = document.documentElement.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches;
    return { text: colour("--text"), line: colour("--line"), panel: colour("--panel"), heat: HEAT[isDark ? "dark" : "light"] };
  }

  const PRINT_WIDTH = 680; // px: a page of A4 or letter between its margins
  const clear = "rgba(0,0,0,0)";
  const isNarrow = () => innerWidth < 640;

  function themed(plot) {
    const now = theme();
    const isPrinted = document.documentElement.dataset.theme === "light";
    const layout = {
      ...plot.layout, height: plot.height, paper_bgcolor: clear, plot_bgcolor: clear, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      font: { color: now.text, size: isNarrow() ? 11 : 12, family: "system-ui, sans-serif" }, margin: { l: 10, r: 10, t: 10, b: 10 },
      hoverlabel: { bgcolor: now.panel, bordercolor: now.line, font: { color: now.text }, align: "left", namelength: -1 },
    };
    if (isPrinted) layout.width = PRINT_WIDTH;
    for (const axis of ["xaxis", "yaxis"]) layout[axis] = { automargin: true, gridcolor: now.line, zerolinecolor: now.line, ...layout[axis] };
    const data = plot.data.map((trace) => {
      if (trace.meta && trace.meta.heat) return { ...trace, colorscale: now.heat, ...(isNarrow() ? { xgap: 0, ygap: 0 } : {}) };
      if (trace.meta && trace.meta.shade) return { ...trace, line: { ...trace.line, color: shade(now.heat, trace.meta.shade) } };
      return trace;
    });
    return [data, layout];
  }

  function shade(scale, share) {
    return scale.reduce((best, step) => (Math.abs(step[0] - share) < Math.abs(best[0] - share) ? step : best))[1];
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
    return Plotly.react(place, ...themed(chosen(plots[place.dataset.plot], i)), { responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, modeBarButtonsToRemove: ["lasso2d", "select2d"] });
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
  }

  const redraw = () => drawn.forEach((_, place) => draw(place));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    document.documentElement.dataset.drawn = drawn.size;
    document.documentElement.dataset.ready ||= performance.now();
  }, { rootMargin: "400px" });
  places.forEach((place) => watch.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; places.forEach((place) => draw(place)); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; redraw(); drawn.forEach((_, place) => Plotly.Plots.resize(place)); });
})();
