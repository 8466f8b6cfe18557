"""The report in a real Chromium: what it shows, what moves together, what a click lights, what it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ppsim
from ppsim.ops import Kind
from tests.report.browser import browser, model, needed, opened, until

pytest.importorskip("bokeh", reason="needs bokeh: pip install 'ppsim[report]'")
pytestmark = pytest.mark.slow  # a browser starts

EVIL = "<script>alert(1)</script>"
SLOW = {"device": "a100-80gb", "inter_node": {"bandwidth": "5 GB/s", "latency": "2 ms"}, "ranks_per_node": 1}
OPS = "Bokeh.documents[0].get_model_by_name('gantt0').renderers.find(r => r.name == 'ops')"


def experiment(**more: Any) -> ppsim.Experiment:
    costs = {"per": "stage", "forward": "10 ms", "backward": "20 ms", "message": "56 MiB", "activation": "1 GiB"}
    pipeline = {"ranks": 3, "microbatches": 5}
    return ppsim.Experiment(**{"schedule": "1f1b", "pipeline": pipeline, "costs": costs, "cluster": SLOW, **more})


@pytest.fixture(scope="module")
def result() -> ppsim.Result:
    """1F1B on three ranks with slow links, so that ops wait for messages."""
    return ppsim.simulate(experiment())


@pytest.fixture(scope="module")
def page(result: ppsim.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on that run, and on one whose name, which no config may have, is markup."""
    from ppsim.report import html

    named = replace(result, experiment=result.experiment.model_copy(update={"name": EVIL}))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(result, named), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def driver(page: Path) -> Iterator[Any]:
    needed()
    with browser() as found:
        opened(found, page)
        yield found


def test_a_row_for_every_op(driver: Any, result: ppsim.Result) -> None:
    """3 ranks x 5 microbatches x (F, B) = 30, in the plan's order."""
    names = driver.execute_script(f"return Array.from({OPS}.data_source.data.name)")
    assert len(names) == 30
    assert names == result.plan.ops.names


def test_what_hovering_over_an_op_shows(driver: Any) -> None:
    """0F1 starts at 10 ms, after 0F0; the pointer goes to the middle of its bar."""
    point(driver, 15, 0).perform()
    shown = (
        "(function all(root) { return Array.from(root.querySelectorAll('*')).flatMap(e =>"
        " (e.classList.contains('bk-Tooltip') ? [e.shadowRoot.textContent] : [])"
        " .concat(e.shadowRoot ? all(e.shadowRoot) : [])) })(document).join(' ')"
    )
    until(driver, f"{shown}.includes('0F1 on rank 0')")
    text = driver.execute_script(f"return {shown}")
    assert "10 ms" in text
    assert "20 ms" in text


def point(driver: Any, time: float, line: int) -> Any:
    """The mouse on its way to a time and a line of the Gantt chart."""
    from selenium.webdriver.common.action_chains import ActionChains

    mouse = ActionChains(driver)
    mouse.w3c_actions.pointer_action.move_to_location(*place_of(driver, time, line))
    return mouse


def place_of(driver: Any, time: float, line: int) -> tuple[int, int]:
    """Where in the window a time and a line of the Gantt chart are."""
    return tuple(
        driver.execute_script(
            f"""
            const view = Bokeh.index.find_one({model("gantt0")}), box = view.canvas_view.el.getBoundingClientRect()
            const [x] = view.frame.x_scale.v_compute([{time}]), [y] = view.frame.y_scale.v_compute([{line}])
            return [Math.round(box.left + x), Math.round(box.top + y)]"""
        )
    )


def test_zooming_one_figure_moves_all_time_axes(driver: Any) -> None:
    """Gantt chart, memory and links of both results look at the same part of the time."""
    figures = [f"{part}{number}" for part in ("gantt", "memory", "links") for number in (0, 1)]
    driver.execute_script(f"const range = {model('gantt0')}.x_range; range.start = 20; range.end = 50")
    seen = [driver.execute_script(f"const r = {model(name)}.x_range; return [r.start, r.end]") for name in figures]
    assert seen == [[20, 50]] * 6
    driver.execute_script(f"{model('gantt0')}.x_range.reset()")


