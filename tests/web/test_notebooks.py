"""The notebooks as people see them: run by a kernel, on a light and on a dark page, in a browser.

Templates of notebooks colour tables, lists and letters by rules of their own. Whatever they say,
every letter on a card keeps a contrast of 4.5, nothing sticks out, and nothing is fetched.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.examples.test_notebooks import NOTEBOOKS
from tests.web import browsing

pytestmark = pytest.mark.long
TEMPLATES = [("classic", "light"), ("lab", "light"), ("lab", "dark")]
_NO_DIAGRAMS = "data:text/javascript,export default {initialize() {}}"
"""The classic template fetches a program for diagrams, whether there are any or not."""
_WIDTH = 700

_FAULTS = """() => {
  const luminance = (colour) => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const bare = (colour) => colour === "transparent" || colour === "rgba(0, 0, 0, 0)";
  const behind = (one) => {
    while (bare(getComputedStyle(one).backgroundColor)) one = one.parentElement;
    return getComputedStyle(one).backgroundColor;
  };
  const found = [];
  let letters = 0;
  for (const card of document.querySelectorAll(".cf-card")) {
    const edge = card.getBoundingClientRect();
    if (edge.right > innerWidth || card.scrollWidth > card.clientWidth) found.push("wide card");
    for (const one of card.querySelectorAll("*")) {
      if (one.closest("style, title, desc")) continue;
      const said = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      const place = one.getBoundingClientRect();
      if (!said || !place.width) continue;
      letters += 1;
      const words = one.textContent.trim().slice(0, 40), style = getComputedStyle(one);
      const ink = one.namespaceURI.endsWith("svg") ? style.fill : style.color;
      const [low, high] = [luminance(ink), luminance(behind(one))].sort((a, b) => a - b);
      const contrast = (high + 0.05) / (low + 0.05);
      if (contrast < 4.5) found.push(`${contrast.toFixed(1)}: ${words}`);
      if (place.left < edge.left || place.right > edge.right) found.push(`sticks out: ${words}`);
    }
  }
  return [letters, found];
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all notebooks, each in a kernel of its own; save each in every template."""
    browsing.chromium()
    from nbclient import NotebookClient
    from traitlets.config import Config

    # These have types, and functions without.
    nbformat, nbconvert = map(import_module, ("nbformat", "nbconvert"))
    found = tmp_path_factory.mktemp("notebooks")
    settings = Config({"KernelManager": {"transport": "ipc"}})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "XDG_STATE_HOME"):
            patch.setenv(name, str(found / name))
        for path in NOTEBOOKS:
            book = nbformat.read(path, as_version=4)
            nbformat.validate(book)
            NotebookClient(book, timeout=100, config=settings).execute()
            said = [one for cell in book.cells for one in cell.get("outputs", ())]
            assert not [one for one in said if one.get("name") == "stderr"]
            for template, theme in TEMPLATES:
                saver = nbconvert.HTMLExporter(
                    template_name=template, theme=theme, mermaid_js_url=_NO_DIAGRAMS,
                    mathjax_url="", require_js_url="", jquery_url="",
                )  # fmt: skip
                page, _ = saver.from_notebook_node(book)
                (found / f"{path.stem}-{template}-{theme}.html").write_text(page)
    return found


@pytest.fixture(scope="module")
def chromium() -> Any:
    with browsing.browser() as found:
        yield found


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
@pytest.mark.parametrize(("template", "theme"), TEMPLATES)
def test_everybody_can_read_every_card(
    chromium: Browser, folder: Path, name: str, template: str, theme: str
) -> None:
    page = f"/{name}-{template}-{theme}.html"
    with browsing.Visit.of(chromium, folder.as_uri(), page, width=_WIDTH, scheme=theme) as visit:
        letters, faults = visit.page.evaluate(_FAULTS)
        assert letters > 50
        assert faults == []
        assert inaccessible(visit.page) == []


def inaccessible(page: Page) -> list[str]:
    """Return what axe finds on the cards."""
    found = Axe().run(page, context={"include": [[".cf-card"]]}).response["violations"]
    return [f"{one['id']}: {[node['html'][:90] for node in one['nodes'][:3]]}" for one in found]
