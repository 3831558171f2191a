"""The pages: every public name has an example that runs, every page can be reached, every link leads somewhere."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import symdebias as sd

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text() for path in sorted(DOCS.glob("*.md"))}
TEXTS = {**{f"docs/{name}": text for name, text in PAGES.items()}, "README.md": (ROOT / "README.md").read_text()}
# Where a reader starts: each is linked from the README and from the front page.
READERS = {"analysing.md", "choosing.md", "collecting.md", "curating.md", "measurement_error.md", "new_loss.md"}
LISTS = re.findall(r"^```\{eval-rst\}\n(.*?)^```", PAGES["reference.md"], re.DOTALL | re.MULTILINE)
NAMES = [name for text in LISTS for name in re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def value(name):
    """The object of a name, some of whose parents are modules that are not imported with the root."""
    found, parts = sd, name.split(".")
    for depth, part in enumerate(parts, 1):
        found = getattr(found, part, None) or importlib.import_module(".".join(["symdebias", *parts[:depth]]))
    return found


def examples(found):
    """The lines of the examples of an object and of its own members that run."""
    members = vars(found).values() if inspect.isclass(found) else ()
    texts = [getattr(one, "__doc__", None) or "" for one in (found, *members)]
    return [line for text in texts for line in re.findall(r"^\s*>>> (.*)$", text, re.MULTILINE) if "+SKIP" not in line]


def prose(text):
    """A page without its code and formulas, in which brackets are no links."""
    for code in (r"^ *(```|~~~).*?^ *\1", r"`[^`\n]*`", r"\$\$.*?\$\$", r"\$[^$]*\$"):
        text = re.sub(code, "", text, flags=re.DOTALL | re.MULTILINE)
    return text


def anchors(text):
    """The anchors that headings of a page make."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_name_has_an_example_that_runs(name):
    assert [line for line in examples(value(name)) if not line.startswith(("import ", "from "))]


def test_no_name_is_listed_twice():
    assert len(NAMES) == len(set(NAMES))


def test_every_page_is_in_the_navigation_once():
    navigation = re.findall(r"<([\w-]+)>$", PAGES["index.md"], re.MULTILINE)
    assert sorted(navigation) == sorted(name.removesuffix(".md") for name in PAGES if name != "index.md")


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"index.md"}))
def test_every_page_is_linked_from_the_front_page_or_from_that_of_its_reader(name):
    starts = {"index.md", *READERS} - {name}
    assert name in {target.partition("#")[0] for start in starts for _, _, target in LINK.findall(PAGES[start])}


def test_readers_are_met_at_the_door():
    for door, prefix in (("README.md", "docs/"), ("docs/index.md", "")):
        targets = {target for _, _, target in LINK.findall(TEXTS[door])}
        assert {f"{prefix}{reader}" for reader in READERS} <= targets


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere_and_pictures_have_a_description(name):
    folder = (ROOT / name).parent
    for picture, words, target in LINK.findall(prose(TEXTS[name])):
        if target.startswith(("http://", "https://")):
            continue
        place, _, anchor = target.partition("#")
        if place.startswith("api/"):
            assert place.removeprefix("api/symdebias.").removesuffix(".rst") in NAMES, target
            continue
        path = folder / place if place else ROOT / name
        assert path.is_file(), target
        if picture:
            assert len(words.split()) > 8, target
        elif anchor:
            assert anchor in anchors(path.read_text()), target


def test_links_are_seen():
    page = "[page](a.md#part), `[no](link)`, $[n](o)$, [with `code` (in)](b.md), ![A](c.png)\n```text\n[no](d.md)\n```"
    assert [target for _, _, target in LINK.findall(prose(page))] == ["a.md#part", "b.md", "c.png"]
    assert anchors("# One, two: `three`\n```text\n# no\n```\n## Four-five?") == {"one-two-three", "four-five"}
    assert examples(examples) == []


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"index.md"}))
def test_a_page_begins_with_its_answer_and_not_with_a_section(name):
    title, blank, answer = PAGES[name].split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert answer
    assert not answer.startswith("#")