def test_ctrl_and_the_wheel_zoom(driver: Any) -> None:
    """A real wheel over the chart; without Ctrl the page scrolls."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.keys import Keys

    whole = driver.execute_script(f"const r = {model('gantt0')}.x_range; return r.end - r.start")
    x, y = place_of(driver, 50, 1)
    at = ScrollOrigin.from_viewport(x, y)
    ActionChains(driver).key_down(Keys.CONTROL).scroll_from_origin(at, 0, -200).key_up(Keys.CONTROL).perform()
    until(driver, f"{model('memory1')}.x_range.end - {model('memory1')}.x_range.start < {whole}")
    driver.execute_script(f"{model('gantt0')}.x_range.reset()")


def test_a_click_lights_the_chain_that_explain_gives(driver: Any, result: ppsim.Result) -> None:
    """Every op once, by selection, as a click does it: the lit ops and transfers are explain's, in its order."""
    for row in range(len(result.plan.ops)):
        driver.execute_script(f"{OPS}.data_source.selected.indices = [{row}]")
        lit = driver.execute_script(f"return {OPS}.data_source.selected.indices")
        told = driver.execute_script(f"return {model('chain0')}.text").splitlines()[1:]
        chain = ppsim.explain(result, row)
        names = [f"{result.plan.ops.names[i]} on rank {result.plan.ops.rank[i]}" for i in lit]
        expected = [link.what.removesuffix(" (held a port)") for link in chain]
        assert names[1:] == [what for what in expected if what.startswith(tuple("012"))]
        said = [line.removeprefix("because of ").removeprefix("after ").partition(": ")[0] for line in told]
        assert said == (expected or ["nothing held it that is known"])
    driver.execute_script(f"{OPS}.data_source.selected.indices = []")


def test_a_click_with_the_mouse(driver: Any, result: ppsim.Result) -> None:
    """The last rank's last op ends a chain that goes back to time 0."""
    row = result.plan.ops.names.index("2B4")
    middle = (result.timeline.start[row] + result.timeline.end[row]) / 2e6
    point(driver, middle, 2).click().perform()
    until(driver, f"{OPS}.data_source.selected.indices.length > 1")
    assert driver.execute_script(f"return {OPS}.data_source.selected.indices[0]") == row
    assert driver.execute_script(f"return {model('chain0')}.text").startswith("2B4 on rank 2 started at")


def test_markup_in_a_name_is_text(driver: Any) -> None:
    """It is read in the heading and in the first column of the table; nothing runs."""
    assert EVIL in driver.find_element("tag name", "h1").text
    inside = f"Bokeh.index.find_one({model('summary')}).shadow_el.textContent"
    until(driver, f"{inside}.includes({json.dumps(EVIL)})")
    scripts = driver.execute_script("return Array.from(document.scripts).filter(s => s.text == 'alert(1)').length")
    assert scripts == 0


def test_no_error_and_nothing_asked_of_the_network(driver: Any, page: Path) -> None:
    """All that was asked for since the browser started is the page itself."""
    errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {page.as_uri()}


@pytest.mark.parametrize(("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 25, 29)")])
def test_light_and_dark_at_the_width_of_a_small_window(page: Path, scheme: str, colour: str) -> None:
    """The page's own colours of page.css; nothing is wider than the window."""
    needed()
    with browser(800, scheme) as small:
        opened(small, page)
        assert small.execute_script("return getComputedStyle(document.body).backgroundColor") == colour
        assert small.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_ops_that_wait_for_messages_are_rows_too(tmp_path: Path) -> None:
    """DualPipe's fused pairs are two rows each: the Gantt chart has as many as the plan, SEND and RECV among them."""
    needed()
    from ppsim.report import html

    found = ppsim.simulate(experiment(schedule="dualpipe", pipeline={"ranks": 4, "microbatches": 8}, cluster=None))
    assert any(found.plan.tail)
    assert Kind.F in found.plan.ops.kind
    path = tmp_path / "pairs.html"
    path.write_text(html(found), encoding="utf-8")
    with browser() as driver:
        opened(driver, path)
        assert driver.execute_script(f"return {OPS}.data_source.data.name.length") == len(found.plan.ops)
