"""Whether a page can be read: how light its colours are, and how far apart, as WCAG reckons it."""

from playwright.sync_api import Page

READABLE = 4.5


def light(page: Page, selector: str, colour: str) -> float:
    """Relative luminance of a colour of the first element that fits."""
    script = "([selector, colour]) => getComputedStyle(document.querySelector(selector))[colour]"
    said: str = page.evaluate(script, [selector, colour])
    parts = [int(part) / 255 for part in said[said.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(ink: float, paper: float) -> float:
    return (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
