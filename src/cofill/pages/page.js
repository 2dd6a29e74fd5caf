"use strict";
(() => {
  const root = document.documentElement;
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const narrow = () => window.innerWidth < 600;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  // Figures name the page's colours; here they become what light or dark makes of them.
  function coloured(value, styles) {
    if (typeof value === "string" && value.startsWith("--")) {
      const found = styles.getPropertyValue(value).trim();
      const stops = found.includes("(") ? [found] : found.split(",").map((s) => s.trim());
      return stops.length < 2 ? found : stops.map((s, k) => [k / (stops.length - 1), s]);
    }
    if (Array.isArray(value)) return value.map((v) => coloured(v, styles));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, styles)]));
    return value;
  }

  function layoutOf(figure) {
    const small = narrow();
    const axis = { gridcolor: "--line", zerolinecolor: "--line", linecolor: "--line", automargin: true,
                   tickfont: { color: "--ink" }, title: { font: { color: "--ink" }, standoff: 8 } };
    const template = { layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: "--ink", family: "system-ui, sans-serif", size: small ? 11 : 13 },
      colorway: ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--s8"],
      xaxis: axis, yaxis: axis,
      margin: { l: 8, r: 8, t: 8, b: 8 },
      legend: { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { color: "--ink" } },
      hoverlabel: { bgcolor: "--card", bordercolor: "--line", font: { color: "--ink" } },
      coloraxis: { colorbar: { outlinewidth: 0, thickness: 12 } },
    }, data: { heatmap: [{ colorbar: { outlinewidth: 0, thickness: 12 } }] } };
    const given = { ...figure.layout, ...(small && figure.layout?.meta?.narrow) };
    return { ...given, template, autosize: true,
             dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom" };
  }

  function draw(place) {
    const figure = JSON.parse(place.parentElement.querySelector("script.figure").textContent);
    const styles = getComputedStyle(root);
    const layout = coloured(layoutOf(figure), styles);
    if (layout.height) place.style.height = `${layout.height}px`;
    if (narrow()) for (const trace of figure.data || []) delete trace.texttemplate;
    return Plotly.react(place, coloured(figure.data || [], styles), layout, {
      responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset",
    }).then(() => { place.dataset.drawn = isDark() ? "dark" : "light"; });
  }

  // What is folded away is drawn when it is shown: a plot needs a width.
  async function drawAll() {
    const theme = isDark() ? "dark" : "light";
    for (const place of document.querySelectorAll(".canvas")) {
      if (place.offsetParent === null || place.dataset.drawn === theme) continue;
      await draw(place);
      await new Promise((next) => setTimeout(next));
    }
    root.dataset.ready = theme;
  }

  for (const choice of document.querySelectorAll(".choice")) {
    const select = choice.querySelector("select");
    const options = [...choice.children].filter((e) => e.classList.contains("option"));
    const show = () => { options.forEach((o, k) => { o.hidden = k !== select.selectedIndex; }); };
    select.addEventListener("change", () => { show(); drawAll(); });
    show();
  }
  document.addEventListener("toggle", drawAll, true);

  function themed() {
    if (button) {
      button.hidden = false;
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    }
    return drawAll();
  }

  if (button) button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; themed(); });
  window.cofillDraw = draw;
  systemDark.addEventListener("change", themed);
  themed();
})();
