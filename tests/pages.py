"""Pages as a browser reads them, and names that would be markup if they were not escaped."""

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script>&lt;b&gt;\"'"
LATEX = r"x}\href{javascript:alert(1)}{$y^2_1%<img>"


class Reader(HTMLParser):
    """What a page holds, read as a browser reads it."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.open = set(), "", []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
