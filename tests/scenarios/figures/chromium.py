"""A page opened in headless Chromium: what it logs, asks for, shows and links to."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-domain-reliability", "--disable-dev-shm-usage"),
    # The probe looks into the page from a frame around it; neither is on a server.
    *("--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=15000"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_OWN_HOSTS = ("google.com", "googleapis.com")
"""What the browser itself asks for updates."""
_PROBE = """<!DOCTYPE html><meta charset="utf-8"><pre id="found">nothing</pre>
<iframe id="frame" src="PAGE" width="1200" height="900"></iframe>
<script>
document.getElementById("frame").addEventListener("load", event => {
  const page = event.target.contentDocument;
  const images = [...page.images], links = [...page.querySelectorAll("a[href]")].map(link => link.getAttribute("href"));
  document.getElementById("found").textContent = JSON.stringify({
    title: page.title,
    heading: page.querySelector("h1").textContent,
    scripts: page.scripts.length,
    images: images.length,
    broken: images.filter(image => !image.complete || image.naturalWidth === 0).length,
    dead: links.filter(link => link.startsWith("#") && !page.getElementById(link.slice(1))),
    overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
  });
});
</script>"""


def chromium() -> str | None:
    """The browser: `$CHROMIUM`, or one on the path."""
    asked = os.environ.get("CHROMIUM")
    return asked or next((found for name in NAMES if (found := shutil.which(name))), None)


def opened(page: Path) -> dict:
    """What the probe found, the lines the console got (`console`) and the addresses that were asked (`asked`)."""
    probe = page.with_name(f"probe_{page.name}")
    probe.write_text(_PROBE.replace("PAGE", page.name), encoding="utf-8")
    log = page.with_suffix(".netlog.json")
    command = [str(chromium()), *_QUIET, f"--user-data-dir={page.parent / 'profile'}", f"--log-net-log={log}"]
    command += ["--dump-dom", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return {**json.loads(unescape(found[1])), "console": console, "asked": _asked(log)}


def _asked(log: Path) -> list[str]:
    """Addresses of the network that the browser asked for the page; the log is cut off when it exits."""
    addresses = set(re.findall(r'"url":"(https?://[^"]*)"', log.read_text(encoding="utf-8")))
    return sorted(address for address in addresses if not (urlsplit(address).hostname or "").endswith(_OWN_HOSTS))
