"""docs/glossary.md: one word for one thing, with its opposite and the file where it lives."""

import re

from tests.support.page import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()
    if re.match(r"\| (?!word )\w", line)
]


def test_every_word_has_one_meaning_an_opposite_and_a_home() -> None:
    assert 25 <= len(ROWS) <= 45
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []
    words = [row[0] for row in ROWS]
    assert sorted(words) == sorted(set(words)), "a word is there twice"


def test_the_home_of_a_word_exists() -> None:
    homes = [row[3].strip("`") for row in ROWS]
    missing = [home for home in homes if not (ROOT / "src/relevo" / home).is_file()]
    assert missing == []
