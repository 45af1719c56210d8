"""How a page looks and what a screen reader gets of it: colours as the browser computes them, axe-core's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from browser import settled
from canvas_page import eventually
from outside_parts import CANVAS, require
from playwright.sync_api import Locator, Page

from ui.shell.theme import Mode


class Excepted(NamedTuple):
    """A finding that is not ours: where, by which rule, and why it stays."""

    rule: str
    selector: str
    reason: str


STREAMLITS = (
    Excepted("svg-img-alt", ".role-mark", "Vega draws a group for marks of which there are none yet, and names it not"),
    Excepted("scrollable-region-focusable", "pre", "Streamlit's code block scrolls; its copy button is beside it"),
)

COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""Those of axe-core's rules whose findings differ between two themes of one page."""
_LOOKS = 5
_FIND = """async ([exceptions, rules]) => {
    // A colour on its way to that of another theme is neither. One transition's end may begin others.
    const passing = () => document.getAnimations().filter((each) => each instanceof CSSTransition);
    const until = performance.now() + 2000;
    for (let found = passing(); found.length && performance.now() < until; found = passing()) {
        found.forEach((each) => each.finish());
        await new Promise(requestAnimationFrame);
    }
    let worked = false;
    const watch = new MutationObserver(() => { worked = true; });
    const app = document.querySelector('[data-testid=stApp]');
    watch.observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
    // What a rule finds has the rule's own impact: those of less are not asked for what is left out below.
    const less = axe._audit.rules.filter((rule) => ['minor', 'moderate'].includes(rule.impact));
    const which = rules.length
        ? { runOnly: { type: 'rule', values: rules } }
        : { rules: Object.fromEntries(less.map((rule) => [rule.id, { enabled: false }])) };
    const found = await axe.run(document, { resultTypes: ['violations'], preload: false, ...which });
    watch.disconnect();
    const parts = (target) => target.flat().map((part) => part.trim());
    const reported = found.violations
        .filter((rule) => ['serious', 'critical'].includes(rule.impact))
        .flatMap((rule) => rule.nodes
            .filter((node) => {
                const path = parts(node.target);
                let root = document;
                for (const part of path.slice(0, -1)) {
                    const inner = root.querySelector(part);
                    root = inner?.shadowRoot ?? inner?.contentDocument ?? root;
                }
                const element = root.querySelector(path.at(-1));
                return !exceptions.some(([id, selector]) => id === rule.id && element?.matches(selector));
            })
            .map((node) => `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`));
    return [reported, worked];
}"""
_COLOURS = """element => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const paint = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); };
    const seen = () => [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    const behind = [];
    for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
        behind.unshift(getComputedStyle(at).backgroundColor);
    }
    paint('#fff');
    behind.forEach(paint);
    const ground = seen();
    paint(getComputedStyle(element).color);
    return [seen(), ground];
}"""


def findings(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """What axe-core finds that is serious or critical, and not listed as Streamlit's own, on the page once it is drawn.

    By all its rules, or by `rules`. While the app works, Streamlit fades what it may draw anew, and some of it is not
    there: what is found then is looked at again.
    """
    if not page.evaluate("'axe' in window"):
        require("canvas")
        page.add_script_tag(path=CANVAS / "node_modules" / "axe-core" / "axe.min.js")
    found: list[str] = []
    for _ in range(_LOOKS):  # a live page works again and again
        settled(page)
        found, worked = page.evaluate(_FIND, [[[e.rule, e.selector] for e in STREAMLITS], [*rules]])
        if not (found and worked):
            break
    return found


def both_themes(page: Page) -> Iterator[tuple[Mode, Sequence[str]]]:
    """The theme that the page has, and then the other one, which the system has turned to; with each the rules for
    `findings`: all, and then those about colours, since the page is the same."""
    app = page.get_by_test_id("stApp")
    began_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    modes: tuple[Mode, Mode] = ("dark", "light") if began_dark else ("light", "dark")
    for mode, rules in zip(modes, ((), COLOUR_RULES), strict=True):
        page.emulate_media(color_scheme=mode)
        eventually(lambda mode=mode: is_dark(colours(app)[1]) == (mode == "dark"), f"the page does not turn {mode}")  # type: ignore[misc]
        yield mode, rules


def is_dark(colour: list[int]) -> bool:
    """Whether a colour, as red, green and blue, is nearer to black than to white."""
    return sum(colour) < 3 * 128


def colours(item: Locator) -> tuple[list[int], list[int]]:
    """Of its text, and of what lies behind it, each as red, green and blue."""
    text, ground = item.evaluate(_COLOURS)
    return text, ground


def contrast(item: Locator) -> float:
    """Of its text with what lies behind it, as WCAG counts it: 1 to 21."""
    bright, dark = sorted((_luminance(colour) for colour in colours(item)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: list[int]) -> float:
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
