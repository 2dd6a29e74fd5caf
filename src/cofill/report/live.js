"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const tokens = new URLSearchParams(location.search).get("token");
  const address = tokens ? `state?token=${encodeURIComponent(tokens)}` : "state";
  const tones = { running: "plain", waiting: "plain", finished: "good", failed: "bad", stopped: "warn" };
  const count = new Intl.NumberFormat("en");
  let drawn = "";

  function size(bytes) {
    for (const [unit, step] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
      if (bytes >= step) return `${(bytes / step).toFixed(1)} ${unit}`;
    return `${bytes} B`;
  }

  function ago(seconds) {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
  }

  // Everything comes in as text, never as markup.
  function rows(id, lines, numeric) {
    const body = at(id).querySelector("tbody");
    body.replaceChildren(...lines.map((cells) => {
      const line = document.createElement("tr");
      cells.forEach((words, k) => {
        const cell = document.createElement(k ? "td" : "th");
        if (!k) cell.scope = "row";
        if (numeric.includes(k)) cell.className = "n";
        cell.textContent = words;
        line.append(cell);
      });
      return line;
    }));
    at(id).hidden = !lines.length;
    at(`${id}-none`).hidden = lines.length > 0;
  }

  function losses(given) {
    const names = Object.keys(given.series);
    at("losses").hidden = !names.length;
    at("losses-none").hidden = names.length > 0;
    const now = JSON.stringify(given);
    if (!names.length || now === drawn) return;
    drawn = now;
    const place = at("losses").querySelector(".canvas");
    const data = place.parentElement.querySelector("script.figure");
    const figure = JSON.parse(data.textContent);
    if (given.x.at(-1) - given.x[0] <= 12) figure.layout.xaxis.dtick = 1; else delete figure.layout.xaxis.dtick;
    figure.layout.showlegend = names.length > 1;
    figure.data = names.map((name, k) => ({
      type: "scatter", mode: given.x.length < 2 ? "markers" : "lines", name, x: given.x, y: given.series[name],
      line: { color: `--s${(k % 8) + 1}`, width: 2 }, marker: { color: `--s${(k % 8) + 1}` },
    }));
    data.textContent = JSON.stringify(figure);
    const last = names.map((n) => `${n} ${given.series[n].at(-1)}`).join(", ");
    place.setAttribute("aria-label", `Losses over ${given.x.length} rounds; now ${last}`);
    window.cofillDraw(place);
  }

  function show(run) {
    const state = at("state");
    state.textContent = run.state;
    state.className = `badge ${tones[run.state] || "plain"}`;
    at("what").textContent = run.what || "nothing yet";
    at("step").textContent = run.steps ? `step ${run.steps[0]} of ${run.steps[1]}` : "";
    const bar = at("share");
    if (run.share === null) bar.removeAttribute("value"); else bar.value = run.share;
    bar.hidden = run.state === "waiting";
    at("percent").textContent = run.share === null ? "" : `${Math.round(100 * run.share)} %`;
    at("changed").textContent = run.changed ? `changed ${ago(run.now - run.changed)}` : "";
    at("total").textContent = `${count.format(run.releases.count)} releases, ${size(run.releases.bytes)}`;
    rows("sites", run.sites.map((s) => [s.name, s.state]), []);
    rows("releases", run.releases.latest.map((r) => [
      r.kind, r.sender, r.receiver, count.format(r.individuals), size(r.bytes),
      r.epsilon === null ? "no guarantee" : `ε = ${r.epsilon}`, r.step]), [3, 4]);
    rows("budget", run.budget.map((b) => [
      b.site, String(b.spent), b.limit === null ? "no limit" : String(b.limit),
      b.limit === null ? "–" : String(Math.max(0, +(b.limit - b.spent).toFixed(4))), String(b.delta)]), [1, 2, 3, 4]);
    rows("faults", run.faults.map((f) => [f]), []);
    losses(run.losses);
    document.title = `${run.state}${run.share === null ? "" : ` ${Math.round(100 * run.share)} %`} · ${run.name}`;
  }

  async function look() {
    try {
      const answer = await fetch(address, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.json());
      at("lost").hidden = true;
    } catch {
      at("lost").hidden = false;
    }
    setTimeout(look, 1000);
  }
  look();
})();
